/** What a policy says of MCP servers, and what it is refused for. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkPolicy, inspectRestricted, loadPolicy } from '../../../src/policy/policy.ts'

const textOf = (servers: string, more = ''): string => `version: 1\n${more}mcp_servers:\n${servers}`
const load = (text: string) => loadPolicy([{ file: 'p.yaml', text }], { policyDirs: [] })
const errorsOf = (...texts: readonly string[]): string[] =>
  checkPolicy(
    texts.map((text, index) => ({ file: `${index}.yaml`, text })),
    { policyDirs: [] },
  ).errors.map(({ file, line, message }) => `${file}:${line}: ${message}`)

test('a program with a secret, with tools, a workspace or an image is in a container of its own; one without is the agent’s', () => {
  const { mcpServers } = load(
    textOf(`  - {name: plain, command: [a, b], env: {X: "1"}}
  - {name: secret, command: [a], env: {X: "a\${secret:K}b"}}
  - {name: tools, command: [a], tools: ["get_*"]}
  - {name: place, command: [a], workspace: ro}
  - {name: image, command: [a], image: "node:24"}
`),
  )
  assert.deepEqual(
    mcpServers.map((server) => [server.name, server.kind === 'stdio' && server.isContained]),
    [
      ['plain', false],
      ['secret', true],
      ['tools', true],
      ['place', true],
      ['image', true],
    ],
  )
})

test('a server elsewhere is a route and a credential for that route alone, whose secrets are for it', () => {
  const policy = load(
    textOf(
      `  - {name: far, url: "https://mcp.example.com/v1/", headers: {Authorization: "Bearer \${secret:A}", X-Key: "\${secret:B}", X-Org: acme}}\n`,
      'secrets: [{name: A, source: "env:A", resources: ["tool:far"]}]\n',
    ),
  )
  const [route] = policy.routes
  assert.deepEqual([route?.name, route?.basePath, route?.credential, route?.ofServer], ['mcp-far', '/v1', 'mcp-far', 'far'])
  const facts = { scheme: 'https', host: route?.host ?? assert.fail(), port: 443, method: 'POST', path: '/v1' } as const
  assert.equal(policy.credentialFor(facts), undefined)
  assert.deepEqual(policy.credentialFor(facts, 'mcp-far')?.place, { kind: 'header', header: 'Authorization', prefix: 'Bearer ' })
  assert.deepEqual(
    policy.secrets.map(({ name, source, uses }) => [name, source.kind, uses]),
    [
      ['A', 'env', ['tool:far', 'route:mcp-far']],
      ['B', 'vault', ['tool:far', 'route:mcp-far']],
    ],
  )
})

for (const { what, servers, message } of [
  { what: 'neither a command nor a url', servers: '  - {name: a}\n', message: /one of command and url/ },
  { what: 'both', servers: '  - {name: a, command: [x], url: "https://a.example.com"}\n', message: /one of command and url/ },
  { what: 'the name of the gate', servers: '  - {name: sallyport, command: [x]}\n', message: /the gate's own/ },
  { what: 'a name in capitals', servers: '  - {name: GitHub, command: [x]}\n', message: /lower-case letters/ },
  {
    what: 'a secret in clear text',
    servers: '  - {name: a, command: [x], env: {API_KEY: abcdefgh}}\n',
    message: /API_KEY looks like a secret.*secret set/,
  },
  {
    what: 'a key of a known kind under any name',
    servers: '  - {name: a, command: [x], env: {X: ghp_0123456789abcdefghij0123}}\n',
    message: /X looks like a secret/,
  },
  { what: 'a reference in an argument', servers: '  - {name: a, command: [x, "--key=${secret:K}"]}\n', message: /in an argument/ },
  {
    what: 'a secret in an argument',
    servers: '  - {name: a, command: [x, "--api-key=abcdefgh"]}\n',
    message: /an argument looks like a secret/,
  },
  {
    what: 'a secret behind its option',
    servers: '  - {name: a, command: [x, --token, abcdefgh]}\n',
    message: /an argument looks like a secret/,
  },
  {
    what: 'a secret in a field that an argument has',
    servers: '  - {name: a, command: [x, --header, "Authorization: Bearer abcdefgh"]}\n',
    message: /an argument looks like a secret/,
  },
  { what: 'a reference that is not closed', servers: '  - {name: a, command: [x], env: {X: "${secret:K"}}\n', message: /not closed/ },
  {
    what: 'a header with text behind its secret',
    servers: '  - {name: a, url: "https://a.example.com", headers: {X: "${secret:K}x"}}\n',
    message: /at its end/,
  },
  {
    what: 'a header of the transport',
    servers: '  - {name: a, url: "https://a.example.com", headers: {Mcp-Session-Id: x}}\n',
    message: /transport's own/,
  },
  {
    what: 'a field of programs at a url',
    servers: '  - {name: a, url: "https://a.example.com", workspace: ro}\n',
    message: /workspace is for servers with command/,
  },
  { what: 'a url with a query', servers: '  - {name: a, url: "https://a.example.com/?key=1"}\n', message: /query or fragment/ },
  { what: 'a misspelled field', servers: '  - {name: a, comand: [x]}\n', message: /did you mean "command"/ },
  { what: 'a variable of the gate', servers: '  - {name: a, command: [x], env: {SALLYPORT_LEASE: x}}\n', message: /the gate's to set/ },
])
  test(`a server with ${what} is refused, without the value`, () => {
    const errors = errorsOf(textOf(servers))
    assert.equal(errors.length, 1, errors.join('\n'))
    assert.match(errors[0] ?? '', message)
    assert.doesNotMatch(errors[0] ?? '', /abcdefgh|ghp_0123/)
  })

test('arguments that say where a secret is, or what is done with one, are none', () => {
  const words = [
    '--token-file',
    '/run/token-of-mine',
    '--auth',
    'oauth',
    '--key',
    './key-file.pem',
    'KEY=$OTHER_KEY',
    'https://a.example.com:8443/x?page=12345678',
  ]
  const code = ['-e', "const token = process.env.TOKEN; print('key: ' + token, { token: read() })"]
  assert.deepEqual(errorsOf(textOf(`  - {name: a, command: ${JSON.stringify(['x', ...words, ...code])}}\n`)), [])
})

test('a later layer may say the same of a server again, and nothing else of it: the error names both places', () => {
  const same = textOf('  - {name: a, command: [x], env: {B: "1", A: "2"}}\n')
  assert.deepEqual(errorsOf(same, textOf('  - {name: a, env: {A: "2", B: "1"}, command: [x]}\n')), [])
  const [error, ...more] = errorsOf(same, textOf('  - {name: a, command: [z]}\n'))
  assert.deepEqual(more, [])
  assert.match(error ?? '', /^1\.yaml:3: MCP server "a" is another one at 0\.yaml:3/)
})

test('a secret that the policy declares for something else is refused to a server', () => {
  const [error] = errorsOf(
    textOf('  - {name: a, command: [x], env: {X: "${secret:K}"}}\n', 'secrets: [{name: K, source: "env:K", resources: [inject]}]\n'),
  )
  assert.match(error ?? '', /"K" \(0\.yaml:2\) is not for it: add tool:a/)
})

test('a workspace’s own policy has no servers and no word on them before it is trusted', () => {
  const { allows } = inspectRestricted({ file: 'own.yaml', text: textOf('  - {name: a, command: [x]}\n', 'mcp: {user_servers: keep}\n') })
  assert.deepEqual(
    allows.map(({ message }) => message),
    ['mcp: user_servers', 'MCP server "a" runs "x"'],
  )
})

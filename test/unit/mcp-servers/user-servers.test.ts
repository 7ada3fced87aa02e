/** The operator's own configuration of each harness: what of it a session keeps, and what it never gets. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { policyText } from '../../../src/controller/mcp-servers/entries.ts'
import { keepUserServers, userValues } from '../../../src/controller/mcp-servers/user-servers.ts'
import { loadPolicy, parseSource } from '../../../src/policy/policy.ts'

const VALUE = 'user-canary-33f1'
const NEVER = new AbortController().signal

/** By harness: its file, with a program that has a secret, one that has none, and a server elsewhere with a header. */
const FILES: Readonly<Record<string, { path: string; text: string }>> = {
  claude: {
    path: '.claude.json',
    text: JSON.stringify({
      mcpServers: {
        'Git Hub': { type: 'stdio', command: 'npx', args: ['-y', 'hub'], env: { HUB_TOKEN: VALUE, MODE: 'fast' } },
        plain: { command: 'uvx', args: ['plain'], env: { MODE: 'fast' } },
        far: { type: 'http', url: 'https://far.example.com/mcp', headers: { Authorization: `Bearer ${VALUE}` } },
        old: { type: 'sse', url: 'https://old.example.com/sse' },
      },
    }),
  },
  codex: {
    path: '.codex/config.toml',
    text: `model = "x"
[mcp_servers."Git Hub"]
command = "npx"
args = ["-y", "hub"]
env = { HUB_TOKEN = "${VALUE}", MODE = "fast" }
[mcp_servers.plain]
command = "uvx"
args = ["plain"]
env = { MODE = "fast" }
[mcp_servers.far]
url = "https://far.example.com/mcp"
bearer_token_env_var = "FAR_TOKEN"
[mcp_servers.off]
command = "x"
enabled = false
`,
  },
  gemini: {
    path: '.gemini/settings.json',
    text: `{ // comments are read
  "mcpServers": {
    "Git Hub": {"command": "npx", "args": ["-y", "hub"], "env": {"HUB_TOKEN": "$HUB_TOKEN", "MODE": "fast"}},
    "plain": {"command": "uvx", "args": ["plain"], "env": {"MODE": "fast"}},
    "far": {"httpUrl": "https://far.example.com/mcp", "headers": {"Authorization": "Bearer ${VALUE}"}},
  }
}`,
  },
  opencode: {
    path: '.config/opencode/opencode.json',
    text: JSON.stringify({
      mcp: {
        'Git Hub': { type: 'local', command: ['npx', '-y', 'hub'], environment: { HUB_TOKEN: '{env:HUB_TOKEN}', MODE: 'fast' } },
        plain: { type: 'local', command: ['uvx', 'plain'], environment: { MODE: 'fast' } },
        far: { type: 'remote', url: 'https://far.example.com/mcp', headers: { Authorization: 'Bearer {env:FAR_TOKEN}' } },
        off: { type: 'local', command: ['x'], enabled: false },
      },
    }),
  },
  cursor: {
    path: '.cursor/mcp.json',
    text: JSON.stringify({
      mcpServers: {
        'Git Hub': { command: 'npx', args: ['-y', 'hub'], env: { HUB_TOKEN: '${env:HUB_TOKEN}', MODE: 'fast' } },
        plain: { command: 'uvx', args: ['plain'], env: { MODE: 'fast' } },
        far: { url: 'https://far.example.com/mcp', headers: { Authorization: `Bearer ${VALUE}` } },
      },
    }),
  },
  copilot: {
    path: '.copilot/mcp-config.json',
    text: JSON.stringify({
      mcpServers: {
        'Git Hub': { type: 'local', command: 'npx', args: ['-y', 'hub'], env: { HUB_TOKEN: VALUE, MODE: 'fast' }, tools: ['*'] },
        plain: { type: 'local', command: 'uvx', args: ['plain'], env: { MODE: 'fast' }, tools: ['*'] },
        far: { type: 'http', url: 'https://far.example.com/mcp', headers: { Authorization: `Bearer ${VALUE}` }, tools: ['*'] },
      },
    }),
  },
}

function placeWith(path: string, text: string, env: Record<string, string> = {}) {
  const home = mkdtempSync(join(tmpdir(), 'sallyport-user-'))
  const file = join(home, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
  return { home, env, file, [Symbol.dispose]: () => rmSync(home, { recursive: true, force: true }) }
}

for (const [harness, { path, text }] of Object.entries(FILES))
  test(`of ${harness} a value that is a secret is named and not taken, read when it is used, and its file is left as it is`, async () => {
    using place = placeWith(path, text, { HUB_TOKEN: VALUE, FAR_TOKEN: VALUE })
    const kept = keepUserServers(place, harness, new Set())
    assert.equal(kept.file, place.file)
    const written = policyText(kept.servers, kept.secrets)
    assert.ok(!`${written}${kept.notes.join('\n')}`.includes(VALUE))
    const { mcpServers, secrets, routes } = loadPolicy([{ file: 'kept.yaml', text: written }], { policyDirs: [] })
    assert.deepEqual(
      mcpServers.map((server) => [
        server.name,
        server.kind === 'stdio' && server.isContained,
        server.kind === 'stdio' ? server.command : server.url,
      ]),
      [
        ['git-hub', true, ['npx', '-y', 'hub']],
        ['plain', false, ['uvx', 'plain']],
        ['far', false, 'https://far.example.com/mcp'],
      ],
    )
    assert.deepEqual(
      routes.map(({ name, credential }) => [name, credential]),
      [['mcp-far', 'mcp-far']],
    )
    const values = await Promise.all(
      secrets.map(async ({ name, source }) => {
        assert.ok(source.kind === 'mcp-config')
        return (await userValues(place).get(name, source, NEVER, {})).reveal()
      }),
    )
    assert.deepEqual(values, [VALUE, `Bearer ${VALUE}`])
    assert.equal(readFileSync(place.file, 'utf8'), text)
    if (harness === 'claude') assert.match(kept.notes.at(-1) ?? '', /"old" of .* is left out: its transport is sse/)
  })

test('a server without a secret that is elsewhere is called by the agent itself; one whose name is taken is left out', () => {
  using place = placeWith(
    '.cursor/mcp.json',
    JSON.stringify({ mcpServers: { far: { url: 'https://far.example.com/mcp' }, mine: { command: 'x' } } }),
  )
  const kept = keepUserServers(place, 'cursor', new Set(['mine']))
  assert.deepEqual(kept.called, [{ name: 'far', url: 'https://far.example.com/mcp' }])
  assert.deepEqual(kept.servers, [])
  assert.match(kept.notes.at(-1) ?? '', /sessions have "mine" already/)
})

for (const { what, text } of [
  { what: 'is no JSON', text: `{"mcpServers": {"a": {"env": {"K": "${VALUE}` },
  { what: 'is something else', text: '[]' },
  {
    what: 'has servers that are none',
    text: '{"mcpServers": {"a": 1, "b": {"args": 2}, "": {"command": "x"}, "c": {"command": "x", "args": ["--token=abcdefgh"]}, "d": {"url": "https://u:p@x.example.com"}}}',
  },
])
  test(`a file that ${what} is a note at most, without its text, and no failure`, () => {
    using place = placeWith('.cursor/mcp.json', text)
    const kept = keepUserServers(place, 'cursor', new Set())
    assert.deepEqual([kept.servers, kept.called, kept.secrets], [[], [], []])
    assert.doesNotMatch(kept.notes.join('\n'), new RegExp(`${VALUE}|abcdefgh|u:p`))
  })

/** Nobody's, and of no known form. */
const OPAQUE = 'Zq81kd0aLx77Pw2mN4'
for (const [what, server] of Object.entries({
  'behind its option': { command: 'x', args: ['--api-key', OPAQUE] },
  'in a header of a proxy of MCP': {
    command: 'npx',
    args: ['mcp-remote', 'https://a.example.com', '--header', `Authorization: Bearer ${OPAQUE}`],
  },
  'in a variable of docker': { command: 'docker', args: ['run', '-e', 'GITHUB_TOKEN=abcdefgh-ijkl', 'image'] },
  'in the query of an argument': { command: 'npx', args: ['mcp-remote', 'https://a.example.com/mcp?api_key=abcdefgh-ijkl'] },
  'in a command of the shell': { command: 'sh', args: ['-c', 'API_KEY=abcdefgh-ijkl exec x'] },
  'by itself': { command: 'x', args: [OPAQUE] },
  'in the path of its url': { url: `https://a.example.com/s/${OPAQUE}/mcp` },
}))
  test(`a server with a key ${what} is left out: the agent would have it`, () => {
    using place = placeWith('.cursor/mcp.json', JSON.stringify({ mcpServers: { keyed: server } }))
    const kept = keepUserServers(place, 'cursor', new Set())
    assert.deepEqual([kept.servers, kept.called, kept.secrets], [[], [], []])
    assert.match(kept.notes.join(), /left out/)
    assert.doesNotMatch(kept.notes.join(), new RegExp(`${OPAQUE}|abcdefgh-ijkl`))
  })

test('variables that have a key under another name are held back as well, and those that say what everybody may read are not', () => {
  const keyed = { SLACK_URL: `https://hooks.example.com/T0/${OPAQUE}`, CONNECTION: 'Server=a;Password=abcdefgh', OPENAI: OPAQUE }
  const plain = { ROOT: '/home/me/a0b1c2d3e4f5a6b7c8', MODE: 'fast', REGION: 'eu-central-1', TOKEN_FILE: '/run/secrets/token' }
  using place = placeWith(
    '.cursor/mcp.json',
    JSON.stringify({
      mcpServers: { keyed: { command: 'x', env: keyed }, plain: { command: 'x', args: ['--key-file', '/x/y'], env: plain } },
    }),
  )
  const kept = keepUserServers(place, 'cursor', new Set())
  assert.equal(kept.secrets.length, 3)
  assert.ok(!policyText(kept.servers, kept.secrets).includes(OPAQUE))
  assert.deepEqual(
    kept.servers.find(({ name }) => name === 'plain'),
    { name: 'plain', command: ['x', '--key-file', '/x/y'], env: plain },
  )
})

test('a server that a policy would be refused for is left out, and no other one with it', () => {
  const mcpServers = {
    variable: { command: 'x', env: { 'FOO-BAR': 'x' } },
    loader: { command: 'x', env: { LD_PRELOAD: '/x.so' } },
    field: { url: 'https://a.example.com/mcp', headers: { 'Content-Type': 'application/json' } },
    long: { command: 'x', args: ['a '.repeat(5_000)] },
    port: { url: 'https://a.example.com:99999/mcp', headers: { 'X-A': 'b' } },
    good: { command: 'x' },
  }
  using place = placeWith('.cursor/mcp.json', JSON.stringify({ mcpServers }))
  const kept = keepUserServers(place, 'cursor', new Set())
  assert.deepEqual(
    kept.servers.map(({ name }) => name),
    ['good'],
  )
  assert.equal(kept.notes.filter((note) => note.includes('left out')).length, 5)
  loadPolicy([{ file: 'kept.yaml', text: policyText(kept.servers, kept.secrets) }], { policyDirs: [] })
})

test('a value that went from the file since is missing, by name', async () => {
  using place = placeWith('.cursor/mcp.json', '{"mcpServers": {}}')
  const source = parseSource('mcp-config:cursor/a/env/K')
  assert.ok(typeof source !== 'string' && source.kind === 'mcp-config')
  await assert.rejects(userValues(place).get('mcp.a.K', source, NEVER, {}), { code: 'secret_missing', message: /has no K in env of "a"/ })
})

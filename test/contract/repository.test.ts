import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { projectFiles, readProject } from '../support/tree.ts'

const FILES = projectFiles()
const SOURCES = FILES.filter((file) => /^src\/.*\.ts$/.test(file))

test('the version of the sources is that of package.json and of its lock', () => {
  const manifest = JSON.parse(readProject('package.json')) as { version: string }
  const lock = JSON.parse(readProject('package-lock.json')) as { version: string; packages: Record<string, { version?: string }> }
  assert.equal(VERSION, manifest.version)
  assert.equal(lock.version, VERSION)
  assert.equal(lock.packages['']?.version, VERSION)
})

test('CHANGELOG.md has the version', () => {
  assert.match(readProject('CHANGELOG.md'), new RegExp(`^## .*${VERSION.replaceAll('.', '\\.')}`, 'm'))
})

for (const name of Object.keys(LIMITS)) {
  test(`the limit ${name} has its unit in its name and is used`, () => {
    assert.match(
      name,
      /(?:Bytes|Cpus|Pids|Fields|Chars|Files|Connections|Requests|Pools|Queue|Cache|Answers|pipelined|requests|connections|Max|Ms)(?:Max|Min|Ms)?$/,
    )
    assert.ok(
      SOURCES.some(
        (file) => file !== 'src/kernel/limits.ts' && new RegExp(`LIMITS\\.${name}\\b(?!\`)`).test(withoutComments(readProject(file))),
      ),
      `no source uses LIMITS.${name}`,
    )
  })
}

test('no source has more than 400 lines', () => {
  for (const file of SOURCES) {
    const lines = readProject(file).split('\n').length - 1
    assert.ok(lines <= 400, `${file} has ${lines}`)
  }
})

test('what talks to the engine and what speaks MCP is imported in one place each', () => {
  for (const [name, place] of [
    ['dockerode', /^src\/controller\/sessions\/docker-engine\.ts$/],
    ['@modelcontextprotocol/', /^src\/sidecar\/gateway\/mcp(?:-[a-z]+)?\.ts$/],
  ] as const) {
    const users = SOURCES.filter((file) => withoutComments(readProject(file)).includes(`from '${name}`))
    assert.notEqual(users.length, 0, name)
    for (const file of users) assert.match(file, place)
  }
})

test('a secret is revealed where it is written into a request, exchanged, signed with, searched for, stored, sealed, handed to a program beside the agent, unlocked with, filled in or copied by the operator, and where the operator’s password is given or looked at, or that of a server or proxy of theirs', () => {
  const users = SOURCES.filter((file) => file !== 'src/kernel/secret.ts' && withoutComments(readProject(file)).includes('.reveal()'))
  assert.deepEqual(users.toSorted(), [
    'src/cli/approver.ts',
    'src/cli/proposals.ts',
    'src/cli/send-answer.ts',
    'src/controller/executor/joint-redaction.ts',
    'src/controller/handles/use-values.ts',
    'src/controller/mcp-servers/operator-servers.ts',
    'src/controller/mcp-servers/tool-connections.ts',
    'src/controller/notify/ntfy.ts',
    'src/controller/notify/post.ts',
    'src/controller/operator/secret-routes.ts',
    'src/controller/presence/password.ts',
    'src/controller/providers/programs.ts',
    'src/controller/providers/providers.ts',
    'src/controller/providers/references.ts',
    'src/controller/providers/vault-http.ts',
    'src/controller/session-secrets.ts',
    'src/controller/sessions/sibling-shim.ts',
    'src/controller/sessions/sibling-streams.ts',
    'src/controller/sessions/sibling-wish.ts',
    'src/controller/terminal/redacted.ts',
    'src/credential/aws-signature.ts',
    'src/credential/body.ts',
    'src/credential/place.ts',
    'src/credential/run-command.ts',
    'src/credential/token-exchange.ts',
    'src/kernel/stretch.ts',
    'src/redactor/patterns.ts',
    'src/sidecar/upstream/proxy.ts',
    'src/vault/rows.ts',
    'src/vault/unlock.ts',
  ])
})

test('no source writes to the console, and none takes its clock or chance past the door', () => {
  // Commands and the page are where a person is: nothing of theirs decides.
  for (const file of SOURCES.filter((name) => !/^src\/(?:cli|web)\//.test(name) && name !== 'src/main.ts')) {
    const text = withoutComments(readProject(file))
    assert.doesNotMatch(text, /\bconsole\.|process\.env\b|Math\.random/, file)
    if (file !== 'src/kernel/system.ts') assert.doesNotMatch(text, /Date\.now\(|new Date\(\)|performance\.now\(/, file)
  }
})

/** Put together here, so that this file is not one that has them. `isService`: a preset may be about it. */
const REGISTRIES = [
  { labels: ['registry', 'npmjs', 'org'] },
  { labels: ['registry', 'yarnpkg', 'com'] },
  { labels: ['unpkg', 'com'] },
  { labels: ['deb', 'debian', 'org'] },
  { labels: ['security', 'debian', 'org'] },
  { labels: ['pypi', 'org'], isService: true },
  { labels: ['files', 'pythonhosted', 'org'], isService: true },
  { labels: ['crates', 'io'], isService: true },
  { labels: ['proxy', 'golang', 'org'], isService: true },
  { labels: ['rubygems', 'org'], isService: true },
  { labels: ['registry-1', 'docker', 'io'], isService: true },
  { labels: ['ghcr', 'io'], isService: true },
  { labels: ['quay', 'io'], isService: true },
].map(({ labels, isService = false }) => ({ host: labels.join('.'), isService }))
/** Presets, the table that is made of them, and the requests that they are tested with. */
const PRESETS = /^(?:policies\/service\/[a-z0-9-]+\.yaml|docs\/SERVICES\.md|test\/(?:e2e|support)\/service-[a-z-]+\.ts)$/
/** Folders of a machine that somebody worked on. */
const MACHINE = new RegExp(String.raw`(?<![\w.$}])/(?:${['work', 'root', 'Users'].join('|')})/`)

test('no file of the project names a host of a package registry, but for presets that are about it', () => {
  for (const file of FILES) {
    const text = readProject(file)
    for (const { host, isService } of REGISTRIES) {
      if (!isService || !PRESETS.test(file)) assert.equal(text.includes(host), false, `${file}: ${host}`)
    }
  }
})

test('no file of the project names a path of the machine that it was made on', () => {
  for (const file of FILES.filter((name) => name !== 'package-lock.json')) {
    const line = readProject(file)
      .split('\n')
      .find((text) => MACHINE.test(text))
    assert.equal(line, undefined, file)
  }
})

test('no file of the project holds a private key', () => {
  for (const file of FILES) {
    const text = readProject(file)
    assert.doesNotMatch(text, /-----BEGIN (?:EC |RSA )?PRIVATE KEY-----\n[A-Za-z0-9+/=]{20}/, file)
  }
})

function withoutComments(text: string): string {
  return text.replace(/\/\*[^]*?\*\//g, '').replace(/(?<!:)\/\/.*$/gm, '')
}

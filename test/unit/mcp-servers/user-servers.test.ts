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

test('a value that went from the file since is missing, by name', async () => {
  using place = placeWith('.cursor/mcp.json', '{"mcpServers": {}}')
  const source = parseSource('mcp-config:cursor/a/env/K')
  assert.ok(typeof source !== 'string' && source.kind === 'mcp-config')
  await assert.rejects(userValues(place).get('mcp.a.K', source, NEVER, {}), { code: 'secret_missing', message: /has no K in env of "a"/ })
})

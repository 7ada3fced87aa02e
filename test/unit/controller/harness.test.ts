import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from 'smol-toml'
import {
  buildCommandOf,
  HARNESS_NAMES,
  harnessOf,
  type Harness,
  type HarnessSetting,
  type McpServer,
} from '../../../src/controller/sessions/harness.ts'
import { loadPolicy } from '../../../src/policy/policy.ts'
import { ROOT } from '../../../scripts/steps.ts'
import { projectFiles, readProject } from '../../support/tree.ts'

const SETTING: HarnessSetting = { workspace: '/workspace', secrets: [], placeholders: {}, mcpServers: [], now: Date.UTC(2026, 0, 2) }
/** As plain objects, which those of the parser are not. */
const tomlOf = (text: string): Record<string, unknown> => JSON.parse(JSON.stringify(parse(text))) as Record<string, unknown>
const fileOf = (harness: Harness, path: string): string => harness.homeFiles.find((file) => file.path === path)?.content ?? ''

test('there is a harness for each preset, a target of the Dockerfile for each harness, and no other', () => {
  const presets = projectFiles().flatMap((file) => /^policies\/harness\/([a-z]+)\.yaml$/.exec(file)?.[1] ?? [])
  assert.deepEqual(HARNESS_NAMES.filter((name) => name !== 'plain').toSorted(), presets.filter((name) => name !== 'template').toSorted())
  const targets = new Set([...readProject('docker/agent.Dockerfile').matchAll(/^FROM .* AS ([a-z]+)$/gm)].map((match) => match[1]))
  for (const name of HARNESS_NAMES.filter((one) => harnessOf(one, SETTING).image !== undefined)) {
    assert.ok(targets.has(name), name)
    assert.match(buildCommandOf(name), new RegExp(`--target ${name} `))
  }
})

test('the policy that a harness names is one that can be loaded', () => {
  for (const name of HARNESS_NAMES) {
    const { policy } = harnessOf(name, SETTING)
    if (policy !== undefined) loadPolicy([`${ROOT}/policies/harness/${policy}.yaml`], { policyDirs: [`${ROOT}/policies`] })
  }
})

for (const { harness, secret, variable } of [
  { harness: 'claude', secret: 'ANTHROPIC_API_KEY', variable: 'ANTHROPIC_API_KEY' },
  { harness: 'claude', secret: 'CLAUDE_CODE_OAUTH_TOKEN', variable: 'CLAUDE_CODE_OAUTH_TOKEN' },
  { harness: 'gemini', secret: 'GEMINI_API_KEY', variable: 'GEMINI_API_KEY' },
  { harness: 'opencode', secret: 'OPENAI_API_KEY', variable: 'OPENAI_API_KEY' },
]) {
  test(`${harness} finds a worthless value in ${variable} when the policy has ${secret}, and none otherwise`, () => {
    assert.match(harnessOf(harness, { ...SETTING, secrets: [secret] }).environment[variable] ?? '', /SALLYPORT/)
    assert.equal(harnessOf(harness, SETTING).environment[variable], undefined)
  })
}

test('claude never gets two credentials: both headers in one request are an error', () => {
  const { environment } = harnessOf('claude', { ...SETTING, secrets: ['CLAUDE_CODE_OAUTH_TOKEN', 'ANTHROPIC_API_KEY'] })
  assert.equal(Object.keys(environment).filter((name) => /API_KEY|OAUTH/.test(name)).length, 1)
})

test('claude has approved the key that it will find, also when a placeholder of the policy stands there', () => {
  const approvedOf = (setting: HarnessSetting): unknown =>
    JSON.parse(fileOf(harnessOf('claude', setting), '.claude.json')).customApiKeyResponses?.approved
  const own = harnessOf('claude', { ...SETTING, secrets: ['ANTHROPIC_API_KEY'] }).environment['ANTHROPIC_API_KEY'] ?? ''
  assert.deepEqual(approvedOf({ ...SETTING, secrets: ['ANTHROPIC_API_KEY'] }), [own.slice(-20)])
  const placeholders = { ANTHROPIC_API_KEY: 'sk-ant-api03-0123456789abcdefghijklmnopqrstuv' }
  assert.deepEqual(approvedOf({ ...SETTING, placeholders }), ['cdefghijklmnopqrstuv'])
})

test('a Gemini key has the 39 characters that such keys have', () => {
  assert.equal(harnessOf('gemini', { ...SETTING, secrets: ['GEMINI_API_KEY'] }).environment['GEMINI_API_KEY']?.length, 39)
})

test('a workspace with quotes in its path stays one value in every file', () => {
  const workspace = '/w"]\ntrust = "x'
  for (const name of HARNESS_NAMES) {
    const { homeFiles } = harnessOf(name, { ...SETTING, workspace })
    for (const { path, content } of homeFiles) if (path.endsWith('.json')) JSON.parse(content)
    const config = homeFiles.find(({ path }) => path.endsWith('config.toml'))
    if (config !== undefined) assert.deepEqual(tomlOf(config.content)['projects'], { [workspace]: { trust_level: 'trusted' } })
  }
})

test('no file leaves HOME, and none is a credential store that could hold a real one', () => {
  for (const name of HARNESS_NAMES) {
    const { homeFiles } = harnessOf(name, { ...SETTING, secrets: ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY'] })
    for (const { path } of homeFiles) assert.match(path, /^\.[a-z]/i)
    for (const { path } of homeFiles) assert.ok(!path.includes('..'))
  }
})

test('a name that is no harness is refused, with the nearest', () => {
  assert.throws(() => harnessOf('cluade', SETTING), { code: 'usage', message: /did you mean "claude"/ })
  assert.throws(() => harnessOf('constructor', SETTING), { code: 'usage' })
})

const SERVERS: readonly McpServer[] = [
  { name: 'notes', url: 'http://sallyport:7070/mcp/notes' },
  { name: 'elsewhere', url: 'https://mcp.example.com/mcp' },
  { name: 'local', command: 'node', args: ['a "b"', '$HOME'], env: { MODE: 'x\ny' } },
]
const READY: HarnessSetting = { ...SETTING, mcpServers: SERVERS }

/** What a harness has of the servers, by their names, wherever it has them. */
function registered(name: string, setting: HarnessSetting): Record<string, Record<string, unknown>> {
  for (const { path, content } of harnessOf(name, setting).homeFiles) {
    const parsed: Record<string, unknown> = path.endsWith('.toml') ? tomlOf(content) : (JSON.parse(content) as Record<string, unknown>)
    const servers = parsed['mcpServers'] ?? parsed['mcp_servers'] ?? parsed['mcp']
    if (servers !== undefined) return servers as Record<string, Record<string, unknown>>
  }
  return {}
}

for (const { name, lease, waits } of [
  { name: 'claude', lease: 'Bearer ${SALLYPORT_LEASE}', waits: { timeout: 120_000 } },
  { name: 'codex', lease: undefined, waits: { tool_timeout_sec: 120 } },
  { name: 'gemini', lease: 'Bearer $SALLYPORT_LEASE', waits: { timeout: 120_000 } },
  { name: 'opencode', lease: 'Bearer {env:SALLYPORT_LEASE}', waits: { timeout: 120_000 } },
  { name: 'copilot', lease: 'Bearer ${SALLYPORT_LEASE}', waits: { timeout: 120_000 } },
  { name: 'cursor', lease: 'Bearer ${env:SALLYPORT_LEASE}', waits: {} },
]) {
  const keyOf = (server: Record<string, unknown> = {}): unknown =>
    server['bearer_token_env_var'] ?? (server['headers'] as Record<string, unknown> | undefined)?.['Authorization']

  test(`${name} is told of the gate’s tools and of each server of the session, and to wait for an answer as long as a person takes`, () => {
    const servers = registered(name, READY)
    assert.deepEqual(Object.keys(servers), ['sallyport', 'notes', 'elsewhere', 'local'])
    assert.deepEqual(Object.keys(registered(name, SETTING)), ['sallyport'])
    assert.equal(servers['sallyport']?.['url'], 'http://sallyport:7070/mcp')
    assert.equal(servers['notes']?.['url'], 'http://sallyport:7070/mcp/notes')
    const { command, args, env, environment } = servers['local'] ?? {}
    assert.deepEqual([command, args ?? []].flat(2), ['node', 'a "b"', '$HOME'])
    assert.deepEqual(env ?? environment, { MODE: 'x\ny' })
    for (const [key, value] of Object.entries(waits)) for (const server of Object.values(servers)) assert.equal(server[key], value, key)
  })

  test(`I1 ${name} finds the lease in its environment by itself: its settings name the variable, for the gate’s own URLs and no other`, () => {
    const servers = registered(name, READY)
    const expected = lease ?? 'SALLYPORT_LEASE'
    assert.deepEqual([keyOf(servers['sallyport']), keyOf(servers['notes'])], [expected, expected])
    for (const other of ['elsewhere', 'local']) assert.ok(!JSON.stringify(servers[other]).includes('SALLYPORT_LEASE'), other)
  })
}

test('a program is only told to trust the gate’s own tools: those of other servers are asked about as it does by itself', () => {
  const trusted = (name: string): string[] =>
    harnessOf(name, READY).homeFiles.flatMap(({ content }) =>
      [...content.matchAll(/"?(?:trust"?: true|default_tools_approval_mode)/g)].map(String),
    )
  assert.equal(trusted('gemini').length, 1)
  assert.equal(trusted('codex').length, 1)
  assert.deepEqual(JSON.parse(fileOf(harnessOf('claude', READY), '.claude/settings.json')).permissions, { allow: ['mcp__sallyport'] })
  assert.deepEqual(JSON.parse(fileOf(harnessOf('opencode', READY), '.config/opencode/opencode.json')).permission, {
    'sallyport_*': 'allow',
  })
  assert.deepEqual(
    JSON.parse(fileOf(harnessOf('copilot', READY), '.copilot/permissions-config.json')).locations['/workspace'].tool_approvals,
    [{ kind: 'mcp', serverName: 'sallyport', toolName: null }],
  )
  assert.deepEqual(JSON.parse(fileOf(harnessOf('cursor', READY), '.cursor/cli-config.json')).permissions.allow, ['Mcp(sallyport:*)'])
})

test('a file that says where servers are is one that the agent cannot write, but where its program keeps all it knows in it', () => {
  const written = HARNESS_NAMES.flatMap((name) => harnessOf(name, READY).homeFiles.filter(({ content }) => content.includes(':7070/mcp')))
  assert.deepEqual(
    written.filter(({ isRewritten }) => isRewritten).map(({ path }) => path),
    ['.claude.json'],
  )
})

test('a token for Copilot has the shape of a fine-grained one: others are refused by the program', () => {
  const token = harnessOf('copilot', { ...SETTING, secrets: ['COPILOT_GITHUB_TOKEN'] }).environment['COPILOT_GITHUB_TOKEN']
  assert.match(token ?? '', /^github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}$/)
})

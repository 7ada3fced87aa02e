/** The programs themselves, from their makers, in sessions of one daemon: each finds the gate's tools, and its model is reached through the gate. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { chownSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { ensureBaseImage } from '../../scripts/base-image.ts'
import { BUILT_HARNESSES, ensureHarnessImages } from '../../scripts/harness-images.ts'
import { capture, type Outcome } from '../../scripts/steps.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'
import { openModelUpstream, type ModelRequest, type ModelUpstream } from '../support/model-upstream.ts'

type Program = {
  readonly name: string
  /** Where its model is, and what the gate writes the key into. */
  readonly host: string
  readonly field: 'authorization' | 'x-api-key' | 'x-goog-api-key'
  readonly secret: string
  /** What its model knows a tool by. */
  readonly prefix: string
  readonly way: ModelRequest['way']
  /** Read-only, as it never writes them. */
  readonly settings: string
  readonly argv: (prompt: string) => readonly string[]
}

const PROGRAMS: readonly Program[] = [
  {
    name: 'claude',
    host: 'api.anthropic.com',
    field: 'x-api-key',
    secret: 'ANTHROPIC_API_KEY',
    prefix: 'mcp__sallyport__',
    way: 'http',
    settings: '.claude/settings.json',
    argv: (prompt) => ['claude', '-p', prompt, '--output-format', 'json'],
  },
  {
    name: 'codex',
    host: 'api.openai.com',
    field: 'authorization',
    secret: 'OPENAI_API_KEY',
    prefix: 'mcp__sallyport__',
    way: 'websocket',
    settings: '.codex/config.toml',
    argv: (prompt) => ['codex', 'exec', '--strict-config', '--json', prompt],
  },
  {
    name: 'gemini',
    host: 'generativelanguage.googleapis.com',
    field: 'x-goog-api-key',
    secret: 'GEMINI_API_KEY',
    prefix: 'mcp_sallyport_',
    way: 'http',
    settings: '.gemini/settings.json',
    // Without the name of a model it asks one first which to take.
    argv: (prompt) => ['gemini', '-p', prompt, '--model', 'gemini-2.5-pro', '--output-format', 'json'],
  },
  {
    name: 'opencode',
    host: 'api.anthropic.com',
    field: 'x-api-key',
    secret: 'ANTHROPIC_API_KEY',
    prefix: 'sallyport_',
    way: 'http',
    settings: '.config/opencode/opencode.json',
    argv: (prompt) => ['opencode', 'run', '--model', 'anthropic/claude-opus-4-5', prompt],
  },
  {
    name: 'copilot',
    host: 'api.individual.githubcopilot.com',
    field: 'authorization',
    secret: 'COPILOT_GITHUB_TOKEN',
    prefix: 'sallyport-',
    way: 'http',
    settings: '.copilot/mcp-config.json',
    argv: (prompt) => ['copilot', '-p', prompt, '--no-ask-user'],
  },
]
const TOOLS = ['host_run_capability', 'host_run', 'request_await']

const keys = new Map([...new Set(PROGRAMS.map(({ secret }) => secret))].map((secret) => [secret, `key-${randomBytes(20).toString('hex')}`]))
const keyOf = ({ secret }: Pick<Program, 'secret'>): string => keys.get(secret) ?? ''
/** In a file of the workspace that is hidden from agents. */
const known = `known-${randomBytes(8).toString('hex')}`

const PRIVATE = 'addresses: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]'
/** The presets' own rules, but that the hosts may be on this machine. */
const RULES = `
    - {id: here-claude, host: api.anthropic.com, methods: [GET, POST], action: allow, ${PRIVATE}}
    - {id: here-codex, host: api.openai.com, methods: [GET, POST], paths: ["/v1/**"], action: allow, ${PRIVATE}}
    - {id: here-gemini, host: generativelanguage.googleapis.com, methods: [POST], action: allow, ${PRIVATE}}
    - {id: here-account, host: api.github.com, methods: [GET], paths: ["/copilot_internal/**"], action: allow, ${PRIVATE}}
    - {id: here-copilot, host: api.individual.githubcopilot.com, methods: [GET, POST], action: allow, ${PRIVATE}}`
const INJECTED = `
  - {id: claude, secret: ANTHROPIC_API_KEY, inject: {domains: [api.anthropic.com], methods: [GET, POST], header: X-Api-Key}}
  - {id: codex, secret: OPENAI_API_KEY, inject: {domains: [api.openai.com], methods: [GET, POST], header: Authorization, prefix: "Bearer "}}
  - {id: gemini, secret: GEMINI_API_KEY, inject: {domains: [generativelanguage.googleapis.com], methods: [POST], header: X-Goog-Api-Key}}
  - id: copilot
    secret: COPILOT_GITHUB_TOKEN
    inject: {domains: [api.github.com, api.individual.githubcopilot.com], methods: [GET, POST], header: Authorization, prefix: "Bearer "}`

let place: DaemonPlace
let upstream: ModelUpstream
let daemon: DaemonProcess
const sessions = new Map<string, SessionView>()
const ended = new Map<string, Outcome>()
const workspaces = new Map<string, string>()
const leases = new Map<string, string>()
const found = new Map<string, { readonly files: string[]; readonly processes: string[]; readonly inspected: string }>()

before(async () => {
  await ensureHarnessImages(BUILT_HARNESSES, await ensureBaseImage())
  place = openDaemonPlace()
  upstream = await openModelUpstream([...new Set(PROGRAMS.map(({ host }) => host)), 'api.github.com', 'chatgpt.com'])
  place.env['SALLYPORT_EXTRA_CA'] = upstream.authorityFile
  const secrets = [...keys.keys()].map((name) => `  - {name: ${name}, source: "vault:${name}", resources: [inject]}\n`).join('')
  const host = `host_commands: {mode: allowlist, allow: ["cat known"]}\nfilesystem: {hide: [known]}\n`
  place.write(
    join(place.home, 'policies', 'global.yaml'),
    `version: 1\nnetwork:\n  rules:${RULES}\ncredentials:${INJECTED}\nsecrets:\n${secrets}${host}`,
  )
  daemon = await place.startDaemon()
  for (const [name, key] of keys) await place.must(['secret', 'set', name], key)
  const prompt = `Have the host do this, please. run:${Buffer.from(JSON.stringify(['cat', 'known'])).toString('base64url')}`
  // Two at a time: all at once would be late for their own limits of time on a machine with few processors.
  const waiting = PROGRAMS.values()
  const inTurn = async (): Promise<void> => {
    for (const program of waiting) await runsOnce(program, prompt)
  }
  await Promise.all([inTurn(), inTurn()])
})

after(async () => {
  await place.run(['down', '--all'])
  await daemon[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

async function runsOnce(program: Program, prompt: string): Promise<void> {
  const { name } = program
  const workspace = await place.workspace(name, { known })
  // The agent of a session of root's is uid 10001.
  chownSync(workspace, 10_001, 10_001)
  workspaces.set(name, workspace)
  const up = ['up', '--detach', '--json', '--no-selftest', '--harness', name, '--name', name, '--workspace', workspace]
  const session = JSON.parse(await place.must(up)) as SessionView
  sessions.set(name, session)
  await upstream.join(`sallyport-${session.id}-uplink`)
  ended.set(name, await inAgent(name, program.argv(prompt)))
  const lease = (await inAgent(name, ['printenv', 'SALLYPORT_LEASE'])).stdout.trim()
  leases.set(name, lease)
  const needles = [...needlesOf(program), lease, 'SALLYPORT_LEASE']
  const [files, processes, inspected] = await Promise.all([
    searched(name, needles, 'grep -rhoaF -f - /home /tmp /run /workspace /sallyport /opt/sallyport-home'),
    searched(name, needles, 'grep -hoaF -f - /proc/[0-9]*/environ /proc/[0-9]*/cmdline'),
    capture('docker', ['inspect', '--format', '{{json .HostConfig}} {{json .Mounts}} {{json .Config}}', session.agent.container ?? '']),
  ])
  found.set(name, { files, processes, inspected: inspected.stdout })
}

/** In the spellings in which something might keep it. */
function needlesOf(program: Program): string[] {
  return [keyOf(program), Buffer.from(keyOf(program)).toString('base64').slice(0, -4)]
}

/** Those that a search in the agent’s container finds. They are no argument of it: it would find itself. */
async function searched(name: string, needles: readonly string[], script: string): Promise<string[]> {
  const argv = ['exec', '-i', sessions.get(name)?.agent.container ?? '', 'sh', '-c', `${script} 2>/dev/null`]
  const { stdout } = await capture('docker', argv, { input: `${needles.join('\n')}\n` })
  return stdout.split('\n').filter(Boolean)
}

/** Past the daemon: what the agent can do does not depend on it. */
async function inAgent(name: string, argv: readonly string[]): Promise<Outcome> {
  return await capture('docker', ['exec', sessions.get(name)?.agent.container ?? '', ...argv], { timeoutMs: 180_000 })
}

for (const program of PROGRAMS) {
  const { name, host, field, prefix, way, settings } = program
  const models = async (): Promise<ModelRequest[]> => {
    const all = (await upstream.asked(host)).filter(({ tools, says }) => tools !== undefined && says !== undefined)
    return all.filter(({ tools = [] }) => tools.every((tool) => tool.startsWith(prefix)))
  }

  test(`${name} finds the gate’s tools by itself, calls them without asking anybody, and its model learns what the host said`, async () => {
    const { code, stdout, stderr } = ended.get(name) ?? assert.fail()
    assert.equal(code, 0, stdout + stderr)
    assert.match(stdout, new RegExp(`The host said: .*${known}`))
    assert.equal((await inAgent(name, ['cat', '/workspace/known'])).stdout, '')
    const asked = (await models()).filter(({ tools = [] }) => tools.length > 0)
    for (const tool of TOOLS)
      assert.ok(
        asked.every(({ tools = [] }) => tools.includes(`${prefix}${tool}`)),
        tool,
      )
    const called = asked.map(({ says = '' }) => says.replace(prefix, ''))
    assert.deepEqual([called[0], called[1], called.at(-1)], ['host_run_capability', 'host_run', 'text'])
    assert.ok(asked.every((request) => request.way === way))
  })

  test(`I1 ${name} reaches its model with the true key`, async () => {
    const value = keyOf(program)
    const seen = createHash('sha256')
      .update(field === 'authorization' ? `Bearer ${value}` : value)
      .digest('hex')
    const requests = await upstream.asked(host)
    assert.ok(requests.length > 0)
    for (const { keys: fields, path } of requests) assert.deepEqual(fields, { [field]: seen }, path)
  })

  test(`I68 I1 after ${name} has run, its key is nowhere in its container, and the lease in its environment alone`, async () => {
    const { files, processes, inspected } = found.get(name) ?? assert.fail()
    // That the search finds what is there: the variable’s name is in the program’s settings, its value in the environment.
    assert.deepEqual([...new Set(files)], ['SALLYPORT_LEASE'])
    assert.deepEqual(new Set(processes), new Set(['SALLYPORT_LEASE', leases.get(name)]))
    const said = Object.values(ended.get(name) ?? {}).join('\n')
    for (const text of [inspected, said]) for (const needle of needlesOf(program)) assert.ok(text.length > 0 && !text.includes(needle))
  })

  test(`${name} cannot change where its tools are, and leaves the workspace as it was`, async () => {
    const change = `echo x >> ~/${settings} || mv ~/${settings} ~/elsewhere || rm ~/${settings}`
    assert.notEqual((await inAgent(name, ['sh', '-c', change])).code, 0)
    const { stdout } = await capture('git', [
      '-c',
      'safe.directory=*',
      '-C',
      workspaces.get(name) ?? '',
      'status',
      '--porcelain',
      '--ignored',
    ])
    assert.equal(stdout, '')
  })
}

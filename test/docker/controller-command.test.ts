import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { contentDigest } from '../../src/controller/sessions/workspace-trust.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import { capture } from '../../scripts/steps.ts'
import { filesWith, isAbsent, isInStream, searchContainer, spellingsOf, streamOf } from '../support/canary.ts'
import { openContainerUpstream, seenOf, type ContainerUpstream } from '../support/container-upstream.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'
import { eventually } from '../support/eventually.ts'
import { hostPids, inspected } from '../support/inspected.ts'
import type { Pty } from '../support/pty.ts'

const API = 'api.demo.internal'
const SPOKEN = 'spoken.demo.internal'
const OWN = 'own.demo.internal'

const newValue = (): string => `key-${randomBytes(20).toString('hex')}`
/** What the API is called with, one after the other: the agent never sees any of them. */
const keys = [newValue()]
/** One that the agent prints. */
const spoken = newValue()

const PRIVATE = 'addresses: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]'
const allow = (id: string, host: string): string =>
  `    - {id: ${id}, host: ${host}, methods: [GET], action: allow, tls: intercept, ${PRIVATE}}\n`
const GLOBAL = `version: 1
network:
  mode: restricted
  rules:
${allow('api', API)}${allow('spoken', SPOKEN)}credentials:
  - {id: api, secret: API_KEY, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
  - {id: spoken, secret: SPOKEN_KEY, inject: {domains: [${SPOKEN}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_KEY, source: "vault:API_KEY", resources: [inject]}
  - {name: SPOKEN_KEY, source: "vault:SPOKEN_KEY", resources: [inject]}
`
const DENIES = `version: 1\nnetwork: {rules: [{id: not-here, host: ${API}, paths: ["/forbidden/**"], action: deny}]}\n`
const ALLOWS = `version: 1\nnetwork:\n  rules:\n${allow('own', OWN)}`

let place: DaemonPlace
let upstream: ContainerUpstream
let daemon: DaemonProcess
let workspace: string
let main: SessionView

before(async () => {
  place = openDaemonPlace()
  upstream = await openContainerUpstream([API, SPOKEN, OWN])
  place.env['SALLYPORT_EXTRA_CA'] = upstream.authorityFile
  place.write(join(place.home, 'policies', 'global.yaml'), GLOBAL)
  workspace = await place.workspace('work', { '.sallyport/policy.yaml': DENIES })
  daemon = await place.startDaemon()
})

after(async () => {
  await daemon[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

async function sessions(): Promise<SessionView[]> {
  return JSON.parse(await place.must(['ls', '--json'])) as SessionView[]
}

async function session(id: string): Promise<SessionView> {
  const found = (await sessions()).find((one) => one.id === id)
  assert.ok(found !== undefined, `${id} is not listed`)
  return found
}

async function up(...argv: readonly string[]): Promise<SessionView> {
  const id = (await place.must(['up', '--detach', ...argv])).trim()
  return session(id)
}

const uplinkOf = ({ id }: Pick<SessionView, 'id'>): string => `sallyport-${id}-uplink`

/** A request of the agent's own programs, past the daemon: what the agent can do does not depend on it. */
async function fetched({ agent }: SessionView, url: string) {
  const { code, stdout } = await capture('docker', ['exec', agent.container ?? '', 'curl', '-sS', '-m', '10', '-w', '\n%{http_code}', url])
  const [status = '', ...body] = stdout.split('\n').toReversed()
  return { code, status, body: body.toReversed().join('\n') }
}

async function arrives(it: SessionView, key: string): Promise<void> {
  const { status, body } = await fetched(it, `https://${API}/me`)
  assert.equal(status, '200', body)
  assert.deepEqual(JSON.parse(body), { seen: seenOf(`Bearer ${key}`) })
}

/** Of a session's, in the engine and in the home. */
async function leftOf(id: string): Promise<string[]> {
  const filter = ['--filter', `name=${id}`, '--format', '{{.}}']
  const lists = [
    ['ps', '--all'],
    ['network', 'ls'],
    ['volume', 'ls'],
  ].map((verb) => capture('docker', [...verb, ...filter]))
  const found = (await Promise.all(lists)).flatMap(({ stdout }) => stdout.split('\n').filter(Boolean))
  const folders = ['s', 'sessions'].flatMap((name) => readdirSync(join(place.home, name)))
  return [...found, ...folders.filter((name) => id.startsWith(name))]
}

test('the daemon says once that it is ready, its socket and its state are the operator’s alone, and a second one is refused', async () => {
  const socket = join(place.home, 'daemon.sock')
  assert.deepEqual(
    daemon.lines.map((line) => JSON.parse(line) as unknown),
    [{ event: 'ready', socket }],
  )
  assert.equal(statSync(socket).mode & 0o777, 0o600)
  assert.equal(statSync(place.home).mode & 0o777, 0o700)
  for (const name of ['state.db', 'lease.key', 'daemon.lock', 'audit/controller.jsonl'])
    assert.equal(statSync(join(place.home, name)).mode & 0o777, 0o600, name)
  const second = await place.run(['daemon'])
  assert.equal(second.code, 1)
  assert.match(second.stderr, /^daemon_running: .*\nhint: /m)
  assert.equal(second.stdout, '')
  assert.deepEqual(await sessions(), [])
})

test('a session that needs a secret which is in no vault yet does not start, and says what to do', async () => {
  const { code, stderr } = await place.run(['up', '--detach', '--workspace', workspace])
  assert.equal(code, 1)
  assert.match(stderr, /^secret_unavailable: .*\nhint: .*sallyport secret set/m)
  assert.deepEqual(await sessions(), [])
})

test('up prints the id of a session that ls shows with its parts, from a vault that was made after the daemon began', async () => {
  await place.must(['secret', 'set', 'API_KEY', '--unlock', 'key-file'], `${keys[0]}\n`)
  await place.must(['secret', 'set', 'SPOKEN_KEY'], spoken)
  main = await up('--workspace', workspace, '--name', 'main')
  assert.match(main.id, /^[a-z2-7]{16}$/)
  assert.equal(main.name, 'main')
  assert.equal(main.state, 'running')
  assert.equal(main.workspace, workspace)
  assert.equal(main.network, `sallyport-${main.id}-jail`)
  for (const role of ['agent', 'sidecar'] as const) {
    const labels = await inspected<Record<string, string>>(main[role].container, '.Config.Labels')
    assert.equal(labels['sallyport.session'], main.id)
    assert.equal(labels['sallyport.role'], role)
  }
  await upstream.join(uplinkOf(main))
})

test('exec gives back output, errors, input and the exit code of a program', async () => {
  const program = 'read word; echo "out $word"; echo "err $word" >&2; exit 7'
  const { code, stdout, stderr } = await place.run(['exec', 'main', '--', 'sh', '-c', program], 'given\n')
  assert.deepEqual({ code, stdout, stderr }, { code: 7, stdout: 'out given\n', stderr: 'err given\n' })
})

test('run ends with the command’s code and leaves nothing of its session', async () => {
  // Its input ends at once; what it prints after that counts all the same.
  const program = 'cat; sleep 1; echo out; echo err >&2; exit 5'
  const { code, stdout, stderr } = await place.run(['run', '--workspace', workspace, '--', 'sh', '-c', program], 'in\n')
  assert.equal(code, 5, stderr)
  assert.equal(stdout, 'in\nout\n')
  assert.match(stderr, /^err$/m)
  assert.deepEqual(
    (await sessions()).map(({ name }) => name),
    ['main'],
  )
  const folders = ['s', 'sessions'].flatMap((name) => readdirSync(join(place.home, name)))
  assert.deepEqual(
    folders.filter((name) => name !== 'subnets' && !main.id.startsWith(name)),
    [],
  )
})

test('a secret of the vault arrives upstream, and what the agent has or gets back is not it', async () => {
  await arrives(main, keys[0] ?? '')
  const echo = await fetched(main, `https://${API}/echo`)
  assert.equal(echo.status, '200')
  assert.ok(echo.body.startsWith('{"said":"Bearer '), echo.body)
  assert.ok(!echo.body.includes(keys[0] ?? ''))
  const { stdout } = await place.run([
    'exec',
    'main',
    '--',
    'sh',
    '-c',
    'cat /proc/[0-9]*/environ; find / -xdev -type f -newer /proc/1 2>/dev/null',
  ])
  assert.ok(!stdout.includes(keys[0] ?? ''))
})

test('a host that no rule allows, and a path that the workspace itself denies, get nothing through', async () => {
  const count = (await upstream.saw()).length
  for (const url of [`https://${OWN}/me`, `https://${API}/forbidden/x`]) {
    const { status, code } = await fetched(main, url)
    assert.ok(status === '403' || code !== 0, `${url}: ${status}`)
  }
  assert.equal((await upstream.saw()).length, count)
  await arrives(main, keys[0] ?? '')
})

test('a new value goes into the next request once it is applied: the agent’s process goes on, and the audit has versions only', async () => {
  const { agent } = main
  await capture('docker', ['exec', '-d', agent.container ?? '', 'sh', '-c', 'exec -a goes-on sleep 1000 || exec sleep 1000'])
  const pids = await hostPids(agent.container ?? '')
  keys.push(newValue())
  await place.must(['secret', 'set', 'API_KEY'], keys[1])
  await arrives(main, keys[0] ?? '')
  await place.must(['secret', 'apply'])
  await arrives(main, keys[1] ?? '')
  assert.deepEqual(await hostPids(agent.container ?? ''), pids)
  const applied = audit().filter((line) => line['did'] === 'secrets_applied')
  assert.equal(applied.length, 1)
  assert.match(String(applied[0]?.['details']), new RegExp(`^${main.id} version \\d+$`))
})

function audit(): Record<string, unknown>[] {
  const text = readFileSync(join(place.home, 'audit', 'controller.jsonl'), 'utf8')
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

test('a gate that is killed comes back, and has its secrets again from the daemon', async () => {
  const pid = await inspected<number>(main.sidecar.container, '.State.Pid')
  const began = await inspected<string>(main.agent.container, '.State.StartedAt')
  process.kill(pid, 'SIGKILL')
  await eventually(async () => {
    assert.notEqual(await inspected<number>(main.sidecar.container, '.State.Pid'), pid)
    assert.equal((await session(main.id)).sidecar.healthy, true)
  })
  await arrives(main, keys[1] ?? '')
  assert.equal(await inspected<string>(main.agent.container, '.State.StartedAt'), began)
})

test('I15 the audit of a session whose gate was killed holds, each of its chains in a file of its own', async () => {
  await eventually(async () => {
    const names = readdirSync(join(place.home, 'audit', 'sessions')).filter((name) => name.startsWith(main.id))
    assert.deepEqual(names.toSorted(), [`${main.id}.2.jsonl`, `${main.id}.jsonl`])
    const { ok, chains } = JSON.parse(await place.must(['audit', 'verify', '--json'])) as { ok: boolean; chains: number }
    assert.equal(ok && chains >= 2, true)
  })
})

test('an agent that is killed is shown as ended, runs nothing, and comes back by reset', async () => {
  process.kill(await inspected<number>(main.agent.container, '.State.Pid'), 'SIGKILL')
  await eventually(async () => {
    const { agent, state } = await session(main.id)
    assert.deepEqual({ state, running: agent.running, exitCode: agent.exitCode }, { state: 'running', running: false, exitCode: 137 })
  })
  const refused = await place.run(['exec', 'main', '--', 'true'])
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /^session_not_running: .*\nhint: /m)
  await upstream.leave(uplinkOf(main))
  await place.must(['reset', 'main', '--yes'])
  main = await session(main.id)
  await upstream.join(uplinkOf(main))
  assert.equal(await place.must(['exec', 'main', '--', 'echo', 'back']), 'back\n')
  await arrives(main, keys[1] ?? '')
})

for (const signal of ['SIGKILL', 'SIGTERM'] as const)
  test(`without the daemon, which ${signal} ended, the agent goes on with its credential; the next one has its containers and gives it its secrets anew`, async () => {
    const code = await daemon.stop(signal)
    assert.equal(code, signal === 'SIGTERM' ? 0 : null)
    const key = keys.at(-1) ?? ''
    await arrives(main, key)
    const lost = await place.run(['ls'])
    assert.equal(lost.code, 1)
    assert.match(lost.stderr, /^daemon_unavailable: .*\nhint: /m)
    keys.push(newValue())
    await place.must(['secret', 'set', 'API_KEY'], keys.at(-1))
    await upstream.leave(uplinkOf(main))
    daemon = await place.startDaemon()
    await upstream.join(uplinkOf(main))
    const { agent, sidecar, state } = await session(main.id)
    assert.deepEqual({ agent, sidecar, state }, { agent: main.agent, sidecar: main.sidecar, state: 'running' })
    assert.equal(await place.must(['exec', 'main', '--', 'echo', 'here']), 'here\n')
    // Without an "apply": the new value is what the new daemon pushed.
    await eventually(() => arrives(main, keys.at(-1) ?? ''))
  })

test('the daemon takes no debugger and leaves no image of its memory', async () => {
  assert.match(readFileSync(`/proc/${daemon.pid}/limits`, 'utf8'), /^Max core file size +0 +0 /m)
  process.kill(daemon.pid, 'SIGUSR1')
  await sessions()
  const listening = await capture('ss', ['-Hltnp'])
  assert.equal(listening.code, 0, listening.stderr)
  assert.ok(!listening.stdout.includes(`pid=${daemon.pid},`), listening.stdout)
})

test('I1 no value of a secret is anywhere but encrypted in the vault and in the memory of daemon and gate', async (t) => {
  const needles = keys.flatMap(spellingsOf)
  assert.equal(await isInStream(streamOf(['sh', '-c', `printf %s "$X" | base64`], { X: `Bearer ${keys[0]}` }), needles), true)
  for (const role of ['agent', 'sidecar'] as const) await searchContainer(main[role].container ?? '', needles, t)
  for (const network of [main.network ?? '', uplinkOf(main)])
    assert.equal(await isInStream(streamOf(['docker', 'network', 'inspect', network]), needles), false)
  for (const name of ['environ', 'cmdline']) assert.ok(isAbsent(readFileSync(`/proc/${daemon.pid}/${name}`), needles))
  await place.must(['inspect', 'main'])
  await place.must(['lease', 'ls', '--json'])
  await place.must(['secret', 'ls', '--json'])
  await place.must(['policy', 'show', '--policy', join(place.home, 'policies', 'global.yaml')])
  await place.must(['logs', 'main'])
  await place.run(['selftest', 'main'])
  assert.deepEqual(await filesWith(place.home, needles), [])
  assert.deepEqual(await filesWith(workspace, needles), [])
  assert.ok(isAbsent(Buffer.from(place.printed()), needles))
})

const [half, otherHalf] = [spoken.slice(0, 20), spoken.slice(20)]

test('what a program prints of a secret is asterisks in exec', async () => {
  const { stdout, stderr } = await place.run([
    'exec',
    'main',
    '--',
    'sh',
    '-c',
    `printf '%s%s\\n' ${half} ${otherHalf}; printf '%s%s' ${half} ${otherHalf} >&2`,
  ])
  for (const text of [stdout, stderr]) {
    assert.ok(!text.includes(spoken))
    assert.match(text, /\*{8}/)
  }
})

test('a terminal is attached, detached and attached again; a secret is not shown; the agent’s code comes back; so in logs', async () => {
  const first = place.onTerminal(['up', '--no-selftest', '--workspace', workspace, '--name', 'typed', '--', 'bash', '--norc'])
  await shows(first, '· running')
  await shows(first, '$ ')
  first.write('echo "typed $((40 + 2))"\n')
  await shows(first, 'typed 42')
  first.write('\x10\x11')
  await shows(first, 'detached')
  assert.equal(await first.exited, 0)
  const { id } = (await sessions()).find(({ name }) => name === 'typed') ?? { id: '' }

  const second = place.onTerminal(['attach', 'typed'])
  second.write(`printf '%s%s|\\n' ${half} ${otherHalf}\n`)
  await shows(second, '****|')
  second.write('exit 7\n')
  assert.equal(await second.exited, 7)
  const logs = await place.must(['logs', 'typed'])
  const late = await place.run(['attach', 'typed'])
  assert.equal(late.code, 7)
  for (const text of [logs, late.stdout]) {
    assert.ok(text.includes('typed 42'))
    assert.match(text, /\*{8}/)
  }
  for (const text of [first.printed(), second.printed(), logs, late.stdout]) assert.ok(!text.includes(spoken))
  await place.must(['down', 'typed'])
  assert.deepEqual(await leftOf(id), [])
})

/** A session takes as long as the machine takes. */
async function shows(pty: Pty, text: string): Promise<void> {
  await eventually(() => pty.sees(text))
}

test('a workspace that allows itself something starts nothing until exactly this is trusted', async () => {
  const own = await place.workspace('own', { '.sallyport/policy.yaml': ALLOWS })
  const refused = await place.run(['up', '--detach', '--workspace', own])
  assert.notEqual(refused.code, 0)
  assert.match(refused.stderr, /^policy_untrusted: [^]*\nhint: .*sallyport trust/m)
  const other = await place.run(['trust', '--workspace', own, '--yes', '--digest', contentDigest(`${ALLOWS}#`)])
  assert.match(other.stderr, /^policy_untrusted: /m)
  assert.match((await place.run(['up', '--detach', '--workspace', own])).stderr, /^policy_untrusted: /m)
  await place.must(['trust', '--workspace', own, '--yes', '--digest', contentDigest(ALLOWS)])
  const trusted = await up('--no-selftest', '--workspace', own, '--name', 'trusted')
  await upstream.join(uplinkOf(trusted))
  assert.equal((await fetched(trusted, `https://${OWN}/me`)).status, '200')
  await upstream.leave(uplinkOf(trusted))
  await place.must(['down', 'trusted'])
  assert.deepEqual(await leftOf(trusted.id), [])
})

test('revoking its lease cuts what an agent has open, and leaves it running with no way out and no secrets', async () => {
  const ticking = spawn('docker', ['exec', main.agent.container ?? '', 'curl', '-sSN', `https://${API}/ticks`], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(ticking, 'close')
  await once(ticking.stdout, 'data')
  ticking.stdout.resume()
  assert.equal(await place.must(['lease', 'revoke', main.id]), `${main.id}: revoked\n`)
  await ended
  const seen = (await upstream.saw()).length
  for (const url of [`https://${API}/me`, `http://${API}/me`, `https://${SPOKEN}/me`])
    assert.notEqual((await fetched(main, url)).status, '200', url)
  assert.equal((await upstream.saw()).length, seen)
  const rows = JSON.parse(await place.must(['lease', 'ls', '--json'])) as { session: string; state: string }[]
  assert.deepEqual([...new Set(rows.filter((row) => row.session === main.id).map(({ state }) => state))], ['revoked'])
  const applied = await place.run(['secret', 'apply'])
  assert.equal(applied.code, 1)
  assert.equal((await fetched(main, `https://${API}/me`)).code === 0 && (await upstream.saw()).length > seen, false)
  assert.equal(await place.must(['exec', 'main', '--', 'echo', 'alive']), 'alive\n')
})

test('down leaves nothing of a session, and afterwards the home has no value but in the vault, encrypted', async () => {
  await upstream.leave(uplinkOf(main))
  await place.must(['down', '--all'])
  assert.deepEqual(await leftOf(main.id), [])
  assert.deepEqual(await sessions(), [])
  assert.equal(await daemon.stop('SIGTERM'), 0)
  const needles = [...keys, spoken].flatMap(spellingsOf)
  assert.deepEqual(await filesWith(place.home, needles), [])
  assert.ok(isAbsent(Buffer.from(place.printed()), needles))
  for (const path of [[], [join(place.home, 'audit', 'controller.jsonl')]]) {
    const verified = await place.run(['audit', 'verify', ...path])
    assert.equal(verified.code, 0, verified.stderr)
  }
})

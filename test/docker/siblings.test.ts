import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import type { SessionRecord, SessionView } from '../../src/controller/sessions/session-parts.ts'
import type { Sibling, SiblingEnd, SiblingWish } from '../../src/controller/sessions/sibling.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { capture } from '../../scripts/steps.ts'
import { leftIn, makeHome, openSessions, textOf, type SessionsUnderTest } from '../support/controller-sessions.ts'
import { leakIn } from '../support/leaks.ts'

const CANARY = `canary-${Buffer.from('sibling').toString('hex')}-9f3kQ`
const ON_STDIN = 'zqW8-input-77aXwKp'
const HIDDEN = 'what nobody is to see'
const NEVER = new AbortController().signal

let under: SessionsUnderTest
let session: SessionView
let record: SessionRecord

before(async () => {
  under = await openSessions({
    plan: (plan) => ({
      ...plan,
      agent: { ...plan.agent, memoryBytes: 256 * 1024 ** 2 },
      filesystem: { ...plan.filesystem, hide: ['.env', 'conf/keys.txt'] },
    }),
  })
  for (const folder of ['conf', 'decoy', 'deep']) await mkdir(join(under.workspace, folder))
  for (const file of ['.env', 'deep/.env', 'conf/keys.txt']) await writeFile(join(under.workspace, file), HIDDEN)
  await writeFile(join(under.workspace, 'run.sh'), 'echo as it was looked at\n', { mode: 0o755 })
  for (const path of ['.', 'conf', 'decoy', 'deep', '.env', 'deep/.env', 'conf/keys.txt', 'run.sh'])
    await capture('chown', ['10001:10001', join(under.workspace, path)])
  await under.sessions.adopt(NEVER)
  session = await under.up({ name: 'one' })
  record = under.state.row(session.id)?.record as SessionRecord
})
after(() => under[Symbol.asyncDispose]())

const WISH: SiblingWish = {
  kind: 'use',
  label: 'test',
  argv: ['true'],
  environment: {},
  values: {},
  stdin: 'closed',
  workspace: 'none',
  pinned: [],
}
const start = (wish: Partial<SiblingWish>, signal = NEVER): Promise<Sibling> =>
  under.sessions.startSibling('one', { ...WISH, ...wish }, signal)

type Ended = SiblingEnd & { readonly stdout: string; readonly stderr: string }

async function ended(sibling: Sibling): Promise<Ended> {
  const [stdout, stderr, end] = await Promise.all([textOf(sibling.stdout), textOf(sibling.stderr), sibling.exited])
  return { ...end, stdout, stderr }
}

async function run(wish: Partial<SiblingWish>): Promise<Ended> {
  await using sibling = await start(wish)
  return await ended(sibling)
}

/** What a program prints first: it goes on meanwhile. */
async function firstLine(stream: Readable): Promise<string> {
  let text = ''
  while (!text.includes('\n')) {
    const [piece] = (await once(stream, 'data')) as [Buffer]
    text += piece.toString()
  }
  return text.trim()
}

const onlySession = async (): Promise<void> => {
  const { containers, networks } = await leftIn(under.engine, under.home)
  assert.deepEqual(containers, [`sallyport-${session.id}-agent`, `sallyport-${session.id}-sidecar`])
  assert.deepEqual(networks, [`sallyport-${session.id}-jail`, `sallyport-${session.id}-uplink`])
  assert.deepEqual(await readdir(join(under.home, 'sessions', session.id, 'siblings')), [])
  const gate = await under.engine.inspect(session.sidecar.container ?? '')
  assert.deepEqual(Object.keys(gate?.NetworkSettings.Networks ?? {}).length, 2)
}

/** Tries to connect, by name of each: what answers. */
const DIAL = `const net = require('node:net')
for (const to of process.argv.slice(1)) {
  const [host, port] = to.split(' ')
  const s = net.connect({ host, port: Number(port), timeout: 700 })
  const end = (how) => { console.log(to + ' ' + how); s.destroy() }
  s.on('connect', () => end('open')).on('timeout', () => end('closed')).on('error', () => end('closed'))
}`

/** Waits for a line on its stdin, listens, and has left a trace in each place in memory. */
const HOLD = `require('node:fs').writeFileSync('/dev/shm/trace', process.env.KEY); require('node:fs').writeFileSync('/tmp/trace', process.env.KEY)
require('node:net').createServer((s) => s.end(process.env.KEY)).listen(9000, '0.0.0.0', () => console.log('value ' + (process.env.KEY === '${CANARY}'.split('').reverse().join(''))))
process.stdin.on('data', (d) => process.stdout.write(d)).on('end', () => process.exit(7))`

test('I63 a program beside the agent has its secrets, and nobody else: no configuration, argument, file, log, or process of the agent', async () => {
  const reversed = CANARY.split('').toReversed().join('')
  const values = { KEY: new Secret('key', reversed) }
  const image = await under.sessions.siblingImage('one')
  const node = await image.resolve('node')
  assert.equal(await image.resolve('no-such-program'), undefined)
  assert.equal(await image.resolve('run.sh'), undefined)
  await using one = await start({ argv: [node ?? '', '-e', HOLD], values, stdin: 'open' })
  await using other = await start({
    label: 'other',
    argv: ['sh', '-c', 'read -r it; echo "$it"; sleep 600'],
    stdin: new Secret('in', `${ON_STDIN}\n`),
  })
  assert.equal(await firstLine(one.stdout), 'value true')
  assert.equal(await firstLine(other.stdout), ON_STDIN)
  const [first, second, agent, gate] = await Promise.all(
    [one.container, other.container, session.agent.container, session.sidecar.container].map(
      async (id) => await under.engine.inspect(id ?? ''),
    ),
  )
  assert.ok(first !== undefined && second !== undefined && agent !== undefined && gate !== undefined)

  // Nowhere that the engine, its log or the host shows.
  const { rootFolder } = await under.engine.info()
  const { stdout: shown } = await capture('docker', ['inspect', one.container, other.container, agent.Id, gate.Id])
  const { stdout: network } = await capture('docker', ['network', 'inspect', one.container])
  const { stdout: logged } = await capture('docker', ['logs', one.container])
  for (const secret of [reversed, ON_STDIN]) {
    assert.equal(leakIn(shown + network + logged, secret), undefined)
    const places = [first.Id, second.Id].map((id) => join(rootFolder, 'containers', id))
    const found = await capture('grep', ['--recursive', '--fixed-strings', '--files-with-matches', secret, ...places, under.home])
    assert.equal(found.stdout, '')
    for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name)))
      assert.ok(!(await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')).includes(secret))
  }

  // Apart from the agent, the gate and each other in every way that the kernel has.
  for (const kind of ['ipc', 'mnt', 'net', 'pid', 'uts', 'cgroup']) {
    const spaces: string[] = await Promise.all([first, second, agent, gate].map(({ State }) => readlink(`/proc/${State.Pid}/ns/${kind}`)))
    assert.equal(new Set([...spaces, await readlink(`/proc/self/ns/${kind}`)]).size, 5, kind)
  }
  const seen = await under.run('one', ['sh', '-c', 'cat /proc/[0-9]*/cmdline | tr "\\0" " "; cat /dev/shm/trace /tmp/trace; id -u'])
  assert.ok(!seen.stdout.includes('createServer'), seen.stdout)
  assert.equal(leakIn(seen.stdout, reversed), undefined)

  // The sibling reaches the gate and nobody else, and nobody reaches it.
  const at = (name: string, found = first): string => found.NetworkSettings.Networks[name]?.IPAddress ?? ''
  const jail = `sallyport-${session.id}-jail`
  const here = Object.values(networkInterfaces()).flatMap((list = []) =>
    list.flatMap(({ family, address }) => (family === 'IPv4' ? address : [])),
  )
  const hosts = here.filter((address) => !address.startsWith('127.')).slice(0, 4)
  const dial = (...to: string[]): [string, ...string[]] => [node ?? '', '-e', DIAL, ...to]
  const inOther = await run({
    label: 'dials',
    argv: dial(
      'sallyport 3128',
      'sallyport 7070',
      `${at(one.container)} 9000`,
      `${at(one.container, gate)} 3128`,
      `${at(jail, gate)} 3128`,
      `${at(jail, agent)} 22`,
      '1.1.1.1 443',
      ...hosts.map((host) => `${host} 22`),
    ),
  })
  const open = inOther.stdout.split('\n').filter((line) => line.endsWith(' open'))
  assert.deepEqual(open.toSorted(), ['sallyport 3128 open', 'sallyport 7070 open'], inOther.stdout + inOther.stderr)
  const fromAgent = await under.run(
    'one',
    dial(`${at(one.container)} 9000`, `${at(one.container, gate)} 3128`, `${at(other.container)} 9000`, 'sallyport 3128'),
  )
  assert.deepEqual(
    fromAgent.stdout.split('\n').filter((line) => line.endsWith(' open')),
    ['sallyport 3128 open'],
    fromAgent.stdout,
  )
  const proxied = await under.run('one', ['curl', '-sS', '-m', '5', '-x', 'http://sallyport:3128', `http://${at(one.container)}:9000/`])
  assert.equal(leakIn(proxied.stdout + proxied.stderr, reversed), undefined)
  assert.deepEqual(
    [await capture('ip', ['-4', 'address', 'show', 'to', `${at(one.container)}/29`])].map(({ stdout }) => stdout),
    [''],
  )

  // What the session is is what it was.
  assert.deepEqual(under.sessions.list(), [session])
  assert.equal(record.ids.agent, session.agent.container)

  // Its input ends with us, and it with its input.
  one.stdin.end('more\n')
  assert.equal((await one.exited).exitCode, 7)
})

test('I64 by its gate a sibling gets what the policy lets through, without a lease, and nothing of what agents ask for', async () => {
  const script = `curl -s -o /dev/null -w '%{http_code} ' http://nowhere.example.test/
    for path in /healthz /v1/requests; do curl -s -o /dev/null -w '%{http_code} ' "$SALLYPORT_URL$path"; done
    curl -s -o /dev/null -w '%{http_code} ' -X POST "$SALLYPORT_URL/mcp"; getent hosts nowhere.example.test; echo "lease=$SALLYPORT_LEASE."; cat /proc/1/status | grep CapEff`
  const { stdout, exitCode, stderr } = await run({ argv: ['sh', '-c', script] })
  assert.equal(exitCode, 0, stderr)
  const [denied = '', health = '', asks = '', mcp = '', ...rest] = stdout.split(' ')
  assert.deepEqual([denied, health], ['403', '200'])
  for (const status of [asks, mcp]) assert.match(status, /^(?:401|403|404)$/)
  assert.match(rest.join(' '), /^lease=\.\nCapEff:\s*0+\n$/)
})

test('I65 hidden files of the workspace are hidden beside the agent too, also while it moves their folders about', async () => {
  const all = {
    argv: ['sh', '-c', 'cat $(find /workspace -type f); touch /workspace/mine; find /workspace -name "*.sh"'] as [string, ...string[]],
    workspace: 'ro' as const,
  }
  const quiet = await run(all)
  assert.ok(!quiet.stdout.includes(HIDDEN))
  assert.match(quiet.stdout, /as it was looked at/)
  assert.match(quiet.stderr, /mine.*Read-only|Read-only.*mine/)
  assert.equal((await under.run('one', ['sh', '-c', 'ls /workspace/mine'])).code, 2)

  // A folder that is moved away takes its file to where no pattern names it: then nobody gets to see anything.
  await under.run('one', ['mv', '/workspace/deep', '/workspace/moved'])
  assert.ok(!(await run(all)).stdout.includes(HIDDEN))
  await under.run('one', ['sh', '-c', 'cd /workspace; mv conf elsewhere; mv decoy conf; touch conf/keys.txt'])
  await assert.rejects(run(all), { code: 'workspace_suspect' })
  await under.run('one', ['sh', '-c', 'cd /workspace; rm conf/keys.txt; mv conf decoy; mv elsewhere conf'])

  const swaps = await under.sessions.exec(
    'one',
    [
      'sh',
      '-c',
      'cd /workspace; touch decoy/keys.txt decoy/.env; while [ ! -e /tmp/stop ]; do mv conf x; mv decoy conf; mv moved deep; mv conf decoy; mv x conf; mv deep moved; done',
    ],
    { tty: false },
  )
  swaps.stream.resume()
  swaps.stderr?.resume()
  for (let round = 0; round < 3; round += 1) {
    const got = await run(all).catch((error: { code?: string }) => error)
    if ('stdout' in got) {
      assert.ok(!got.stdout.includes(HIDDEN))
    } else assert.match(String(got.code), /workspace_suspect|workspace_refused|engine_refused|session_unverified/)
  }
  await under.run('one', ['touch', '/tmp/stop'])
  await swaps.exitCode()
  assert.equal((await under.engine.inspect(session.agent.container ?? ''))?.State.Paused, false)
})

test('I65 a pinned file is what was looked at, whatever the agent makes of the file that it was taken from', async () => {
  const content = await readFile(join(under.workspace, 'run.sh'))
  const target = '/sallyport/pinned/1/run.sh'
  await using sibling = await start({
    argv: [
      'sh',
      '-c',
      'read -r _; sh /sallyport/pinned/1/run.sh; echo x > /sallyport/pinned/1/run.sh; rm -f /sallyport/pinned/1/run.sh; cat /sallyport/pinned/1/run.sh',
    ],
    stdin: 'open',
    workspace: 'ro',
    pinned: [{ target, content, executable: true }],
  })
  await under.run('one', ['sh', '-c', 'cd /workspace; echo echo evil > run.sh; rm run.sh; echo echo evil > run.sh'])
  sibling.stdin.end('go\n')
  const { stdout, stderr } = await ended(sibling)
  assert.equal(stdout, 'as it was looked at\necho as it was looked at\n')
  assert.match(stderr, /Read-only/)
})

test('a sibling ends by its command, its signal, its memory and its output, and leaves nothing of itself', async () => {
  assert.deepEqual(
    (({ exitCode, stdout, stderr }) => ({ exitCode, stdout, stderr }))(await run({ argv: ['sh', '-c', 'echo out; echo err >&2; exit 3'] })),
    { exitCode: 3, stdout: 'out\n', stderr: 'err\n' },
  )
  assert.equal((await run({ argv: ['no-such-program'] })).exitCode, 127)

  const memory = await run({ argv: ['node', '-e', 'const all = []; for (;;) all.push(Buffer.alloc(16 * 1024 ** 2, 1))'] })
  assert.deepEqual([memory.exitCode, memory.outOfMemory], [137, true])

  const folder = join(under.home, 'sessions', session.id, 'uses')
  await mkdir(folder)
  for (const [label, script] of Object.entries({
    long: 'head -c 200000 /dev/zero > /output/long; true',
    many: 'i=0; while :; do i=$((i+1)); echo 0123456789 > /output/$i; done',
  })) {
    const output = join(folder, label)
    await mkdir(output)
    const end = await run({ label, argv: ['sh', '-c', script], output: { folder: output, bytesMax: 100_000 } }).catch(String)
    if (label === 'many') assert.ok(typeof end === 'object' && end.outputExceeded && end.exitCode === 137)
    for (const name of await readdir(output)) assert.ok((await readFile(join(output, name))).length <= 100_000)
  }

  const stop = new AbortController()
  await using stopped = await start({ argv: ['sleep', '600'] }, stop.signal)
  stop.abort()
  assert.equal((await stopped.exited).exitCode, 137)
  await Promise.all([stopped[Symbol.asyncDispose](), stopped[Symbol.asyncDispose]()])
  const early = AbortSignal.abort(new Error('nobody waits'))
  await assert.rejects(start({}, early), /nobody waits/)
  await onlySession()
})

test('an image without a shell is told, and nothing is left of the try', async () => {
  const name = `sallyport/no-shell:${session.id}`
  const made = await capture('sh', ['-c', `tar cf - -T /dev/null | docker import - ${name}`])
  assert.equal(made.code, 0, made.stderr)
  try {
    await assert.rejects(start({ image: name }), { code: 'shell_missing' })
    await assert.rejects(start({ image: 'sallyport/none:0' }), { code: 'image_missing' })
    await onlySession()
  } finally {
    await capture('docker', ['image', 'rm', name])
  }
})

test('siblings end when their gate does, and when their session does', async () => {
  const first = await start({ argv: ['sleep', '600'] })
  const heard = under.sessions.events(AbortSignal.timeout(60_000))[Symbol.asyncIterator]()
  const gate = await under.engine.inspect(session.sidecar.container ?? '')
  process.kill(gate?.State.Pid ?? 0, 'SIGKILL')
  assert.equal((await first.exited).exitCode, 137)
  await first[Symbol.asyncDispose]()
  let next = await heard.next()
  while (next.done !== true && next.value.event !== 'gate_ready') next = await heard.next()
  assert.equal(next.done, false)
  await onlySession()
  const last = await start({ argv: ['sleep', '600'] })
  await under.sessions.down('one')
  assert.equal((await last.exited).exitCode, 137)
  assert.deepEqual(await leftIn(under.engine, under.home), { containers: [], networks: [] })
  await assert.rejects(start({}), { code: 'session_not_running' })
})

test('I40 a controller that dies at any step of a sibling leaves nothing of it to the next, whose session goes on', async () => {
  const home = await makeHome()
  for (const death of ['connect:after', 'pause:after', 'create:before', 'running']) {
    const child = spawn(process.execPath, [join(import.meta.dirname, '../support/sibling-child.ts'), home, death], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const printed = textOf(child.stdout)
    const [, signal] = (await once(child, 'close')) as [number | null, string | null]
    assert.equal(signal, 'SIGKILL', `${death} ${await printed}`)
  }
  {
    await using next = await openSessions({ home })
    // What a command with secrets had written, and nobody looked through.
    const lives = (await readdir(join(home, 'sessions'))).find((name) => /^[a-z2-7]{16}$/.test(name))
    const uses = join(home, 'sessions', lives ?? '', 'uses')
    await mkdir(join(uses, 'request', 'output'), { recursive: true })
    await writeFile(join(uses, 'request', 'output', 'file'), CANARY)
    await next.sessions.adopt(NEVER)
    const [found] = next.sessions.list()
    assert.equal(found?.state, 'running')
    const { containers, networks } = await leftIn(next.engine, home)
    assert.deepEqual(
      [...containers, ...networks].filter((name) => name.includes('sibling')),
      [],
    )
    assert.equal((await next.run('child', ['sh', '-c', 'curl -s -o /dev/null -w "%{http_code}" "$SALLYPORT_URL/healthz"'])).stdout, '200')
    assert.deepEqual(await readdir(join(home, 'sessions', found.id, 'siblings')), [])
    assert.equal(existsSync(uses), false)
  }
  await rm(home, { recursive: true })
})

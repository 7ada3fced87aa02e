import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { ContainerInspection } from '../../src/controller/sessions/engine.ts'
import { MASKED_PATHS } from '../../src/controller/sessions/hardening.ts'
import { containerDifferences } from '../../src/controller/sessions/verify.ts'
import type { SessionRecord, SessionView } from '../../src/controller/sessions/session-parts.ts'
import { capture } from '../../scripts/steps.ts'
import { leftIn, openSessions, SIDECAR_IMAGE, textOf, type SessionsUnderTest } from '../support/controller-sessions.ts'

let under: SessionsUnderTest
let session: SessionView
let agent: ContainerInspection
let sidecar: ContainerInspection
let record: SessionRecord

before(async () => {
  under = await openSessions()
  await under.sessions.adopt(new AbortController().signal)
  session = await under.up({ name: 'first' })
  record = under.state.row(session.id)?.record as SessionRecord
  const [one, two] = await Promise.all([session.agent.container, session.sidecar.container].map((id) => under.engine.inspect(id ?? '')))
  assert.ok(one !== undefined && two !== undefined)
  agent = one
  sidecar = two
})
after(() => under[Symbol.asyncDispose]())

test('a session is listed as what it is', () => {
  assert.deepEqual(under.sessions.list(), [session])
  assert.equal(session.state, 'running')
  assert.equal(session.harness, null)
  assert.deepEqual(session.agent, { container: agent.Id, running: true })
  assert.deepEqual(session.sidecar, { container: sidecar.Id, healthy: true })
})

test('a second session of the same name is refused, and one that is unknown is not found', async () => {
  await assert.rejects(under.up({ name: 'first' }), { code: 'config_invalid' })
  await assert.rejects(under.sessions.down('nobody'), { code: 'session_not_found' })
})

for (const which of ['agent', 'sidecar'] as const) {
  test(`I14 the engine shows the ${which} exactly as it was asked for, with its labels`, () => {
    const asked = record[which]
    assert.ok(asked !== undefined)
    assert.deepEqual(containerDifferences(asked, { agent, sidecar }[which], { hasAppArmor: false }), [])
    const labels = { agent, sidecar }[which].Config.Labels ?? {}
    assert.equal(labels['sallyport.session'], session.id)
    assert.equal(labels['sallyport.role'], which)
    assert.match(labels['sallyport.home'] ?? '', /^[0-9a-f]{16}$/)
  })

  test(`I14 no process of the ${which} holds or can gain a capability`, async () => {
    const { stdout } = await capture('docker', ['exec', { agent, sidecar }[which].Id, 'sh', '-c', 'cat /proc/1/status /proc/self/status'])
    const sets = [...stdout.matchAll(/^Cap(?:Inh|Prm|Eff|Bnd|Amb):\s*([0-9a-f]+)$/gm)].map(([, set]) => set)
    assert.equal(sets.length, 10)
    assert.ok(sets.every((set) => /^0+$/.test(set ?? '')))
    assert.deepEqual(
      [...stdout.matchAll(/^(?:NoNewPrivs|Seccomp):\s*(\d)$/gm)].map(([, value]) => value),
      ['1', '2', '1', '2'],
    )
  })
}

test('I12 the agent is on the jail alone, which has two containers and no address of the host', async () => {
  assert.deepEqual(Object.keys(agent.NetworkSettings.Networks), [session.network])
  const network = await under.engine.network(session.network ?? '')
  assert.equal(network?.Internal, true)
  assert.equal(Object.keys(network?.Containers ?? {}).length, 2)
  const { stdout } = await capture('ip', ['-4', 'address', 'show', 'dev', `br-${network?.Id.slice(0, 12)}`])
  assert.doesNotMatch(stdout, /inet /)
})

test('the agent has the mounts that compose.yaml has, its resolver, what was left for it, and no other', () => {
  const mounts = agent.Mounts.map(({ Destination, RW }) => `${Destination} ${RW ? 'rw' : 'ro'}`).toSorted()
  assert.deepEqual(mounts, [
    '/etc/group ro',
    '/etc/passwd ro',
    '/etc/resolv.conf ro',
    '/etc/ssl/certs/ca-certificates.crt ro',
    '/sallyport ro',
    '/sallyport/output ro',
    '/workspace rw',
  ])
})

test('I14 what the kernel shows of the machine is masked in the agent', async () => {
  const { stdout } = await under.run(session.id, [
    'sh',
    '-c',
    `for f in ${MASKED_PATHS.join(' ')}; do [ -s "$f" ] && [ -f "$f" ] && head -c1 "$f"; done; true`,
  ])
  assert.equal(stdout, '')
})

test('the agent is nobody’s root, has a name and a home, and writes what it may', async () => {
  const { stdout, code } = await under.run(session.id, [
    'sh',
    '-c',
    'whoami; echo ~; id -u; for d in /tmp /run ~; do echo x > $d/x && cat $d/x; done',
  ])
  assert.equal(code, 0)
  assert.equal(stdout, `agent\n/home/agent\n${record.owner.uid}\nx\nx\nx\n`)
})

for (const path of [
  '/x',
  '/etc/x',
  '/usr/bin/x',
  '/sallyport/x',
  '/etc/passwd',
  '/etc/hosts',
  '/etc/resolv.conf',
  '/etc/ssl/certs/ca-certificates.crt',
])
  test(`I14 the agent cannot write ${path}`, async () =>
    assert.notEqual((await under.run(session.id, ['sh', '-c', `echo x >> ${path}`])).code, 0))

test('the agent trusts its image’s roots and the session’s authority, and nobody else’s', async () => {
  const { stdout } = await under.run(session.id, [
    'sh',
    '-c',
    'cat /etc/ssl/certs/ca-certificates.crt; echo; echo ===; cat /sallyport/ca.crt; ls /sallyport',
  ])
  const [bundle = '', own = ''] = stdout.split('===\n')
  const gate = await under.run(session.id, ['curl', '-sS', 'http://sallyport:7070/ca.crt'])
  assert.ok(own.startsWith(gate.stdout.trim()))
  assert.ok(bundle.includes(gate.stdout.trim()))
  assert.equal(
    bundle.match(/BEGIN CERTIFICATE/g)?.length,
    Number(
      (
        await capture('docker', [
          'run',
          '--rm',
          '--label',
          'sallyport.test=1',
          '--network',
          'none',
          'sallyport/agent:0.1.0',
          'grep',
          '-c',
          'BEGIN',
          '/etc/ssl/certs/ca-certificates.crt',
        ])
      ).stdout,
    ) + 1,
  )
})

test('a request that no rule allows is refused by the gate, by name and by address', async () => {
  const byName = await under.run(session.id, ['curl', '-sS', '-o', '/dev/null', '-D', '-', 'http://denied.example.test/'])
  assert.match(byName.stdout, /^HTTP\/1\.1 403 /)
  const around = await under.run(session.id, ['curl', '-sS', '--noproxy', '*', '-m', '4', 'http://192.0.2.1/'])
  assert.notEqual(around.code, 0)
})

test('I1 the agent’s lease is in its own environment, in no file of the home and in no column of the state', async () => {
  const lease = (agent.Config.Env ?? []).find((entry) => entry.startsWith('SALLYPORT_LEASE='))?.slice('SALLYPORT_LEASE='.length) ?? ''
  assert.ok(lease.length > 20)
  for (const entry of await readdir(under.home, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) assert.ok(!(await readFile(join(entry.parentPath, entry.name), 'latin1')).includes(lease), entry.name)
  }
  assert.ok(!JSON.stringify(sidecar).includes(lease))
})

test('a program runs in the agent with its exit code and both streams apart, and with a terminal as one', async () => {
  const result = await under.run(session.id, ['sh', '-c', 'echo out; echo err >&2; pwd; exit 3'])
  assert.deepEqual(result, { code: 3, stdout: 'out\n/workspace\n', stderr: 'err\n' })
  const { stream, exitCode } = await under.sessions.exec(session.id, ['sh', '-c', 'stty size; read line; echo "got $line"'], {
    tty: true,
    size: { columns: 91, rows: 33 },
    environment: { A: 'b' },
  })
  stream.write('hello\n')
  const text = await textOf(stream)
  assert.match(text, /got hello/)
  assert.equal(await exitCode(), 0)
})

test('what an agent printed is read, and its streams are attached', async () => {
  const other = await under.up({ command: ['sh', '-c', 'echo first; read line; echo "got $line"; echo bad >&2; exit 5'] })
  const attached = await under.sessions.attach(other.id, { replay: true })
  attached.stderr?.resume()
  attached.stream.write('hello\n')
  assert.equal(await textOf(attached.stream), 'first\ngot hello\n')
  assert.equal(await attached.exitCode(), 5)
  assert.equal(await under.sessions.wait(other.id, AbortSignal.timeout(10_000)), 5)
  const lines = await textOf(under.sessions.logs(other.id, { follow: true }, AbortSignal.timeout(10_000)))
  assert.deepEqual(lines.trim().split('\n').toSorted(), ['bad', 'first', 'got hello'])
  await under.sessions.down(other.id)
})

test('a port of the agent is reached, in both directions, and one that nobody listens on is said so', async () => {
  const server = `
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('0.0.0.0', 8123)); s.listen()
print('listening', flush=True)
while True:
    c, _ = s.accept()
    data = b''
    while True:
        piece = c.recv(65536)
        if not piece: break
        data += piece
    c.sendall(b'you said %d bytes' % len(data)); c.close()`
  const running = await under.sessions.exec(session.id, ['python3', '-u', '-c', server], { tty: false })
  running.stderr?.resume()
  await new Promise((resolve) => running.stream.once('data', resolve))
  const answers = await Promise.all(
    [0, 1, 100_000, 1_000_000].map(async (bytes) => {
      const stream = await under.sessions.forward(session.id, 8123)
      stream.end(Buffer.alloc(bytes))
      return await textOf(stream)
    }),
  )
  assert.deepEqual(answers, ['you said 0 bytes', 'you said 1 bytes', 'you said 100000 bytes', 'you said 1000000 bytes'])
  await assert.rejects(under.sessions.forward(session.id, 8124), { code: 'forward_refused', message: /ECONNREFUSED/ })
  await assert.rejects(under.sessions.forward(session.id, 70_000), { code: 'usage' })
  running.stream.destroy()
})

test('a reset throws away what the agent had in memory and nothing of the workspace of the host', async () => {
  const kept = join(under.workspace, 'mine')
  await writeFile(kept, 'mine')
  await under.run(session.id, ['sh', '-c', 'echo x > ~/planted; echo x > /tmp/planted; (sleep 1000 &)'])
  const report = await under.sessions.reset(session.id)
  assert.ok(report.wiped.includes('/home/agent') && report.wiped.includes('/tmp'))
  assert.deepEqual(report.kept, [under.workspace])
  const { stdout } = await under.run(session.id, [
    'sh',
    '-c',
    'ls -A ~ /tmp; cat /workspace/mine; echo; echo $SALLYPORT_LEASE; curl -sS -o /dev/null -w "%{http_code}" http://sallyport:7070/healthz',
  ])
  assert.doesNotMatch(stdout, /planted/)
  assert.match(stdout, /^mine$/m)
  assert.match(stdout, /^200$/m)
  const lease = (agent.Config.Env ?? []).find((entry) => entry.startsWith('SALLYPORT_LEASE='))?.slice(16)
  assert.ok(stdout.includes(lease ?? 'none'))
  assert.deepEqual((await under.engine.inspect(sidecar.Id))?.State.StartedAt, sidecar.State.StartedAt)
  assert.ok(existsSync(kept))
})

test('a reset of a workspace that is none of the host’s empties it', async () => {
  await using other = await openSessions({ plan: (plan) => ({ ...plan, filesystem: { ...plan.filesystem, workspace: 'none' } }) })
  const view = await other.up()
  await other.run(view.id, ['sh', '-c', 'echo x > /workspace/planted'])
  const { wiped, kept } = await other.sessions.reset(view.id)
  assert.ok(wiped.includes('/workspace'))
  assert.deepEqual(kept, [])
  assert.equal((await other.run(view.id, ['ls', '-A', '/workspace'])).stdout, '')
})

test('what policy the gate reads is replaced while it runs', async () => {
  await mkdir(join(under.home, 'policies'), { recursive: true })
  const file = join(under.home, 'policies', 'global.yaml')
  await writeFile(file, 'version: 1\nnetwork: {rules: [{id: x, host: x.example.com, action: deny}]}\n')
  await under.sessions.refreshPolicy(session.id)
  const { stdout } = await capture('docker', ['exec', sidecar.Id, 'cat', '/etc/sallyport/policy/current/global.yaml'])
  assert.match(stdout, /x\.example\.com/)
  await rm(file)
})

test('the agent’s end is told, and its session stays until it is taken down', async () => {
  const seen: string[] = []
  const stop = new AbortController()
  const listening = (async () => {
    for await (const { event, exitCode } of under.sessions.events(stop.signal)) {
      seen.push(exitCode === undefined ? event : `${event} ${exitCode}`)
      if (event === 'agent_ended') stop.abort()
    }
  })()
  const other = await under.up({ command: ['sh', '-c', 'read line; exit 4'] })
  const { stream, stderr } = await under.sessions.attach(other.id)
  stderr?.resume()
  stream.end('x\n')
  await listening
  assert.deepEqual(seen, ['starting', 'running', 'agent_ended 4'])
  assert.deepEqual(under.sessions.list().find(({ id }) => id === other.id)?.agent.exitCode, 4)
  await assert.rejects(under.sessions.exec(other.id, ['true'], { tty: false }), { code: 'session_not_running' })
  await under.sessions.down(other.id)
  assert.equal(under.state.row(other.id)?.state, 'ended')
})

test('a file that the operator’s git uncovers is told at once: as an event, in the list, in the audit; once, and by the next controller too', async () => {
  await using home = await openSessions()
  await capture('git', ['init', '--quiet', home.workspace])
  const view = await home.up()
  assert.deepEqual(view.alerts, [])
  const listening = (async () => {
    for await (const { event, details } of home.sessions.events(AbortSignal.timeout(20_000))) if (event === 'uncovered') return details
    return undefined
  })()
  await capture('git', ['-C', home.workspace, 'config', 'some.key', 'value'])
  const details = await listening
  assert.match(details?.join('\n') ?? '', /\.git\/config: was replaced on the host/)
  assert.deepEqual(home.sessions.list()[0]?.alerts, details)
  await home.sessions[Symbol.asyncDispose]()
  await using next = await openSessions({ home: home.home })
  await next.sessions.adopt(new AbortController().signal)
  assert.deepEqual(next.sessions.list()[0]?.alerts, details)
  assert.equal([...home.audited, ...next.audited].filter(({ event }) => event === 'uncovered').length, 1)
  await next.sessions.down(view.id)
})

test('a probe runs in the agent’s place with the gate’s program and is gone afterwards', async () => {
  const target = await under.sessions.selftestTarget(session.id)
  const run = await target.runProbe(['--version'], AbortSignal.timeout(20_000))
  assert.equal(run.exitCode, 0, run.stderr)
  assert.match(run.stdout, /\d+\.\d+\.\d+/)
  assert.deepEqual({ ...run.inspected.HostConfig, NetworkMode: '' }, { ...agent.HostConfig, NetworkMode: '' })
  assert.equal(run.inspected.Config.User, agent.Config.User)
  assert.deepEqual(
    (await leftIn(under.engine, under.home)).containers.filter((name) => name.endsWith('-probe')),
    [],
  )
})

test('an image that nobody has is said so at once, and nothing of the session is left', async () => {
  const there = await leftIn(under.engine, under.home)
  await assert.rejects(under.up({ image: '127.0.0.1:9/nobody/has-this:1' }), { code: 'image_missing', message: /127\.0\.0\.1:9\/nobody/ })
  assert.deepEqual(await leftIn(under.engine, under.home), there)
})

test('a program that the image does not have ends as a shell would say it', async () => {
  const other = await under.up({ command: ['/no/such/program'] })
  assert.equal(await under.sessions.wait(other.id, AbortSignal.timeout(10_000)), 127)
  await under.sessions.down(other.id)
})

test('the sidecar’s image is the one that was asked for', async () => {
  assert.equal(sidecar.Image, (await under.engine.image(SIDECAR_IMAGE))?.id)
})

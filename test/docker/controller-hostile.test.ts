import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { ContainerOptions, Engine } from '../../src/controller/sessions/engine.ts'
import type { SessionEvent, SessionRecord } from '../../src/controller/sessions/session-parts.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { capture } from '../../scripts/steps.ts'
import { engineInventory, leftIn, openSessions, type SessionsUnderTest } from '../support/controller-sessions.ts'

/** An engine on whose way somebody changes what is asked for. */
function altering(change: (options: ContainerOptions) => object): (engine: Engine) => Engine {
  return (engine) =>
    new Proxy(engine, {
      get(target, verb: keyof Engine) {
        if (verb !== 'create') return target[verb]
        return (options: ContainerOptions) => target.create(options.name.endsWith('-agent') ? { ...options, ...change(options) } : options)
      },
    })
}

function host(settings: Record<string, unknown>): (options: ContainerOptions) => object {
  return (options) => ({ HostConfig: { ...options.HostConfig, ...settings } })
}

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'sallyport-hostile-')))
after(() => rmSync(folder, { recursive: true, force: true }))

for (const { what, change, says } of [
  { what: 'privileged', change: host({ Privileged: true }), says: /HostConfig\.Privileged is true/ },
  { what: 'with a capability', change: host({ CapAdd: ['NET_ADMIN'] }), says: /HostConfig\.CapAdd/ },
  { what: 'with all capabilities kept', change: host({ CapDrop: [] }), says: /HostConfig\.CapDrop/ },
  { what: 'in the host’s processes', change: host({ PidMode: 'host' }), says: /HostConfig\.PidMode is "host"/ },
  {
    what: 'in the host’s network',
    change: host({ NetworkMode: 'host', Dns: [], ExtraHosts: [], Sysctls: {} }),
    says: /HostConfig\.NetworkMode is "host"/,
  },
  { what: 'in the host’s IPC', change: host({ IpcMode: 'host' }), says: /HostConfig\.IpcMode is "host"/ },
  { what: 'in the host’s UTS', change: host({ UTSMode: 'host' }), says: /HostConfig\.UTSMode is "host"/ },
  { what: 'in the host’s users', change: host({ UsernsMode: 'host' }), says: /HostConfig\.UsernsMode is "host"/ },
  { what: 'in the host’s cgroups', change: host({ CgroupnsMode: 'host' }), says: /HostConfig\.CgroupnsMode is "host"/ },
  {
    what: 'with a device',
    change: host({ Devices: [{ PathOnHost: '/dev/null', PathInContainer: '/dev/x', CgroupPermissions: 'rwm' }] }),
    says: /HostConfig\.Devices/,
  },
  {
    what: 'without seccomp',
    change: host({ SecurityOpt: ['no-new-privileges:true', 'seccomp=unconfined'] }),
    says: /HostConfig\.SecurityOpt/,
  },
  { what: 'that can gain privileges', change: host({ SecurityOpt: [] }), says: /HostConfig\.SecurityOpt/ },
  { what: 'with a writable root', change: host({ ReadonlyRootfs: false }), says: /HostConfig\.ReadonlyRootfs/ },
  {
    what: 'with the engine’s socket',
    change: host({ Binds: ['/var/run/docker.sock:/s'] }),
    says: /Mounts: bind .*docker\.sock at \/s was added/,
  },
  {
    what: 'with another kernel setting',
    change: host({ Sysctls: { 'net.ipv6.conf.all.disable_ipv6': '0' } }),
    says: /HostConfig\.Sysctls/,
  },
  { what: 'with a published port', change: host({ PortBindings: { '80/tcp': [{ HostPort: '0' }] } }), says: /HostConfig\.PortBindings/ },
  { what: 'with nothing masked', change: host({ MaskedPaths: [] }), says: /HostConfig\.MaskedPaths/ },
  { what: 'without a bound of processes', change: host({ PidsLimit: 0 }), says: /HostConfig\.PidsLimit/ },
  { what: 'as root', change: () => ({ User: '0:0' }), says: /Config\.User is "0:0"/ },
  {
    what: 'with a variable',
    change: (options: ContainerOptions) => ({ Env: [...options.Env, 'LD_PRELOAD=/x'] }),
    says: /LD_PRELOAD was added/,
  },
])
  test(`I14 an agent that is made ${what} never runs, its session is ended and the difference is recorded`, async () => {
    const started: string[] = []
    const engineOf = (engine: Engine): Engine =>
      new Proxy(altering(change)(engine), {
        get: (target, verb: keyof Engine) => (verb === 'start' ? (id: string) => (started.push(id), target.start(id)) : target[verb]),
      })
    await using under = await openSessions({ engine: engineOf })
    await assert.rejects(under.up(), { code: 'session_unverified', message: says })
    assert.ok(started.length <= 1, 'nothing but the gate was started')
    assert.deepEqual(await leftIn(under.engine, under.home), { containers: [], networks: [] })
    assert.deepEqual(
      under.audited.map(({ event }) => event).filter((event) => event !== 'starting' && event !== 'selftest_skipped'),
      ['unverified', 'failed'],
    )
    assert.match(under.audited.find(({ event }) => event === 'unverified')?.details?.join('\n') ?? '', says)
  })

let under: SessionsUnderTest
before(async () => {
  under = await openSessions()
  await under.sessions.adopt(new AbortController().signal)
})
after(() => under[Symbol.asyncDispose]())

/** Until the session has ended, one way or another. */
async function theEnd(session: string, wanted: SessionEvent['event'], act: () => Promise<unknown>): Promise<SessionEvent> {
  const stop = new AbortController()
  const events = under.sessions.events(AbortSignal.any([stop.signal, AbortSignal.timeout(30_000)]))
  await act()
  for await (const event of events) {
    if (event.session !== session || event.event !== wanted) continue
    stop.abort()
    return event
  }
  throw new Error(`no ${wanted}`)
}

test('I14 a session that somebody changes while it runs is ended, and the difference is recorded', async () => {
  const { id, agent } = await under.up()
  const { details } = await theEnd(id, 'failed', () => capture('docker', ['update', '--pids-limit', '-1', agent.container ?? '']))
  assert.match(details?.join('\n') ?? '', /session_unverified: .*HostConfig\.PidsLimit/s)
  assert.equal((await leftIn(under.engine, under.home)).containers.filter((name) => name.includes(id)).length, 0)
})

test('I14 a link that takes the place of a mount before the agent starts again keeps it from starting', async () => {
  const mounted = join(folder, 'mounted')
  mkdirSync(mounted)
  await using other = await openSessions({
    plan: (plan) => ({ ...plan, agent: { ...plan.agent, mounts: [{ source: mounted, target: '/data', readOnly: true }] } }),
  })
  const { id } = await other.up()
  rmSync(mounted, { recursive: true })
  symlinkSync('/etc', mounted)
  await assert.rejects(other.sessions.reset(id), { code: 'session_unverified', message: /mounted is no longer what was looked at/ })
  assert.deepEqual(await leftIn(other.engine, other.home), { containers: [], networks: [] })
})

test('a gate that is killed comes back by itself, with the agent running on and without a way out meanwhile', async () => {
  const { id, sidecar, agent } = await under.up()
  const started = (await under.engine.inspect(agent.container ?? ''))?.State.StartedAt
  const { stdout: pid } = await capture('docker', ['inspect', '--format', '{{.State.Pid}}', sidecar.container ?? ''])
  await theEnd(id, 'gate_lost', async () => process.kill(Number(pid), 'SIGKILL'))
  const { stdout } = await under.run(id, [
    'sh',
    '-c',
    'for i in $(seq 200); do curl -sS -m 1 -o /dev/null http://sallyport:7070/healthz 2>/dev/null && echo back && exit; sleep 0.1; done',
  ])
  assert.equal(stdout, 'back\n')
  assert.equal((await under.engine.inspect(agent.container ?? ''))?.State.StartedAt, started)
  await under.sessions.down(id)
})

test('an agent that is killed has ended with 137, and nothing else of its session', async () => {
  const { id, agent } = await under.up()
  const { exitCode } = await theEnd(id, 'agent_ended', () => capture('docker', ['kill', agent.container ?? '']))
  assert.equal(exitCode, 137)
  const [found] = under.sessions.list()
  assert.deepEqual([found?.state, found?.agent.running, found?.sidecar.healthy], ['running', false, true])
  await under.sessions.down(id)
})

for (const { what, plan, code } of [
  { what: 'a gate that never starts', plan: { environment: { SALLYPORT_LOG_LEVEL: 'never' } }, code: 'sidecar_not_ready' },
  { what: 'an image of the gate that nobody has', plan: { image: '127.0.0.1:9/none:1' }, code: 'image_missing' },
] as const)
  test(`I40 after ${what} nothing is left`, async () => {
    const there = await engineInventory()
    await using other = await openSessions({ plan: (planned) => ({ ...planned, sidecar: { ...planned.sidecar, ...plan } }) })
    await assert.rejects(other.up(), { code })
    const own = await leftIn(other.engine, other.home)
    assert.deepEqual(own, { containers: [], networks: [] })
    assert.ok(there.length > 0)
  })

test('I40 a session that is given up on the way leaves nothing', async () => {
  for (const at of ['networks', 'containers', 'gate', 'agent']) {
    await using other = await openSessions()
    const stop = new AbortController()
    const reason = new Error('given up')
    await assert.rejects(
      other.sessions.up(other.request(), stop.signal, (step) => {
        if (step === at) stop.abort(reason)
      }),
    )
    assert.deepEqual(await leftIn(other.engine, other.home), { containers: [], networks: [] }, at)
  }
})

test('I14 an audit that cannot be written keeps an agent from starting', async () => {
  await using other = await openSessions({
    parts: (parts) => ({
      ...parts,
      audit: async ({ event }) => {
        if (event === 'running') throw new Error('disk full')
      },
    }),
  })
  await assert.rejects(other.up(), /disk full/)
  assert.deepEqual(await leftIn(other.engine, other.home), { containers: [], networks: [] })
})

test('I14 volumes, user, entrypoint and health check of an image don’t come into a session; one that covers the system is refused', async () => {
  const name = `sallyport-test-image-${process.pid}`
  const build = async (lines: string): Promise<void> => {
    const context = mkdtempSync(join(folder, 'image-'))
    writeFileSync(join(context, 'Dockerfile'), `FROM sallyport/agent:0.1.0\n${lines}\n`)
    assert.equal((await capture('docker', ['build', '--quiet', '--tag', name, context])).code, 0)
  }
  try {
    await build('USER 0\nVOLUME /data /home/agent/cache\nENTRYPOINT ["/bin/false"]\nHEALTHCHECK CMD true')
    const view = await under.up({ image: name })
    const { stdout } = await under.run(view.id, ['sh', '-c', 'id -u; echo x > /data/x && grep -c "tmpfs /data " /proc/mounts'])
    const record = under.state.row(view.id)?.record as SessionRecord
    assert.equal(stdout, `${record.owner.uid}\n1\n`)
    const found = await under.engine.inspect(view.agent.container ?? '')
    assert.deepEqual(
      found?.Mounts.filter(({ Type }) => Type === 'volume'),
      [],
    )
    await under.sessions.down(view.id)
    await build('VOLUME /etc')
    await assert.rejects(under.up({ image: name }), { code: 'config_prohibited', message: /the volume \/etc/ })
  } finally {
    await capture('docker', ['image', 'rm', '--force', name])
  }
})

test('I38 code that an image brings in its variables does not run in the probe of the selftest', async () => {
  const image = 'sallyport-test/speaking:1'
  const { stdout } = await capture('docker', ['create', 'sallyport/agent:0.1.0', 'true'])
  const mark = 'NODE_OPTIONS=--import=data:text/javascript,console.log(%22forged%22);process.exit(0)'
  const probes: string[] = []
  try {
    await capture('docker', ['commit', '--change', `ENV ${mark}`, stdout.trim(), image])
    await using own = await openSessions({
      parts: (parts) => ({
        ...parts,
        selftest: async (target, signal) => void probes.push((await target.runProbe(['--version'], signal)).stdout.trim()),
      }),
    })
    await own.sessions.adopt(new AbortController().signal)
    const { id } = await own.up({ image, selftest: true })
    assert.deepEqual(probes, [VERSION])
    assert.match((await own.run(id, ['env'])).stdout, /forged/)
  } finally {
    await capture('docker', ['rm', '--force', stdout.trim()])
    await capture('docker', ['image', 'rm', '--force', image])
  }
})

test('what is looked for as a leftover is never a session that is still planned', async () => {
  const planning = Promise.withResolvers<void>()
  const looked = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  let followed = 0
  await using own = await openSessions({
    engine: (engine) => ({
      ...engine,
      async image(name) {
        asked.resolve()
        await planning.promise
        return await engine.image(name)
      },
      // The engine goes away once, in the middle, and everything is looked at again.
      async *events(labels, signal) {
        followed += 1
        if (followed > 1) {
          looked.resolve()
          yield* engine.events(labels, signal)
          return
        }
        await asked.promise
        throw new Error('the engine is away')
      },
    }),
  })
  await own.sessions.adopt(new AbortController().signal)
  const rising = own.up()
  await looked.promise
  planning.resolve()
  assert.equal((await rising).state, 'running')
})

test('of two sessions that are asked for at once by one name there is one', async () => {
  const both = Promise.withResolvers<void>()
  let begun = 0
  await using own = await openSessions({
    parts: (parts) => ({
      ...parts,
      async audit(event) {
        await parts.audit(event)
        if (event.event !== 'starting') return
        begun += 1
        if (begun === 2) both.resolve()
        await both.promise
      },
    }),
  })
  await own.sessions.adopt(new AbortController().signal)
  const results = await Promise.allSettled([own.up({ name: 'one' }), own.up({ name: 'one' })])
  assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  assert.equal(own.sessions.list().length, 1)
})

test('a container that somebody put on a network of a session does not keep the network, and goes on', async () => {
  const { id, agent } = await under.up()
  const { image } = JSON.parse(
    (await capture('docker', ['inspect', '--format', '{"image":"{{.Image}}"}', agent.container ?? ''])).stdout,
  ) as {
    image: string
  }
  const options = ['--detach', '--label', 'sallyport.test=stranger', '--network', `sallyport-${id}-uplink`, '--entrypoint', 'sleep']
  const stranger = (await capture('docker', ['run', ...options, image, '300'])).stdout.trim()
  try {
    await under.sessions.down(id)
    assert.deepEqual(await leftIn(under.engine, under.home), { containers: [], networks: [] })
    const { stdout } = await capture('docker', ['inspect', '--format', '{{.State.Running}} {{len .NetworkSettings.Networks}}', stranger])
    assert.equal(stdout.trim(), 'true 0')
  } finally {
    await capture('docker', ['rm', '--force', stranger])
  }
})

/** The control channel over the engine's own streams: by an engine that is reached by TCP, with the real daemon and the real gate. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { controlStream } from '../../src/controller/sessions/gate-ready.ts'
import { createDockerEngine } from '../../src/controller/sessions/docker-engine.ts'
import type { SessionDetail } from '../../src/controller/sessions/session-parts.ts'
import { capture } from '../../scripts/steps.ts'
import { openContainerUpstream, seenOf, type ContainerUpstream } from '../support/container-upstream.ts'
import { createTestSession, openTestController } from '../support/control.ts'
import { AGENT_IMAGE } from '../support/controller-sessions.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'
import { eventually } from '../support/eventually.ts'
import { inspected } from '../support/inspected.ts'
import { openTcpEngine, type TcpEngine } from '../support/tcp-engine.ts'

const API = 'api.demo.internal'
const newValue = (): string => `key-${randomBytes(20).toString('hex')}`
const keys = [newValue()]
const globalPolicy = (more = ''): string => `version: 1
network:
  rules:
    - {id: api, host: ${API}, methods: [GET], action: allow, addresses: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]}
${more}credentials:
  - {id: api, secret: API_KEY, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_KEY, source: "vault:API_KEY", resources: [inject]}
`

let engine: TcpEngine
let place: DaemonPlace
let upstream: ContainerUpstream
let daemon: DaemonProcess
let session: SessionDetail

before(async () => {
  engine = await openTcpEngine()
  place = openDaemonPlace()
  upstream = await openContainerUpstream([API])
  Object.assign(place.env, { DOCKER_HOST: engine.url, SALLYPORT_EXTRA_CA: upstream.authorityFile })
  place.write(join(place.home, 'policies', 'global.yaml'), globalPolicy())
  await place.must(['secret', 'set', 'API_KEY', '--unlock', 'key-file'], keys[0])
  daemon = await place.startDaemon()
  const id = (await place.must(['up', '--detach', '--workspace', await place.workspace('work')])).trim()
  session = await look(id)
  await upstream.join(uplink())
  await capture('docker', ['exec', session.agent.container ?? '', 'cp', '/sallyport/ca.crt', '/tmp/as-started.crt'])
})

after(async () => {
  await daemon[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
  await engine[Symbol.asyncDispose]()
})

const look = async (id: string): Promise<SessionDetail> => JSON.parse(await place.must(['inspect', id])) as SessionDetail
const uplink = (): string => `sallyport-${session.id}-uplink`
const fetched = (path: string) =>
  capture('docker', ['exec', session.agent.container ?? '', 'curl', '-sS', '-m', '10', `https://${API}${path}`])

async function arrives(key: string | undefined): Promise<void> {
  assert.deepEqual(JSON.parse((await fetched('/me')).stdout), { seen: seenOf(`Bearer ${key}`) })
}

async function isHealthy(): Promise<void> {
  await eventually(async () => assert.equal((await look(session.id)).sidecar.healthy, true))
}

test('behind an engine that is reached by TCP a gate has no socket of the host, and the engine keeps nothing of what it says', async () => {
  assert.equal(session.control, 'stdio')
  assert.equal(session.sidecar.healthy, true)
  const targets = await inspected<{ Target: string }[]>(session.sidecar.container, '.HostConfig.Mounts')
  assert.ok(!targets.some(({ Target }) => Target === '/run/sallyport'))
  assert.equal(await inspected<string>(session.sidecar.container, '.HostConfig.LogConfig.Type'), 'none')
  await arrives(keys[0])
})

test('over the engine’s streams new values and a new policy are in force once it is said so', async () => {
  keys.push(newValue())
  await place.must(['secret', 'set', 'API_KEY'], keys[1])
  place.write(
    join(place.home, 'policies', 'global.yaml'),
    globalPolicy(`    - {id: refused, host: ${API}, paths: ["/no"], action: deny}\n`),
  )
  await place.must(['secret', 'apply'])
  await arrives(keys[1])
  assert.match((await fetched('/no')).stdout, /denied_by_rule/)
})

test('over the engine’s streams a gate that is killed has its secrets again, and what it records comes as before', async () => {
  process.kill(await inspected<number>(session.sidecar.container, '.State.Pid'), 'SIGKILL')
  await eventually(() => arrives(keys.at(-1)))
  await isHealthy()
  const folder = join(place.home, 'audit', 'sessions')
  const begun = (name: string): number => readFileSync(join(folder, name), 'utf8').split('"started"').length - 1
  await eventually(() => assert.deepEqual([`${session.id}.jsonl`, `${session.id}.2.jsonl`].map(begun), [1, 1]))
})

test('streams that end without a word are attached to again, and carry what is pushed', async () => {
  engine.cut()
  await eventually(async () => assert.equal((await look(session.id)).sidecar.healthy, false))
  await isHealthy()
  keys.push(newValue())
  await place.must(['secret', 'set', 'API_KEY'], keys.at(-1))
  await place.must(['secret', 'apply'])
  await arrives(keys.at(-1))
})

test('over the engine’s streams the daemon after one that was killed has the same containers, and gives the gate what is new', async () => {
  keys.push(newValue())
  await place.must(['secret', 'set', 'API_KEY'], keys.at(-1))
  await daemon.stop('SIGKILL')
  await arrives(keys.at(-2))
  await upstream.leave(uplink())
  daemon = await place.startDaemon()
  await upstream.join(uplink())
  const { agent, sidecar } = await look(session.id)
  assert.deepEqual([agent.container, sidecar.container], [session.agent.container, session.sidecar.container])
  await eventually(() => arrives(keys.at(-1)))
})

test('a gate that is killed after another daemon has taken its session over keeps the authority that running programs trust', async () => {
  const asStarted = ['curl', '-sS', '-m', '10', '--cacert', '/tmp/as-started.crt', `https://${API}/me`]
  process.kill(await inspected<number>(session.sidecar.container, '.State.Pid'), 'SIGKILL')
  await eventually(async () => {
    const { stdout, stderr } = await capture('docker', ['exec', session.agent.container ?? '', ...asStarted])
    assert.deepEqual(stdout && JSON.parse(stdout), { seen: seenOf(`Bearer ${keys.at(-1)}`) }, stderr)
  })
  await isHealthy()
})

for (const { what, program } of [
  { what: 'the right mark, and then no end of anything', program: 'head -c 52; yes' },
  { what: 'the right mark, and then a frame of 4 GB', program: 'head -c 52; printf "\\377\\377\\377\\377"; yes "{"' },
])
  test(`a container that answers an attachment with ${what} is told no secret, and the gate beside it is served`, async () => {
    const name = `sallyport-flood-${randomBytes(6).toString('hex')}`
    const options = ['--detach', '--interactive', '--label', 'sallyport.test=flood', '--network', 'none', '--log-driver', 'none']
    await capture('docker', ['run', ...options, '--name', name, AGENT_IMAGE, 'sh', '-c', program])
    try {
      await using flooded = await createTestSession({ TOKEN: 'canary-flood-93ce04' })
      await using controller = await openTestController(flooded)
      const stream = await controlStream(createDockerEngine(engine.address), name, { said: undefined })
      controller.link.attach(stream)
      // Whoever sends so much is read no faster than the neighbour needs.
      await arrives(keys.at(-1))
      await place.must(['secret', 'apply'])
      await arrives(keys.at(-1))
      assert.equal(flooded.secretsAsked, 0)
      assert.ok(!flooded.states.includes('connected'))
    } finally {
      await capture('docker', ['rm', '--force', name])
    }
  })

test('over the engine’s streams revoking cuts what an agent has open, and nothing of it passes from then on', async () => {
  const ticking = spawn('docker', ['exec', session.agent.container ?? '', 'curl', '-sSN', `https://${API}/ticks`], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(ticking, 'close')
  await once(ticking.stdout, 'data')
  ticking.stdout.resume()
  await place.must(['lease', 'revoke', session.id])
  await ended
  const { length } = await upstream.saw()
  assert.notEqual((await fetched('/me')).code, 0)
  assert.equal((await upstream.saw()).length, length)
})

test('nothing is left of a session whose channel went over the engine’s streams, and no value of it in the home', async () => {
  await upstream.leave(uplink())
  await place.must(['down', session.id])
  const { stdout } = await capture('docker', ['ps', '--all', '--filter', `name=${session.id}`, '--format', '{{.Names}}'])
  assert.equal(stdout, '')
  for (const entry of readdirSync(place.home, { recursive: true, withFileTypes: true })) {
    const text = entry.isFile() ? readFileSync(join(entry.parentPath, entry.name), 'latin1') : ''
    assert.ok(!keys.some((key) => text.includes(key)), entry.name)
  }
  assert.ok(!keys.some((key) => place.printed().includes(key)))
})

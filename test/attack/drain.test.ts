/** The end of a gate: what runs may end, what is silent is not waited for, and the audit is complete. The limits are lowered for this process. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2'
import { connect } from 'node:net'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { verifyAudit } from '../../src/audit/audit.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { dialPort, openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { eventually } from '../support/eventually.ts'
import { readToEnd, statusOf } from '../support/raw-client.ts'
import { openRunningPeers, RUNNING, RUNNING_HOSTS, RUNNING_NAMES, RUNNING_POLICY, type RunningPeers } from '../support/running.ts'

Object.assign(LIMITS, { farewellMs: 300, drainMs: 1_500 })

const { api: API, pinned: PINNED, mail: MAIL } = RUNNING_HOSTS

type Setting = AsyncDisposable & { readonly ways: EveryWay; readonly peers: RunningPeers }

async function openSetting(): Promise<Setting> {
  await using parts = new AsyncDisposableStack()
  const ways = parts.use(await openEveryWay(RUNNING_POLICY, [API, PINNED, MAIL], { env: {} }))
  const peers = parts.use(await openRunningPeers(ways))
  const all = parts.move()
  return { ways, peers, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

/** Each request that was decided has its end in the audit, and then the gate has its own. */
async function assertComplete({ ways }: Setting): Promise<void> {
  await ways.gate.sidecar[Symbol.asyncDispose]()
  const events = await ways.gate.audit()
  const of = (event: string): unknown[] => events.filter((entry) => entry['event'] === event).map(({ request }) => request)
  assert.deepEqual(new Set(of('finished')), new Set(of('decided')))
  assert.equal(of('finished').length, of('decided').length)
  assert.equal(events.at(-1)?.['event'], 'stopped')
  await verifyAudit(ways.gate.sidecar.auditFile)
}

test('a drain ends though a silent connection stands at every way in, and none listens any more', async () => {
  await using setting = await openSetting()
  const { gate } = setting.ways
  const ports = [gate.port, gate.ports.socks, gate.ports.plain, gate.ports.secure, gate.ports.gateway, gate.ports.dns]
  const silent = await Promise.all([...ports, ...ports].map((port) => dialPort(port)))
  for (const [at, half] of ['GET http://', '\x05', 'GET /', '\x16\x03\x01', 'GET /healthz HTT', '\x00'].entries()) silent[at]?.write(half)
  await setting.ways.gate.sidecar.drain()
  await assertComplete(setting)
  for (const port of ports) {
    const [error] = (await once(connect(port, '127.0.0.1'), 'error')) as [NodeJS.ErrnoException]
    assert.equal(error.code, 'ECONNREFUSED', `port ${port}`)
  }
  for (const socket of silent) socket.destroy()
})

test('what runs by any way ends as it would have, while nothing new is taken', async () => {
  await using setting = await openSetting()
  const { ways } = setting
  const answers: Promise<string>[] = []
  const finish: (() => void)[] = []
  for (const way of ['absolute form', 'CONNECT', 'SOCKS5', 'transparent', 'route'] as const) {
    const { socket, target, authority } = await ways.open(way, 'https', API)
    socket.write(`POST ${target('/echo')} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\nContent-Length: 10\r\n\r\nfirst`)
    finish.push(() => socket.write('-last'))
    answers.push(readToEnd(socket))
  }
  await eventually(() => assert.equal(setting.peers.secure.requests.length, 5))
  const drained = ways.gate.sidecar.drain()
  await eventually(async () => {
    const [error] = (await once(connect(ways.gate.ports.gateway, '127.0.0.1'), 'error')) as [NodeJS.ErrnoException]
    assert.equal(error.code, 'ECONNREFUSED')
  })
  for (const end of finish) end()
  for (const answer of await Promise.all(answers)) {
    assert.equal(statusOf(answer), 200)
    assert.match(answer, /first[^]*-last/)
  }
  await drained
  await assertComplete(setting)
})

test('an HTTP/2 agent is told to go away (GOAWAY), its running stream ends well, and no stream is begun after', async () => {
  await using setting = await openSetting()
  const socket = await setting.ways.dialTls('CONNECT', API, 443, { ALPNProtocols: ['h2'] })
  const session: ClientHttp2Session = connectHttp2(`https://${API}`, { createConnection: () => socket })
  session.on('error', () => {})
  const stream = session.request({ ':method': 'POST', ':path': '/echo' })
  stream.write('first')
  let answer = ''
  stream.on('data', (chunk: Buffer) => (answer += chunk.toString()))
  await eventually(() => assert.equal(answer, 'first'))
  const drained = setting.ways.gate.sidecar.drain()
  const [code] = (await once(session, 'goaway')) as [number]
  assert.equal(code, 0)
  const [refused] = (await once(session.request({ ':path': '/new' }), 'error')) as [NodeJS.ErrnoException]
  assert.equal(refused.code, 'ERR_HTTP2_GOAWAY_SESSION')
  stream.end('-last')
  await once(stream, 'close')
  assert.equal(answer, 'first-last')
  await drained
  await assertComplete(setting)
})

test('what does not end by itself is ended when the time is up, and the audit has the end of each', async () => {
  await using setting = await openSetting()
  const all = await Promise.all(RUNNING_NAMES.map((name) => RUNNING[name](setting.ways, setting.peers)))
  const route = new WebSocket(`ws://127.0.0.1:${setting.ways.gate.ports.gateway}/route/${routeTo('http', API)}/`)
  route.on('error', () => {})
  await once(route, 'open')
  await setting.ways.gate.sidecar.drain()
  await Promise.all(all.map(({ closed }) => closed))
  if (route.readyState !== route.CLOSED) await once(route, 'close')
  await assertComplete(setting)
  for (const running of all) running.end()
})

test('a gate that is closed without a drain has the end of each that ran in its audit too', async () => {
  await using setting = await openSetting()
  const all = await Promise.all(RUNNING_NAMES.map((name) => RUNNING[name](setting.ways, setting.peers)))
  await assertComplete(setting)
  await Promise.all(all.map(({ closed }) => closed))
  for (const running of all) running.end()
})

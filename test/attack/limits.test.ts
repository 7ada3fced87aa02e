/**
 * At a limit new work is refused, with a code and Retry-After where the protocol has a place for them; what runs goes on, and when
 * some of it has ended there is room again. The limits are lowered for this process.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { eventually } from '../support/eventually.ts'
import { dialPort, openEveryWay, readBytes, routeTo, type EveryWay } from '../support/every-way.ts'
import { bodyOf, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { recordNetwork } from '../support/recorded-network.ts'
import { openRawUpstream, openUpstream, type Recorded, type Upstream } from '../support/upstream.ts'

Object.assign(LIMITS, {
  connectionsMax: 30,
  gatewayConnectionsMax: 3,
  tunnelsMax: 5,
  requestsMax: 12,
  requestsPerHostMax: 6,
  interimAnswersMax: 4,
  leafCacheMax: 2,
  dnsCacheMax: 3,
  dnsTtlMinMs: 60_000,
  keepAliveMs: 400,
})

const API = 'api.example.com'
const OTHER = 'other.example.com'
const THIRD = 'third.example.com'
const POLICY = `version: 1
network:
  rules:
${[API, OTHER, THIRD].map((host) => `    - {id: ${host.split('.')[0]}, host: ${host}, action: allow, addresses: ["127.0.0.0/8"]}\n`).join('')}routes:
  - {name: ${routeTo('http', API)}, upstream: "http://${API}", addresses: ["127.0.0.0/8"]}
`

type Setting = AsyncDisposable & {
  readonly ways: EveryWay
  readonly upstream: Upstream
  /** Answers to /wait that are not given yet. */
  readonly waiting: ServerResponse[]
  /** One request on a connection of its own. */
  send(host: string, path: string): Promise<string>
  /** Has so many requests to /wait at the upstream, each on a connection of its own. */
  hold(host: string, count: number): Promise<Promise<string>[]>
}

async function openSetting(): Promise<Setting> {
  await using parts = new AsyncDisposableStack()
  const ways = parts.use(await openEveryWay(POLICY, [API, OTHER, THIRD], { env: {} }))
  const waiting: ServerResponse[] = []
  const answer = (request: Recorded, response: ServerResponse): void => {
    if (request.url === '/wait') waiting.push(response)
    else response.end('ok')
  }
  const upstream = parts.use(await openUpstream(answer, undefined, ways.at(API, 80)))
  for (const host of [OTHER, THIRD]) parts.use(await openUpstream(answer, undefined, ways.at(host, 80)))
  const all = parts.move()
  const send = async (host: string, path: string): Promise<string> => {
    const socket = await dialPort(ways.gate.port)
    socket.write(`GET http://${host}${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    return readToEnd(socket)
  }
  return {
    ways,
    upstream,
    waiting,
    send,
    async hold(host, count) {
      const before = waiting.length
      const answers = Array.from({ length: count }, () => send(host, '/wait'))
      await eventually(() => assert.equal(waiting.length, before + count))
      return answers
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

function assertRefused(answer: string, status: number, code: string): void {
  assert.equal(statusOf(answer), status, answer)
  assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, code)
  assert.match(answer, /^retry-after: [1-9]\d*\r$/im)
}

test('requestsPerHostMax: one more to that host is 429 host_busy, other hosts go on, and all that ran ends well', async () => {
  await using setting = await openSetting()
  const held = await setting.hold(API, LIMITS.requestsPerHostMax)
  assertRefused(await setting.send(API, '/more'), 429, 'host_busy')
  assert.equal(setting.upstream.requests.length, LIMITS.requestsPerHostMax)
  assert.equal(statusOf(await setting.send(OTHER, '/')), 200)
  for (const response of setting.waiting) response.end('late')
  for (const answer of held) assert.match(await answer, /late$/)
  assert.equal(statusOf(await setting.send(API, '/')), 200, 'there is room again')
})

test('requestsMax: one more anywhere is 503 overloaded, and is in the audit; when one has ended there is room', async () => {
  await using setting = await openSetting()
  const held = [
    ...(await setting.hold(API, LIMITS.requestsPerHostMax)),
    ...(await setting.hold(OTHER, LIMITS.requestsMax - LIMITS.requestsPerHostMax)),
  ]
  assertRefused(await setting.send(THIRD, '/'), 503, 'overloaded')
  assert.ok((await setting.ways.gate.audit()).some(({ event, code }) => event === 'decided' && code === 'overloaded'))
  setting.waiting[0]?.end('late')
  await held[0]
  await eventually(async () => assert.equal(statusOf(await setting.send(THIRD, '/')), 200))
  for (const response of setting.waiting) response.end('late')
  await Promise.all(held)
})

test('tunnelsMax: one more CONNECT is 503 overloaded, one more by SOCKS5 a general failure; those that are open work', async () => {
  await using setting = await openSetting()
  const { gate } = setting.ways
  const tunnels: Socket[] = []
  for (let i = 0; i < LIMITS.tunnelsMax; i++) {
    const { socket } = await openTunnel(gate.port, `${API}:80`)
    socket.write(`GET /${i} HTTP/1.1\r\nHost: ${API}\r\n\r\n`)
    assert.match((await readBytes(socket, 12)).toString(), /200/)
    tunnels.push(socket)
  }
  const refused = await openTunnel(gate.port, `${API}:80`)
  assert.equal(refused.status, 503)
  assert.match(refused.head, /^retry-after: [1-9]/im)
  await assert.rejects(setting.ways.dial('SOCKS5', API, 80), /SOCKS 1/)
  assert.equal(statusOf(await setting.send(API, '/')), 200, 'requests without a tunnel go on')
  tunnels.pop()?.destroy()
  await eventually(async () => {
    const { status, socket } = await openTunnel(gate.port, `${API}:80`)
    socket.destroy()
    assert.equal(status, 200)
  })
  for (const socket of [...tunnels, refused.socket]) socket.destroy()
})

test('connectionsMax: one more is refused or closed by each way, and those that are open work', async () => {
  await using setting = await openSetting()
  const { gate } = setting.ways
  const idle = await Promise.all(Array.from({ length: LIMITS.connectionsMax }, () => dialPort(gate.port)))
  await eventually(async () => assertRefused(await readToEnd(await dialPort(gate.port)), 503, 'overloaded'))
  for (const port of [gate.ports.socks, gate.ports.plain, gate.ports.secure])
    assert.equal(await readToEnd(await dialPort(port)), '', `port ${port}`)
  const [first] = idle
  assert.ok(first)
  first.write(`GET http://${API}/ HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(first)), 200)
  await eventually(async () => assert.equal(statusOf(await setting.send(API, '/')), 200))
  for (const socket of idle) socket.destroy()
})

test('gatewayConnectionsMax: one more is closed at once, a request to a route that runs goes on', async () => {
  await using setting = await openSetting()
  const { gate } = setting.ways
  const route = await dialPort(gate.ports.gateway)
  route.write(`GET /route/${routeTo('http', API)}/wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  await eventually(() => assert.equal(setting.waiting.length, 1))
  const others = await Promise.all(Array.from({ length: LIMITS.gatewayConnectionsMax - 1 }, () => dialPort(gate.ports.gateway)))
  assert.equal(await readToEnd(await dialPort(gate.ports.gateway)), '')
  setting.waiting[0]?.end('late')
  assert.match(await readToEnd(route), /late/)
  for (const socket of others) socket.destroy()
})

test('interimAnswersMax: an upstream that sends more is given up with 502 upstream_invalid', async () => {
  await using ways = await openEveryWay(POLICY, [API, OTHER, THIRD], { env: {} })
  await using endless = await openRawUpstream(
    (socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(LIMITS.interimAnswersMax + 1)))
    },
    ways.at(API, 80),
  )
  const socket = await dialPort(ways.gate.port)
  socket.write(`GET http://${API}/ HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
  const answer = await readToEnd(socket)
  assert.match(answer, /HTTP\/1\.1 502 [^]*"code":"upstream_invalid"/)
  assert.equal(answer.match(/HTTP\/1\.1 103/g)?.length, LIMITS.interimAnswersMax)
  await eventually(() => assert.equal(endless.connections, 1))
})

test('leafCacheMax: more hosts than that are served all the same, and no more certificates than that are kept', async () => {
  await using setting = await openSetting()
  const seen: string[] = []
  for (const host of [API, API, OTHER, THIRD, API, API]) {
    const socket = await setting.ways.dialTls('CONNECT', host)
    const certificate = socket.getPeerX509Certificate()
    assert.equal(certificate?.checkHost(host), host)
    if (host === API) seen.push(certificate?.serialNumber ?? '')
    socket.destroy()
    await once(socket, 'close')
  }
  const [first, kept, made, keptAgain] = seen
  assert.deepEqual([kept, keptAgain], [first, made])
  assert.notEqual(made, first, 'two others took its place')
})

test('dnsCacheMax: no more answers than that are kept, whatever names an agent chooses', async () => {
  using network = recordNetwork()
  await using ways = await openEveryWay(POLICY.replace(`host: ${API}`, 'host: "*.example.net"'), [], { env: {} })
  network.answer = (_host, family) => (family === 4 ? ['127.77.3.1'] : [])
  const ask = async (name: string): Promise<void> => {
    const socket = await dialPort(ways.gate.port)
    socket.write(`GET http://${name}.example.net/ HTTP/1.1\r\nHost: ${name}.example.net\r\nConnection: close\r\n\r\n`)
    assert.equal(statusOf(await readToEnd(socket)), 502, 'nobody is there')
  }
  for (const name of ['a', 'a', 'b', 'c', 'd', 'a']) await ask(name)
  const asked = network.asked.filter((_, i) => i % 2 === 0).map((name) => name.slice(0, 1))
  assert.deepEqual(asked, ['a', 'b', 'c', 'd', 'a'])
})

test('keepAliveMs: an HTTP/2 connection without a stream ends, whatever else it sends', async () => {
  await using setting = await openSetting()
  const socket = await setting.ways.dialTls('CONNECT', API, 443, { ALPNProtocols: ['h2'] })
  const session = connectHttp2(`https://${API}`, { createConnection: () => socket })
  session.on('error', () => {})
  const pings = setInterval(() => session.destroyed || session.ping(() => {}), 50)
  await once(session, 'close')
  clearInterval(pings)
})

test('what is refused at a limit is never heard of by the upstream, however often it comes', async () => {
  await using setting = await openSetting()
  const held = await setting.hold(API, LIMITS.requestsPerHostMax)
  const count = setting.upstream.requests.length
  const refused = await Promise.all(Array.from({ length: 5 }, (_, n) => setting.send(API, `/refused/${n}`)))
  for (const answer of refused) assertRefused(answer, 429, 'host_busy')
  assert.equal(setting.upstream.requests.length, count)
  for (const response of setting.waiting) response.end()
  await Promise.all(held)
})

/** What a connection carries after an answer, and what it must not. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { dialTcp } from '../../../src/sidecar/upstream/dial.ts'
import { Http1Origin } from '../../../src/sidecar/upstream/http1-origin.ts'
import type { UpstreamRequest } from '../../../src/sidecar/upstream/upstream.ts'
import { eventually } from '../../support/eventually.ts'
import { echoPath, openHttp1, openOrigin } from '../../support/http1-upstream.ts'
import { hostname } from '../../support/policy.ts'
import { ask, HOST, openTlsSockets, take, Taker } from '../../support/upstream-client.ts'
import { openRawUpstream } from '../../support/upstream.ts'

Object.assign(LIMITS, { upstreamSweepMs: 20 })

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const POISONED = 'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned'
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

for (const scheme of ['http', 'https'] as const) {
  test(`requests one after another go over one connection (${scheme})`, async () => {
    await using upstream = await (scheme === 'http'
      ? openHttp1(echoPath)
      : openTlsSockets((socket) => socket.on('data', () => socket.write(OK)), ['http/1.1']))
    await using origin = openOrigin(upstream.port, scheme)
    for (let i = 0; i < 5; i += 1) assert.equal((await ask(origin, { path: '/1' })).status, 200)
    assert.equal(upstream.connections, 1)
  })
}

test('requests at the same time have a connection each, and no answer is given to another request', async () => {
  await using upstream = await openHttp1(echoPath)
  await using origin = openOrigin(upstream.port)
  const paths = Array.from({ length: 20 }, (_, n) => `/${n}`)
  const answers = await Promise.all(paths.map((path) => ask(origin, { path })))
  assert.deepEqual(
    answers.map(({ body }) => String(body)),
    paths,
  )
  assert.equal(upstream.connections, 20)
})

for (const { why, answer, method = 'GET', bodies = ['ok'] } of [
  { why: 'it says that it closes', answer: 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok' },
  { why: 'it says so among other things', answer: 'HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok' },
  { why: 'it speaks HTTP/1.0', answer: 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok' },
  {
    why: 'it keeps the connection for no longer than a request takes',
    answer: OK.replace('\r\n\r\n', '\r\nKeep-Alive: timeout=2\r\n\r\n'),
  },
  { why: 'more than the answer came', answer: `${OK}x` },
  { why: 'a second answer came', answer: `${OK}${POISONED}` },
  { why: 'more than the last chunk came', answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\n' },
  {
    why: 'the answer to HEAD may be followed by a body',
    answer: 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n',
    method: 'HEAD',
    bodies: [''],
  },
  { why: '204 says that it has a body', answer: 'HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n', bodies: [''] },
  { why: '304 says that it has chunks', answer: 'HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n', bodies: [''] },
] as { why: string; answer: string; method?: string; bodies?: string[] }[]) {
  test(`I10 a connection carries nothing more when ${why}`, async () => {
    await using upstream = await openHttp1(({ socket, connection }) => socket.write(connection === 1 ? answer : OK))
    await using origin = openOrigin(upstream.port)
    assert.equal(String((await ask(origin, { method })).body), bodies[0])
    assert.equal(String((await ask(origin)).body), 'ok')
    assert.equal(upstream.connections, 2)
    await eventually(() => assert.equal(upstream.open, 1))
  })
}

for (const { why, answer } of [
  { why: 'HTTP/1.0 that says so', answer: 'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok' },
  { why: '204', answer: 'HTTP/1.1 204 No\r\n\r\n' },
  { why: '304', answer: 'HTTP/1.1 304 No\r\nContent-Length: 0\r\n\r\n' },
  { why: 'an empty answer', answer: 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n' },
  { why: 'chunks with trailers', answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n' },
  { why: 'a time that is long enough', answer: OK.replace('\r\n\r\n', '\r\nKeep-Alive: timeout=60, max=1000\r\n\r\n') },
]) {
  test(`a connection goes on after ${why}`, async () => {
    await using upstream = await openHttp1(({ socket }) => socket.write(answer))
    await using origin = openOrigin(upstream.port)
    for (let i = 0; i < 3; i += 1) await ask(origin)
    assert.equal(upstream.connections, 1)
  })
}

test('I10 what an upstream says unasked ends the connection, and is no answer', async () => {
  await using upstream = await openHttp1(echoPath)
  await using origin = openOrigin(upstream.port)
  await ask(origin)
  upstream.sockets[0]?.write(POISONED)
  await once(upstream.sockets[0]!, 'close')
  assert.equal(String((await ask(origin, { path: '/2' })).body), '/2')
})

test('I10 what an upstream said before it was asked is no answer, even when nobody has read it yet', async () => {
  await using upstream = await openHttp1(echoPath)
  await using origin = openOrigin(upstream.port)
  await ask(origin, { path: '/1' })
  await turn()
  // It is in the buffers of the system when the next request is given, in the same turn.
  upstream.sockets[0]?.write(POISONED)
  assert.equal(String((await ask(origin, { path: '/2' })).body), '/2')
  assert.equal(upstream.connections, 2)
})

test('a connection that its upstream closed meanwhile is not used, even when nobody has seen it yet', async () => {
  await using upstream = await openHttp1(echoPath)
  await using origin = openOrigin(upstream.port)
  await ask(origin)
  await turn()
  upstream.sockets[0]?.destroy()
  await turn()
  assert.equal((await ask(origin, { method: 'POST' })).status, 200)
  assert.equal(upstream.connections, 2)
})

const POST: Partial<UpstreamRequest> = { method: 'POST', body: Buffer.from('x'), headers: ['host', HOST, 'content-length', '1'] }
for (const { what, request, isAgain } of [
  { what: 'GET', request: { method: 'GET' }, isAgain: true },
  { what: 'HEAD', request: { method: 'HEAD' }, isAgain: true },
  { what: 'DELETE without a body', request: { method: 'DELETE' }, isAgain: true },
  { what: 'POST', request: { method: 'POST' }, isAgain: false },
  { what: 'PATCH', request: { method: 'PATCH' }, isAgain: false },
  { what: 'POST with a body', request: POST, isAgain: false },
  { what: 'PUT with a body', request: { ...POST, method: 'PUT' }, isAgain: false },
  { what: 'a WebSocket', request: { upgrade: 'websocket' }, isAgain: false },
] as { what: string; request: Partial<UpstreamRequest>; isAgain: boolean }[]) {
  test(`a kept connection that ends as ${what} comes: ${isAgain ? 'sent again, once, on another' : 'upstream_unreachable, and not sent again'}`, async () => {
    await using upstream = await openHttp1((asked) => {
      if (asked.connection === 1 && asked.request === 2) asked.socket.destroy()
      else echoPath(asked)
    })
    await using origin = openOrigin(upstream.port)
    await ask(origin)
    const taker = take(origin, { ...request, path: '/2' })
    if (isAgain) assert.equal((await taker.done.promise).status, 200)
    else await assert.rejects(taker.done.promise, { code: 'upstream_unreachable' })
    assert.equal(taker.ends, 1)
    assert.equal(upstream.heads.filter((head) => head.includes(' /2 ')).length, isAgain ? 2 : 1)
    assert.equal(origin.isBusy, false)
  })
}

test('a request is sent again only once, and not at all when its connection was new', async () => {
  await using upstream = await openHttp1((asked) => {
    if (asked.head.includes(' /first ')) echoPath(asked)
    else asked.socket.destroy()
  })
  await using origin = openOrigin(upstream.port)
  await assert.rejects(ask(origin), { code: 'upstream_unreachable' })
  assert.equal(upstream.heads.length, 1)
  await ask(origin, { path: '/first' })
  await assert.rejects(ask(origin), { code: 'upstream_unreachable' })
  assert.equal(upstream.heads.length, 4)
})

test('a request is not sent again when a byte of its answer has come', async () => {
  await using upstream = await openHttp1((asked) => {
    if (asked.request === 1) echoPath(asked)
    else asked.socket.end('H')
  })
  await using origin = openOrigin(upstream.port)
  await ask(origin)
  await assert.rejects(ask(origin), { code: 'upstream_unreachable' })
  assert.equal(upstream.heads.length, 2)
})

test('a connection at rest closes after its time, and before the time that the upstream says', async () => {
  const before = LIMITS.upstreamKeepAliveMs
  try {
    Object.assign(LIMITS, { upstreamKeepAliveMs: 40 })
    await using upstream = await openHttp1(echoPath)
    await using origin = openOrigin(upstream.port)
    await ask(origin)
    await once(upstream.sockets[0]!, 'close')
    assert.equal(origin.isConnected, false)
  } finally {
    Object.assign(LIMITS, { upstreamKeepAliveMs: before })
  }
  Object.assign(LIMITS, { upstreamKeepAliveMarginMs: 950 })
  await using upstream = await openHttp1(({ socket }) => socket.write(OK.replace('\r\n\r\n', '\r\nKeep-Alive: timeout=1\r\n\r\n')))
  await using origin = openOrigin(upstream.port)
  await ask(origin)
  await once(upstream.sockets[0]!, 'close')
})

test('more requests than connections wait, and have their turn in their order', async () => {
  const before = LIMITS.upstreamConnectionsMax
  Object.assign(LIMITS, { upstreamConnectionsMax: 2 })
  try {
    await using upstream = await openHttp1((asked) => {
      // Every other answer ends its connection: another is made for what waits.
      if (asked.request % 2 === 0) asked.socket.end(OK.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
      else asked.socket.write(OK)
    })
    await using origin = openOrigin(upstream.port)
    const answers = Array.from({ length: 12 }, (_, n) => ask(origin, { path: `/${n}` }))
    assert.equal(origin.pending, 12)
    await Promise.all(answers)
    assert.deepEqual([origin.pending, origin.isBusy], [0, false])
    assert.equal(upstream.connections, 6)
    assert.deepEqual(
      upstream.heads.map((head) => Number(/\d+/.exec(head)?.[0])).toSorted((a, b) => a - b),
      Array.from({ length: 12 }, (_, n) => n),
    )
  } finally {
    Object.assign(LIMITS, { upstreamConnectionsMax: before })
  }
})

test('when no connection can be made, each request that waits for one is told', async () => {
  const gone = await openRawUpstream(() => {})
  await gone[Symbol.asyncDispose]()
  await using origin = openOrigin(gone.port)
  const ends = await Promise.allSettled(Array.from({ length: 10 }, () => ask(origin)))
  assert.ok(ends.every((end) => end.status === 'rejected' && (end.reason as { code: string }).code === 'upstream_unreachable'))
  assert.deepEqual([origin.pending, origin.isBusy], [0, false])
})

test('closing lets what runs and waits end, and nothing begin', async () => {
  const held: (() => void)[] = []
  await using upstream = await openHttp1((asked) => void held.push(() => echoPath(asked)))
  await using origin = openOrigin(upstream.port)
  const running = ask(origin, { path: '/running' })
  await eventually(() => assert.equal(held.length, 1))
  const waiting = ask(origin, { path: '/waiting' })
  let isClosed = false
  const closed = origin.close().then(() => (isClosed = true))
  await assert.rejects(ask(origin), { code: 'upstream_unreachable' })
  held[0]?.()
  await running
  assert.equal(isClosed, false)
  await eventually(() => assert.equal(held.length, 2))
  held[1]?.()
  assert.equal(String((await waiting).body), '/waiting')
  await closed
  await eventually(() => assert.equal(upstream.open, 0))
})

test('destroying ends what runs and what waits', async () => {
  await using upstream = await openHttp1((asked) => void (asked.head.includes(' /first ') && echoPath(asked)))
  await using origin = openOrigin(upstream.port)
  await ask(origin, { path: '/first' })
  const running = ask(origin)
  await eventually(() => assert.equal(upstream.heads.length, 2))
  const waiting = ask(origin)
  await origin.destroy()
  await assert.rejects(running, { code: 'upstream_unreachable' })
  await assert.rejects(waiting, { code: 'upstream_unreachable' })
  await eventually(() => assert.equal(upstream.open, 0))
})

test('destroying ends what waits for another connection to be sent again', async () => {
  await using upstream = await openHttp1((asked) => {
    if (asked.request === 1) echoPath(asked)
    else asked.socket.destroy()
  })
  let dials = 0
  const again = Promise.withResolvers<void>()
  const origin = new Http1Origin(HOST, () => {
    dials += 1
    if (dials === 1) return dialTcp({ host: hostname(HOST), port: upstream.port, addresses: ['127.0.0.1'] })
    again.resolve()
    return new Promise(() => {})
  })
  await ask(origin)
  const second = ask(origin)
  await again.promise
  assert.equal(origin.isBusy, true)
  await origin.destroy()
  await assert.rejects(second, { code: 'upstream_unreachable' })
})

for (const { what, act } of [
  { what: 'answers', act: (socket: Socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison') },
  { what: 'closes', act: (socket: Socket) => void socket.end() },
]) {
  test(`I10 a kept connection that ${what} before the first byte of a request was written is not the one that answers it`, async () => {
    await using upstream = await openHttp1(echoPath)
    await using origin = openOrigin(upstream.port)
    await ask(origin, { path: '/first' })
    const taker = new Taker()
    const body = new Readable({ read() {} })
    // By now it is kept, and not in use any more.
    await new Promise((resolve) => setImmediate(resolve))
    origin.dispatch({ method: 'POST', path: '/second', headers: [], body }, taker)
    await taker.started.promise
    act(upstream.sockets[0] ?? assert.fail('no connection'))
    await eventually(() => assert.equal(upstream.sockets.length, 2))
    body.push('late')
    body.push(null)
    const { status, body: answer } = await taker.done.promise
    assert.equal(`${status} ${answer.toString()}`, '200 /second')
    assert.equal(upstream.heads.filter((head) => head.startsWith('POST /second')).length, 1)
    assert.equal(taker.isSent, true)
  })
}

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { createServer as createTlsServer } from 'node:tls'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createUpstreams } from '../../../src/sidecar/upstream/upstreams.ts'
import { hostname } from '../../support/policy.ts'
import { openHttp2Upstream } from '../../support/http2-upstream.ts'
import { openFrames } from '../../support/http2-frames.ts'
import { ask, HOST, keyFor, LEAF, leafOf, openStreams, openTlsSockets, take, Taker, TRUST } from '../../support/upstream-client.ts'

for (const { protocols, spoken } of [
  { protocols: ['h2', 'http/1.1'], spoken: 'h2' },
  { protocols: ['h2'], spoken: 'h2' },
  { protocols: ['http/1.1'], spoken: 'http/1.1' },
] as const) {
  test(`an upstream of ${protocols.join(' and ')} is spoken to in ${spoken}, by the connection that asked`, async () => {
    await using server = await openHttp2Upstream(LEAF, { protocols })
    await using upstreams = createUpstreams(TRUST)
    const pool = upstreams.pool(keyFor(server.port))
    const body = Readable.from([Buffer.from('hello')])
    const answer = await ask(pool, { method: 'POST', headers: ['host', HOST, 'content-length', '5'], body })
    assert.equal(String(answer.body), 'ok')
    assert.deepEqual(
      [server.requests[0]?.protocol, server.requests[0]?.authority, String(server.requests[0]?.body)],
      [spoken, HOST, 'hello'],
    )
    await new Promise((resolve) => setImmediate(resolve)) // by then the socket is free again
    await ask(pool)
    assert.deepEqual([server.requests[1]?.protocol, server.connections], [spoken, 1])
  })
}

test('an upstream that knows no ALPN is spoken to in HTTP/1.1', async () => {
  const server = createTlsServer(LEAF, (socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  await using upstreams = createUpstreams(TRUST)
  assert.equal(String((await ask(upstreams.pool(keyFor((server.address() as AddressInfo).port)))).body), 'ok')
  server.close()
})

test('requests that come before it is known wait for one dial; the sockets after an HTTP/1.1 one ask for nothing else', async () => {
  const offered: string[][] = []
  const answers: (() => void)[] = []
  const server = createHttpsServer(
    {
      ...LEAF,
      ALPNCallback: ({ protocols }) => {
        offered.push(protocols)
        return 'http/1.1'
      },
    },
    (_request, response) => {
      answers.push(() => response.end('ok'))
      if (answers.length === 3) for (const answer of answers) answer()
    },
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor((server.address() as AddressInfo).port))
  const bodies = (await Promise.all([ask(pool), ask(pool), ask(pool)])).map(({ body }) => String(body))
  assert.deepEqual(bodies, ['ok', 'ok', 'ok'])
  assert.deepEqual(offered, [['h2', 'http/1.1'], ['http/1.1'], ['http/1.1']])
  server.close()
})

test('many requests to an HTTP/2 upstream at once have one connection', async () => {
  await using server = await openHttp2Upstream(LEAF)
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  await Promise.all(Array.from({ length: 50 }, () => ask(pool)))
  assert.equal(server.connections, 1)
})

test('a WebSocket has an HTTP/1.1 connection of its own, on an origin that speaks HTTP/2', async () => {
  const upgrades: string[] = []
  await using server = await openTlsSockets(
    (socket) => {
      if (socket.alpnProtocol !== 'http/1.1') return socket.destroy()
      socket.once('data', (head: Buffer) => {
        upgrades.push(String(head))
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello')
        socket.on('data', (chunk: Buffer) => socket.write(`<${String(chunk)}>`))
      })
    },
    ['h2', 'http/1.1'],
  )
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const taker = take(pool, { upgrade: 'websocket', headers: ['host', HOST, 'sec-websocket-key', 'x'] })
  const socket = await taker.upgraded.promise
  assert.equal(taker.answer.status, 101)
  assert.match(
    upgrades[0] ?? '',
    /^GET \/ HTTP\/1\.1\r\nhost: api\.example\.com\r\nconnection: upgrade\r\nupgrade: websocket\r\n[^]*sec-websocket-key: x\r\n/,
  )
  let heard = ''
  socket.on('data', (chunk: Buffer) => (heard += String(chunk)))
  socket.resume()
  socket.write('ping')
  while (!heard.endsWith('<ping>')) await once(socket, 'data')
  assert.equal(heard, 'hello<ping>')
  socket.destroy()
})

// Over HTTP/1.1 although HTTP/2 was offered and would be taken: without the line that sees to it, it goes over HTTP/2 and this fails.
test('an upstream that does not switch answers the WebSocket like a request', async () => {
  const asked: unknown[] = []
  await using server = await openHttp2Upstream(LEAF, {
    answer: ({ headers }, response) => {
      asked.push(headers['upgrade'])
      response.writeHead(403).end('no')
    },
  })
  await using upstreams = createUpstreams(TRUST)
  const taker = take(upstreams.pool(keyFor(server.port)), { upgrade: 'websocket' })
  const answer = await taker.done.promise
  assert.deepEqual([answer.status, String(answer.body)], [403, 'no'])
  assert.deepEqual([asked, server.requests.map(({ protocol }) => protocol)], [['websocket'], ['http/1.1']])
})

test('an upstream that speaks HTTP/1.1 when it comes back is spoken to in HTTP/1.1, and in HTTP/2 again after that', async () => {
  const place = { host: '127.0.0.1', port: 0 }
  const spoken: (string | undefined)[] = []
  await using upstreams = createUpstreams(TRUST)
  for (const protocol of ['h2', 'http/1.1', 'h2'] as const) {
    await using server = await openHttp2Upstream(LEAF, { protocols: [protocol], place })
    place.port = server.port
    const pool = upstreams.pool(keyFor(server.port))
    // The connections of the one before may not all be noticed as gone yet.
    while ((await ask(pool).catch(() => undefined)) === undefined);
    spoken.push(server.requests[0]?.protocol)
  }
  assert.deepEqual(spoken, ['h2', 'http/1.1', 'h2'])
})

test('a dial that fails fails all who wait for it, and the next request dials anew', async () => {
  await using upstreams = createUpstreams(TRUST)
  await using foreign = await openTlsSockets((socket) => void socket.destroy(), ['h2'])
  const closed = keyFor(foreign.port, { addresses: ['127.0.0.9'] })
  const pool = upstreams.pool(closed)
  for (let round = 0; round < 2; round += 1) {
    const ends = await Promise.allSettled([ask(pool), ask(pool)])
    for (const end of ends) assert.equal(end.status === 'rejected' && (end.reason as { code: string }).code, 'upstream_unreachable')
  }
  assert.equal(foreign.connections, 0)
})

for (const { what, tls } of [
  { what: 'another host', tls: leafOf('other.example.com') },
  { what: 'an authority that nobody trusts', tls: undefined },
]) {
  test(`I6 nothing is sent to an upstream with a certificate of ${what}, by HTTP/2 neither`, async () => {
    let streams = 0
    await using server = await openStreams(() => (streams += 1), tls ?? {})
    await using upstreams = tls ? createUpstreams(TRUST) : createUpstreams((await import('node:tls')).createSecureContext())
    await assert.rejects(ask(upstreams.pool(keyFor(server.port))), { code: 'upstream_tls_failed' })
    assert.equal(streams, 0)
  })
}

for (const { what, more } of [
  { what: 'credentials', more: { credential: 'other' } },
  { what: 'generations', more: { generation: 1 } },
  { what: 'judged addresses', more: { addresses: ['127.0.0.1', '127.0.0.2'] } },
]) {
  test(`I7 requests with different ${what} never share an HTTP/2 session`, async () => {
    await using server = await openHttp2Upstream(LEAF)
    await using upstreams = createUpstreams(TRUST)
    await Promise.all([ask(upstreams.pool(keyFor(server.port))), ask(upstreams.pool(keyFor(server.port, more)))])
    await Promise.all([ask(upstreams.pool(keyFor(server.port))), ask(upstreams.pool(keyFor(server.port, more)))])
    assert.equal(server.connections, 2)
    const ports = new Map<number, number>()
    for (const { remotePort } of server.requests) ports.set(remotePort, (ports.get(remotePort) ?? 0) + 1)
    assert.deepEqual([...ports.values()], [2, 2])
  })
}

test('I7 an upstream that certifies two hosts gets two sessions: nothing is coalesced', async () => {
  await using server = await openHttp2Upstream(LEAF)
  await using upstreams = createUpstreams(TRUST)
  await ask(upstreams.pool(keyFor(server.port)))
  const other = { ...keyFor(server.port), host: hostname('other.example.com') }
  await assert.rejects(ask(upstreams.pool(other)), { code: 'upstream_tls_failed' })
  assert.equal(server.connections, 2)
})

test('what a retired generation runs goes on to its end, and its idle connections close at once', async () => {
  let finish: () => void = () => {}
  await using server = await openStreams((stream, asked) => {
    stream.respond({ ':status': 200 })
    if (asked[':path'] === '/slow') finish = () => stream.end('late')
    else stream.end('ok')
  })
  await using upstreams = createUpstreams(TRUST)
  const running = take(upstreams.pool(keyFor(server.port)), { path: '/slow' })
  await ask(upstreams.pool(keyFor(server.port, { credential: 'idle' })))
  await running.answered.promise
  assert.equal(server.sessions.size, 2)
  const [, idle] = server.sessions
  const gone = once(idle as unknown as NodeJS.EventEmitter, 'close')
  upstreams.retire(1)
  await gone
  assert.equal(upstreams.size, 0)
  assert.equal(server.sessions.size, 1)
  const last = once([...server.sessions][0] as unknown as NodeJS.EventEmitter, 'close')
  finish()
  assert.equal(String((await running.done.promise).body), 'late')
  await last
})

test('a request that was decided before the policy changed still goes, on a connection that serves no other', async () => {
  await using server = await openHttp2Upstream(LEAF)
  await using upstreams = createUpstreams(TRUST)
  upstreams.retire(5)
  assert.equal((await ask(upstreams.pool(keyFor(server.port, { generation: 4 })))).status, 200)
  assert.equal(upstreams.size, 0)
  await ask(upstreams.pool(keyFor(server.port, { generation: 4 })))
  assert.equal(server.connections, 2)
})

test('too many requests to one host and port: host_busy for more, whatever credential they have, and other hosts go on', async () => {
  await using silent = await openFrames(() => {})
  await using server = await openHttp2Upstream(LEAF)
  const upstreams = createUpstreams(TRUST)
  const takers = Array.from({ length: LIMITS.requestsPerHostMax }, (_, n) =>
    take(upstreams.pool(keyFor(silent.port, { credential: `c${n % 10}` }))),
  )
  assert.throws(() => upstreams.pool(keyFor(silent.port, { credential: 'new' })), { code: 'host_busy' })
  assert.equal((await ask(upstreams.pool(keyFor(server.port)))).status, 200)
  const [first] = takers
  const controller = await first?.started.promise
  controller?.abort(new Error('enough'))
  await assert.rejects(first?.done.promise ?? Promise.resolve(), /enough/)
  assert.doesNotThrow(() => upstreams.pool(keyFor(silent.port, { credential: 'new' })), 'one has ended')
  await upstreams[Symbol.asyncDispose]()
  const ends = await Promise.allSettled(takers.map(({ done }) => done.promise))
  assert.ok(ends.every(({ status }) => status === 'rejected'))
})

test('a WebSocket counts for its host until it is closed', async () => {
  await using server = await openTlsSockets(
    (socket) => {
      if (socket.alpnProtocol !== 'http/1.1') return
      socket.once('data', () => socket.write('HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'))
    },
    ['h2', 'http/1.1'],
  )
  const upstreams = createUpstreams(TRUST)
  const socket = await take(upstreams.pool(keyFor(server.port)), { upgrade: 'websocket' }).upgraded.promise
  for (let n = 1; n < LIMITS.requestsPerHostMax; n += 1) take(upstreams.pool(keyFor(server.port, { credential: `c${n % 10}` })))
  assert.throws(() => upstreams.pool(keyFor(server.port)), { code: 'host_busy' })
  const closed = once(socket, 'close')
  socket.destroy()
  await closed
  assert.doesNotThrow(() => upstreams.pool(keyFor(server.port)))
  await upstreams[Symbol.asyncDispose]()
})

test('taken down while it dials, those who wait are told, and the connection that comes is closed', async () => {
  await using server = await openTlsSockets(() => {}, ['h2'])
  const upstreams = createUpstreams(TRUST)
  const end = ask(upstreams.pool(keyFor(server.port)))
  await upstreams[Symbol.asyncDispose]()
  await assert.rejects(end, { code: 'upstream_unreachable' })
  while (server.connections === 0 || server.open > 0) await new Promise((resolve) => setImmediate(resolve))
})

test('an HTTP/2 connection that nothing runs on closes after its time', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] })
  await using server = await openStreams((stream) => stream.respond({ ':status': 204 }, { endStream: true }))
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const streamEnds = async (): Promise<void> => {
    for (let i = 0; i < 10; i += 1) await new Promise((resolve) => setImmediate(resolve))
  }
  await ask(pool)
  await streamEnds()
  const closed = once([...server.sessions][0] as unknown as NodeJS.EventEmitter, 'close')
  context.mock.timers.tick(LIMITS.upstreamKeepAliveMs - 1)
  await ask(pool)
  assert.equal(server.connections, 1)
  await streamEnds()
  context.mock.timers.tick(LIMITS.upstreamKeepAliveMs)
  await closed
})

test('an upstream that says h2 and never sends SETTINGS is given up', async (context) => {
  await using server = await openTlsSockets(() => {}, ['h2'])
  await using upstreams = createUpstreams(TRUST)
  context.mock.timers.enable({ apis: ['setTimeout'] })
  const taker = take(upstreams.pool(keyFor(server.port)))
  await taker.started.promise
  context.mock.timers.tick(LIMITS.tlsHandshakeMs)
  await assert.rejects(taker.done.promise, { code: 'upstream_unreachable' })
})

test('an upstream that does not answer in time: upstream_timeout, counted from the end of the request', async (context) => {
  await using server = await openStreams((stream, asked) => {
    if (asked[':method'] === 'GET') stream.respond({ ':status': 204 }, { endStream: true })
  })
  await using upstreams = createUpstreams(TRUST)
  await ask(upstreams.pool(keyFor(server.port)))
  context.mock.timers.enable({ apis: ['setTimeout'] })
  const body = new Readable({ read() {} })
  const taker = new Taker()
  const isOut = Promise.withResolvers<void>()
  taker.onRequestSent = () => isOut.resolve()
  take(upstreams.pool(keyFor(server.port)), { method: 'POST', body: body.on('error', () => {}) }, taker)
  await taker.started.promise
  context.mock.timers.tick(LIMITS.upstreamHeadMs * 2)
  assert.equal(taker.ends, 0, 'a stream in both directions may be quiet')
  body.push(null)
  await isOut.promise
  context.mock.timers.tick(LIMITS.upstreamHeadMs)
  await assert.rejects(taker.done.promise, { code: 'upstream_timeout' })
})

test('an answer that stops halfway ends after its time, but not while the agent is the one that does not read', async (context) => {
  await using server = await openStreams((stream, asked) => {
    stream.respond({ ':status': 200 })
    if (asked[':path'] === '/whole') stream.end()
    else stream.write('half')
  })
  await using upstreams = createUpstreams(TRUST)
  await ask(upstreams.pool(keyFor(server.port)), { path: '/whole' })
  context.mock.timers.enable({ apis: ['setTimeout'] })
  const taker = new Taker()
  const read = Promise.withResolvers<void>()
  taker.onChunk = () => read.resolve()
  take(upstreams.pool(keyFor(server.port)), {}, taker)
  const controller = await taker.answered.promise
  await read.promise
  controller.pause()
  context.mock.timers.tick(LIMITS.upstreamBodyIdleMs * 2)
  assert.equal(taker.ends, 0)
  controller.resume()
  context.mock.timers.tick(LIMITS.upstreamBodyIdleMs)
  await assert.rejects(taker.done.promise, { code: 'upstream_timeout' })
})

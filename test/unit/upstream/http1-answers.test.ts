/** Answers over HTTP/1.1: whole ones, broken ones, and what their handler does meanwhile. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { UpstreamController } from '../../../src/sidecar/upstream/upstream.ts'
import { echoPath, openHttp1, openOrigin } from '../../support/http1-upstream.ts'
import { ask, HOST, take, Taker } from '../../support/upstream-client.ts'

Object.assign(LIMITS, { upstreamSweepMs: 20 })

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const HINTS = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'

async function drip(socket: Socket, text: string): Promise<void> {
  for (const byte of Buffer.from(text)) {
    socket.write(Buffer.of(byte))
    await new Promise((resolve) => setImmediate(resolve))
  }
  socket.end()
}

for (const { what, answer, body, method = 'GET', trailers = [] } of [
  { what: 'a length', answer: OK, body: 'ok' },
  { what: 'chunks', answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\n\r\n', body: 'ok' },
  {
    what: 'chunks and trailers',
    answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-A: 1\r\nx-a: \r\n\r\n',
    body: 'ok',
    trailers: ['X-A', '1', 'x-a', ''],
  },
  { what: 'the end of the connection', answer: 'HTTP/1.1 200 OK\r\n\r\nok', body: 'ok' },
  { what: 'the end of the connection, in HTTP/1.0', answer: 'HTTP/1.0 200 OK\r\n\r\nok', body: 'ok' },
  { what: 'nothing, to HEAD', answer: 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n', body: '', method: 'HEAD' },
  { what: 'nothing, with 204', answer: 'HTTP/1.1 204 No Content\r\n\r\n', body: '' },
  { what: 'nothing, with 304', answer: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n', body: '' },
  { what: 'a length, behind interim answers', answer: `HTTP/1.1 100 Continue\r\n\r\n${HINTS}${OK}`, body: 'ok' },
]) {
  test(`an answer that is framed by ${what} arrives whole, also byte by byte`, async () => {
    await using upstream = await openHttp1(({ socket, connection }) => {
      socket.setNoDelay(true)
      if (connection === 1) socket.end(answer)
      else void drip(socket, answer)
    })
    for (let i = 0; i < 2; i += 1) {
      await using origin = openOrigin(upstream.port)
      const taker = take(origin, { method })
      const got = await taker.done.promise
      assert.deepEqual([String(got.body), got.trailers, taker.ends], [body, trailers, 1])
      assert.deepEqual(got.interim, answer.includes('103') ? [100, 103] : [])
    }
  })
}

for (const { why, answer, code = 'upstream_unreachable' } of [
  { why: 'ends before its length', answer: 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart' },
  {
    why: 'ends before its length, having said that it closes',
    answer: 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\npart',
  },
  { why: 'ends before its last chunk', answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n' },
  { why: 'ends in its last chunk', answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n0\r\n' },
  { why: 'ends in a chunk', answer: 'HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\npart' },
  { why: 'ends after interim ones', answer: HINTS },
  { why: 'ends in its head', answer: 'HTTP/1.1 200 OK\r\nX: y' },
  {
    why: 'has a chunk that is longer than it says',
    answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\npart\r\n',
    code: 'upstream_invalid',
  },
  {
    why: 'has a chunk size in another notation',
    answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x4\r\npart\r\n',
    code: 'upstream_invalid',
  },
  {
    why: 'has a chunk size beyond all numbers',
    answer: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n',
    code: 'upstream_invalid',
  },
  { why: 'has a head without end', answer: `HTTP/1.1 200 OK\r\nX: ${'y'.repeat(40_000)}`, code: 'upstream_invalid' },
  {
    why: 'has trailers without end',
    answer: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ${'y'.repeat(40_000)}`,
    code: 'upstream_invalid',
  },
  { why: 'is interim for ever', answer: HINTS.repeat(200), code: 'upstream_invalid' },
  { why: 'has a status below 100', answer: 'HTTP/1.1 099 Odd\r\n\r\n', code: 'upstream_invalid' },
  {
    why: 'switches protocols unasked',
    answer: 'HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
    code: 'upstream_invalid',
  },
]) {
  test(`an answer that ${why}: ${code}, no end, and the next request has a connection of its own`, async () => {
    await using upstream = await openHttp1((asked) => (asked.connection === 1 ? void asked.socket.end(answer) : echoPath(asked)))
    await using origin = openOrigin(upstream.port)
    const taker = take(origin)
    await assert.rejects(taker.done.promise, { code })
    assert.ok(taker.answer.interim.length <= LIMITS.interimAnswersMax)
    assert.equal(taker.ends, 1)
    assert.equal(String((await ask(origin, { path: '/2' })).body), '/2')
  })
}

test('an answer until the end of the connection is not whole when the connection is reset', async () => {
  await using upstream = await openHttp1(({ socket }) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\npart')
  })
  await using origin = openOrigin(upstream.port)
  const taker = take(origin)
  await taker.answered.promise
  upstream.sockets[0]?.resetAndDestroy()
  await assert.rejects(taker.done.promise, { code: 'upstream_unreachable' })
})

test('an answer to a WebSocket that does not name the protocol is upstream_invalid', async () => {
  await using upstream = await openHttp1(({ socket }) => socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n'))
  await using origin = openOrigin(upstream.port)
  await assert.rejects(take(origin, { upgrade: 'websocket' }).done.promise, { code: 'upstream_invalid' })
})

test('a paused exchange is told nothing until it is resumed, though all of it came in one read', async () => {
  const pieces = Array.from('abcdefgh')
  const chunks = pieces.map((letter) => `1\r\n${letter}\r\n`).join('')
  await using upstream = await openHttp1(({ socket }) =>
    socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\nX: y\r\n\r\n`),
  )
  await using origin = openOrigin(upstream.port)
  const taker = new Taker()
  let told = ''
  let controller: UpstreamController | undefined
  taker.onChunk = (given, chunk) => {
    told += String(chunk)
    controller = given
    given.pause()
  }
  take(origin, {}, taker)
  for (const i of pieces.keys()) {
    while (told.length === i) await new Promise((resolve) => setImmediate(resolve))
    for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual([told, taker.ends], [pieces.slice(0, i + 1).join(''), 0])
    controller?.resume()
  }
  assert.deepEqual((await taker.done.promise).trailers, ['X', 'y'])
  taker.onChunk = undefined
  await ask(origin)
  assert.equal(upstream.connections, 1)
})

test('what is paused for an answer without a body does not stay so for the next', async () => {
  await using upstream = await openHttp1(({ socket, request }) => socket.write(request === 1 ? 'HTTP/1.1 204 No\r\n\r\n' : OK))
  await using origin = openOrigin(upstream.port)
  const taker = new Taker()
  const onStart = taker.onResponseStart.bind(taker)
  taker.onResponseStart = (controller, status) => {
    controller.pause()
    onStart(controller, status)
  }
  await take(origin, {}, taker).done.promise
  assert.equal(String((await ask(origin)).body), 'ok')
  assert.equal(upstream.connections, 1)
})

for (const { when, abortAt } of [
  { when: 'as it starts', abortAt: 'onRequestStart' },
  { when: 'when it was sent', abortAt: 'onRequestSent' },
  { when: 'by an interim answer', abortAt: 'interim' },
  { when: 'by the head of its answer', abortAt: 'onResponseStart' },
  { when: 'by the body of its answer', abortAt: 'onResponseData' },
] as const) {
  for (const how of ['abort', 'throw'] as const) {
    test(`an exchange that is ended ${when} (${how}) has that one end, and the next goes on`, async () => {
      await using upstream = await openHttp1((asked) => {
        if (asked.head.includes(' /1 ')) asked.socket.write(`${HINTS}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef`)
        else echoPath(asked)
      })
      await using origin = openOrigin(upstream.port)
      const reason = new Error('enough')
      const taker = new Taker()
      let controller: UpstreamController | undefined
      let after = 0
      const end = (at: string): void => {
        if (taker.ends > 0) after += 1
        if (at !== abortAt) return
        if (how === 'throw') throw reason
        controller?.abort(reason)
      }
      taker.onRequestStart = (given) => {
        controller = given
        end('onRequestStart')
      }
      taker.onRequestSent = () => end('onRequestSent')
      taker.onResponseStart = (_controller, status) => end(status < 200 ? 'interim' : 'onResponseStart')
      taker.onChunk = () => end('onResponseData')
      take(origin, { path: '/1' }, taker)
      await assert.rejects(taker.done.promise, reason)
      controller?.abort(new Error('again'))
      controller?.resume()
      assert.equal(String((await ask(origin, { path: '/2' })).body), '/2')
      assert.deepEqual([taker.ends, after, origin.isBusy], [1, 0, false])
      if (abortAt === 'onRequestStart') assert.deepEqual([upstream.heads.length, upstream.connections], [1, 1])
      else await eventuallyOne(upstream)
    })
  }
}

async function eventuallyOne(upstream: { readonly open: number }): Promise<void> {
  while (upstream.open > 1) await new Promise((resolve) => setImmediate(resolve))
}

test('a handler that throws at the end is told so, and the next goes on', async () => {
  await using upstream = await openHttp1(echoPath)
  await using origin = openOrigin(upstream.port)
  const taker = new Taker()
  taker.onResponseEnd = () => {
    throw new Error('cannot be written')
  }
  await assert.rejects(take(origin, {}, taker).done.promise, /cannot be written/)
  assert.equal((await ask(origin)).status, 200)
})

test('a handler that throws when it gets the socket loses it', async () => {
  await using upstream = await openHttp1(({ socket }) =>
    socket.write('HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
  )
  await using origin = openOrigin(upstream.port)
  const taker = new Taker()
  taker.onRequestUpgrade = () => {
    throw new Error('not wanted')
  }
  await assert.rejects(take(origin, { upgrade: 'websocket' }, taker).done.promise, /not wanted/)
  await once(upstream.sockets[0]!, 'close')
  assert.equal(origin.isConnected, false)
})

for (const { what, before, limit } of [
  { what: 'that never comes', before: '', limit: 'upstreamHeadMs' },
  { what: 'that never comes behind interim ones', before: HINTS, limit: 'upstreamHeadMs' },
  { what: 'whose head stops', before: 'HTTP/1.1 200 OK\r\nX: ', limit: 'upstreamHeadMs' },
  { what: 'whose body stops', before: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npart', limit: 'upstreamBodyIdleMs' },
] as const) {
  test(`an answer ${what} is upstream_timeout after ${limit}`, async () => {
    const limitBefore = LIMITS[limit]
    Object.assign(LIMITS, { [limit]: 60 })
    try {
      await using upstream = await openHttp1(({ socket }) => socket.write(before))
      await using origin = openOrigin(upstream.port)
      const began = performance.now()
      await assert.rejects(ask(origin), { code: 'upstream_timeout' })
      assert.ok(performance.now() - began >= 40, 'not before its time')
      await once(upstream.sockets[0]!, 'close')
    } finally {
      Object.assign(LIMITS, { [limit]: limitBefore })
    }
  })
}

test('a head that drips is upstream_timeout all the same: what comes of it does not gain it time', async () => {
  const before = LIMITS.upstreamHeadMs
  Object.assign(LIMITS, { upstreamHeadMs: 100 })
  let dripping: NodeJS.Timeout | undefined
  try {
    await using upstream = await openHttp1(({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nX: ')
      dripping = setInterval(() => socket.write('y'), 5)
    })
    await using origin = openOrigin(upstream.port)
    await assert.rejects(ask(origin), { code: 'upstream_timeout' })
  } finally {
    clearInterval(dripping)
    Object.assign(LIMITS, { upstreamHeadMs: before })
  }
})

test('an upload may take longer than an answer, and nobody reading is no fault of the upstream', async () => {
  const before = { upstreamHeadMs: LIMITS.upstreamHeadMs, upstreamBodyIdleMs: LIMITS.upstreamBodyIdleMs }
  Object.assign(LIMITS, { upstreamHeadMs: 40, upstreamBodyIdleMs: 40 })
  try {
    await using upstream = await openHttp1(({ socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab'))
    await using origin = openOrigin(upstream.port)
    await using silent = await openHttp1(() => {})
    await using other = openOrigin(silent.port)
    const taker = new Taker()
    taker.onChunk = (controller) => controller.pause()
    const controller = await take(origin, { headers: ['host', HOST] }, taker).answered.promise
    // As long as another exchange needs to be overdue twice.
    for (let i = 0; i < 2; i += 1) await assert.rejects(ask(other), { code: 'upstream_timeout' })
    assert.equal(taker.ends, 0)
    upstream.sockets[0]?.write('cd')
    taker.onChunk = undefined
    controller.resume()
    assert.equal((await taker.done.promise).bytes, 4)
  } finally {
    Object.assign(LIMITS, before)
  }
})

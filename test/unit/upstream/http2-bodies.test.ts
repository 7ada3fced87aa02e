import assert from 'node:assert/strict'
import { constants } from 'node:http2'
import { PassThrough, Readable } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createUpstreams } from '../../../src/sidecar/upstream/upstreams.ts'
import { FLAG, frame, headers, isPong, openFrames, PING, TYPE, windowUpdate } from '../../support/http2-frames.ts'
import { ask, HOST, keyFor, openStreams, take, Taker, TRUST } from '../../support/upstream-client.ts'

const OK = [[':status', '200']] as const

test('an exchange that is aborted resets its stream, and the session serves on', async () => {
  const resets: number[] = []
  const closed = Promise.withResolvers<void>()
  await using server = await openStreams((stream, asked) => {
    stream.respond({ ':status': 200 })
    if (asked[':path'] === '/ok') return stream.end('ok')
    stream.write('begun')
    stream.once('close', () => {
      resets.push(stream.rstCode)
      closed.resolve()
    })
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const taker = take(pool)
  const controller = await taker.answered.promise
  const reason = new Error('enough')
  controller.abort(reason)
  await assert.rejects(taker.done.promise, reason)
  await closed.promise
  assert.equal(taker.ends, 1)
  assert.equal(String((await ask(pool, { path: '/ok' })).body), 'ok')
  assert.deepEqual([resets, server.connections], [[constants.NGHTTP2_CANCEL], 1])
})

test('an exchange that is aborted as it starts never reaches the upstream', async () => {
  let streams = 0
  await using server = await openStreams((stream) => {
    streams += 1
    stream.respond({ ':status': 204 }, { endStream: true })
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const taker = new Taker()
  const reason = new Error('gone')
  taker.onRequestStart = (controller) => controller.abort(reason)
  take(pool, {}, taker)
  await assert.rejects(taker.done.promise, reason)
  assert.equal((await ask(pool)).status, 204)
  assert.equal(streams, 1)
})

test('a handler that throws ends its exchange with what it threw, and nothing else', async () => {
  await using server = await openStreams((stream) => {
    stream.respond({ ':status': 200 })
    stream.end('ok')
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const taker = new Taker()
  taker.onResponseStart = () => {
    throw new Error('cannot be written')
  }
  take(pool, {}, taker)
  await assert.rejects(taker.done.promise, /cannot be written/)
  assert.equal((await ask(pool)).status, 200)
})

for (const [what, body] of [
  ['shorter', 'abc'],
  ['longer', 'abcdefg'],
] as const) {
  test(`I10 a body that is ${what} than its length ends in a reset, not in a request`, async () => {
    const closed = Promise.withResolvers<number>()
    let ended = false
    await using server = await openStreams((stream) => {
      stream.resume()
      stream.once('end', () => (ended = !stream.aborted && stream.rstCode === 0))
      stream.once('close', () => closed.resolve(stream.rstCode))
    })
    await using upstreams = createUpstreams(TRUST)
    const request = {
      method: 'POST',
      headers: ['host', HOST, 'content-length', '5'],
      body: Readable.from([Buffer.from(body)]).on('error', () => {}),
    }
    await assert.rejects(ask(upstreams.pool(keyFor(server.port)), request))
    assert.notEqual(await closed.promise, 0)
    assert.equal(ended, false)
  })
}

test('a body that breaks off ends the exchange, and the upstream sees no end of it', async () => {
  const closed = Promise.withResolvers<number>()
  await using server = await openStreams((stream) => {
    stream.once('data', () => body.destroy(new Error('agent gone')))
    stream.once('close', () => closed.resolve(stream.rstCode))
  })
  await using upstreams = createUpstreams(TRUST)
  const body = new PassThrough()
  body.write('begun')
  await assert.rejects(ask(upstreams.pool(keyFor(server.port)), { method: 'POST', body }), /agent gone/)
  assert.equal(await closed.promise, constants.NGHTTP2_CANCEL)
})

test('a body that breaks off while its request waits for a connection ends the exchange, not the process', async () => {
  await using upstreams = createUpstreams(TRUST)
  await using server = await openStreams((stream) => stream.respond({ ':status': 204 }, { endStream: true }))
  const body = new PassThrough()
  const pool = upstreams.pool(keyFor(server.port))
  const done = ask(pool, { method: 'POST', body })
  body.destroy(new Error('agent gone'))
  await assert.rejects(done, /agent gone/)
  assert.equal((await ask(pool)).status, 204)
})

test('an upstream may send one window to an agent that does not read, and more only when it reads', async () => {
  let credit = 0
  const read = Promise.withResolvers<number>()
  const resumed = Promise.withResolvers<void>()
  const window = Buffer.concat(
    Array.from({ length: LIMITS.upstreamWindowBytes / 16_384 }, () => frame(TYPE.DATA, 0, 1, Buffer.alloc(16_384))),
  )
  await using server = await openFrames((got, socket) => {
    // What was sent is taken before the answer to a PING behind it.
    if (got.type === TYPE.HEADERS) socket.write(Buffer.concat([headers(1, OK), window, PING]))
    if (isPong(got)) read.resolve(credit)
    if (got.type === TYPE.WINDOW_UPDATE && got.stream === 1) credit += got.payload.readUInt32BE()
    if (credit < LIMITS.upstreamWindowBytes / 2) return
    resumed.resolve()
    socket.write(frame(TYPE.DATA, FLAG.END_STREAM, 1))
  })
  await using upstreams = createUpstreams(TRUST)
  const taker = new Taker()
  taker.onChunk = (controller) => {
    if (taker.answer.bytes <= 16_384) controller.pause()
  }
  take(upstreams.pool(keyFor(server.port)), {}, taker)
  const controller = await taker.answered.promise
  const early = await read.promise
  assert.ok(early <= 128 * 1024, `the upstream may send ${early} bytes more`)
  assert.ok(taker.answer.bytes <= 16_384, `${taker.answer.bytes} bytes came`)
  controller.resume()
  await resumed.promise
  assert.equal((await taker.done.promise).bytes, LIMITS.upstreamWindowBytes)
})

test('a body is read only as fast as the upstream takes it', async () => {
  const total = 16 * 1024 * 1024
  let arrived = 0
  let read = 0
  const full = Promise.withResolvers<TLSSocket>()
  await using server = await openFrames((got, socket) => {
    if (got.type !== TYPE.DATA) return
    arrived += got.payload.length
    if (arrived === 65_535) full.resolve(socket)
    if ((got.flags & FLAG.END_STREAM) !== 0) socket.write(headers(1, OK, FLAG.END_HEADERS | FLAG.END_STREAM))
  })
  await using upstreams = createUpstreams(TRUST)
  const body = new Readable({
    read() {
      read += 65_536
      this.push(Buffer.alloc(65_536))
      if (read >= total) this.push(null)
    },
  })
  const taker = take(upstreams.pool(keyFor(server.port)), { method: 'POST', body })
  const socket = await full.promise
  for (let i = 0; i < 100; i += 1) await new Promise((resolve) => setImmediate(resolve))
  assert.ok(read < 1024 * 1024, `${read} bytes were read for an upstream that takes 65,535`)
  socket.write(Buffer.concat([windowUpdate(0, total), windowUpdate(1, total)]))
  assert.equal((await taker.done.promise).status, 200)
  assert.equal(arrived, total)
})

test('what waits for a slow agent is gathered: single bytes in as many frames do not hold as many buffers', async () => {
  const bytes = 50_000
  const rest = Buffer.concat(
    Array.from({ length: bytes - 1 }, (_, i) => frame(TYPE.DATA, i === bytes - 2 ? 1 : 0, 1, Buffer.from([(i + 1) % 251]))),
  )
  const taken = Promise.withResolvers<void>()
  let pongs = 0
  await using server = await openFrames((got, socket) => {
    if (got.type === TYPE.HEADERS) socket.write(Buffer.concat([headers(1, OK), frame(TYPE.DATA, 0, 1, Buffer.from([0])), PING]))
    if (!isPong(got)) return
    pongs += 1
    if (pongs === 1) socket.write(Buffer.concat([rest, PING]))
    else taken.resolve()
  })
  await using upstreams = createUpstreams(TRUST)
  const taker = new Taker()
  const pieces: Buffer[] = []
  taker.onChunk = (controller, chunk) => {
    pieces.push(chunk)
    if (pieces.length === 1) controller.pause()
  }
  take(upstreams.pool(keyFor(server.port)), {}, taker)
  const controller = await taker.answered.promise
  await taken.promise
  controller.resume()
  await taker.done.promise
  const all = Buffer.concat(pieces)
  assert.equal(all.length, bytes)
  assert.ok(
    all.every((byte, i) => byte === i % 251),
    'in order',
  )
  assert.ok(pieces.length < 10, `${pieces.length} pieces`)
})

import assert from 'node:assert/strict'
import { constants, type ServerHttp2Stream } from 'node:http2'
import { PassThrough, Readable } from 'node:stream'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createUpstreams } from '../../../src/sidecar/upstream/upstreams.ts'
import { FLAG, frame, headers, openFrameAnswers, reset, TYPE } from '../../support/http2-frames.ts'
import { ask, keyFor, openStreams, take, TRUST } from '../../support/upstream-client.ts'

const OK = [[':status', '200']] as const

for (const [name, code] of [
  ['NO_ERROR', 'upstream_unreachable'],
  ['PROTOCOL_ERROR', 'upstream_invalid'],
  ['INTERNAL_ERROR', 'upstream_unreachable'],
  ['CANCEL', 'upstream_unreachable'],
  ['ENHANCE_YOUR_CALM', 'upstream_invalid'],
  ['HTTP_1_1_REQUIRED', 'upstream_unreachable'],
] as const) {
  const reason = constants[`NGHTTP2_${name}`]
  for (const { when, begin } of [
    { when: 'before the answer', begin: () => [] },
    { when: 'after its head', begin: (id: number) => [headers(id, OK)] },
    { when: 'in the midst of it', begin: (id: number) => [headers(id, OK), frame(TYPE.DATA, 0, id, Buffer.from('half'))] },
  ]) {
    for (const body of [null, 'a body that goes on']) {
      test(`a reset with ${name} ${when} (to ${body ?? 'a GET'}) is an error (${code}), never an end, and the session serves on unless it broke the protocol`, async () => {
        let count = 0
        await using server = await openFrameAnswers((id, socket) => {
          count += 1
          const answer = count === 1 ? [...begin(id), reset(id, reason)] : [headers(id, OK, FLAG.END_HEADERS | FLAG.END_STREAM)]
          socket.write(Buffer.concat(answer))
        })
        await using upstreams = createUpstreams(TRUST)
        const pool = upstreams.pool(keyFor(server.port))
        const taker = take(pool, body === null ? {} : { method: 'POST', body: new PassThrough().on('error', () => {}) })
        await assert.rejects(taker.done.promise, { code })
        assert.equal(taker.ends, 1)
        assert.equal((await ask(pool)).status, 200)
        assert.equal(server.connections, code === 'upstream_invalid' ? 2 : 1)
      })
    }
  }
}

test('a connection that ends in the midst of an answer is an error, and the next request has a new one', async () => {
  let count = 0
  await using server = await openFrameAnswers((id, socket) => {
    count += 1
    socket.write(headers(id, OK))
    if (count > 1) socket.write(frame(TYPE.DATA, FLAG.END_STREAM, id, Buffer.from('whole')))
    else socket.end(frame(TYPE.DATA, 0, id, Buffer.from('half')))
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  await assert.rejects(ask(pool), { code: 'upstream_unreachable' })
  assert.equal(String((await ask(pool)).body), 'whole')
  assert.equal(server.connections, 2)
})

test('a request that the upstream refused unprocessed is sent again, when nothing of a body was', async () => {
  let count = 0
  await using server = await openStreams((stream) => {
    count += 1
    if (count <= LIMITS.upstreamRetriesMax) stream.close(constants.NGHTTP2_REFUSED_STREAM)
    else stream.respond({ ':status': 204 }, { endStream: true })
  })
  await using upstreams = createUpstreams(TRUST)
  const taker = take(upstreams.pool(keyFor(server.port)))
  assert.equal((await taker.done.promise).status, 204)
  assert.equal(taker.ends, 1)
})

test('a request whose body was begun is not sent again', async () => {
  let count = 0
  await using server = await openStreams((stream) => {
    count += 1
    stream.once('data', () => stream.close(constants.NGHTTP2_REFUSED_STREAM))
  })
  await using upstreams = createUpstreams(TRUST)
  const body = Readable.from([Buffer.from('begun')]).on('error', () => {})
  await assert.rejects(ask(upstreams.pool(keyFor(server.port)), { method: 'POST', body }), { code: 'upstream_unreachable' })
  assert.equal(count, 1)
})

test('an upstream that refuses every stream is asked so many times and no more', async () => {
  let count = 0
  await using server = await openStreams((stream) => {
    count += 1
    stream.close(constants.NGHTTP2_REFUSED_STREAM)
  })
  await using upstreams = createUpstreams(TRUST)
  await assert.rejects(ask(upstreams.pool(keyFor(server.port))), { code: 'upstream_unreachable' })
  assert.equal(count, LIMITS.upstreamRetriesMax + 1)
})

test('after GOAWAY what runs ends as it should, and what is new has a new connection', async () => {
  let finish: () => void = () => {}
  await using server = await openStreams((stream, asked) => {
    stream.respond({ ':status': 200 })
    if (asked[':path'] === '/slow') finish = () => stream.end('late')
    else stream.end('fast')
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const slow = take(pool, { path: '/slow' })
  await slow.answered.promise
  for (const session of server.sessions) session.close()
  assert.equal(String((await ask(pool)).body), 'fast')
  finish()
  assert.equal(String((await slow.done.promise).body), 'late')
  assert.equal(server.connections, 2)
})

test('what a GOAWAY says was not processed is sent again on a new connection', async () => {
  let count = 0
  await using server = await openStreams((stream) => {
    count += 1
    // The last stream that was processed has a lower id than this one.
    if (count === 2) stream.session?.goaway(constants.NGHTTP2_NO_ERROR, 1)
    else stream.respond({ ':status': 204 }, { endStream: true })
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  assert.equal((await ask(pool)).status, 204)
  assert.equal((await ask(pool)).status, 204)
  assert.deepEqual([count, server.connections], [3, 2])
})

test('a GOAWAY with an error ends what it says was processed with an error', async () => {
  await using server = await openStreams((stream) => stream.session?.goaway(constants.NGHTTP2_INTERNAL_ERROR, 1))
  await using upstreams = createUpstreams(TRUST)
  await assert.rejects(ask(upstreams.pool(keyFor(server.port))), { code: 'upstream_unreachable' })
})

test('500 requests at once to an upstream that allows 10 streams are all answered, and it never sees an eleventh', async () => {
  const open = new Map<unknown, number>()
  let most = 0
  await using server = await openStreams(
    (stream) => {
      const count = (open.get(stream.session) ?? 0) + 1
      most = Math.max(most, count)
      open.set(stream.session, count)
      const { session } = stream
      stream.once('close', () => open.set(session, (open.get(session) ?? 1) - 1))
      stream.respond({ ':status': 200 })
      setImmediate(() => stream.end('ok'))
    },
    { settings: { maxConcurrentStreams: 10 } },
  )
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const answers = await Promise.all(Array.from({ length: 500 }, () => ask(pool)))
  assert.ok(answers.every(({ status, body }) => status === 200 && String(body) === 'ok'))
  assert.ok(most <= 10, String(most))
  assert.ok(server.connections <= 50, String(server.connections))
})

test('streams that stay open do not keep others waiting: more of them have a session of their own', async () => {
  const held: ServerHttp2Stream[] = []
  await using server = await openStreams(
    (stream) => {
      stream.respond({ ':status': 200 })
      held.push(stream)
    },
    { settings: { maxConcurrentStreams: 2 } },
  )
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const takers = Array.from({ length: 5 }, () => take(pool))
  await Promise.all(takers.map(({ answered }) => answered.promise))
  assert.equal(server.connections, 3)
  for (const stream of held) stream.end()
  await Promise.all(takers.map(({ done }) => done.promise))
})

test('an upstream that allows no stream at all is told apart from a slow one: the request fails', async () => {
  await using server = await openStreams((stream) => stream.respond({ ':status': 204 }, { endStream: true }), {
    settings: { maxConcurrentStreams: 0 },
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const ends = await Promise.allSettled([ask(pool), ask(pool), ask(pool)])
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  )
})

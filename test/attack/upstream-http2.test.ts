/** What an HTTP/2 upstream does wrong ends its own exchange with a code, is never made to look right, and costs nobody else anything. */
import assert from 'node:assert/strict'
import type { TLSSocket } from 'node:tls'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { createUpstreams } from '../../src/sidecar/upstream/upstreams.ts'
import {
  fieldBlock,
  FLAG,
  frame,
  headers,
  openFrameAnswers,
  openFrames,
  PING,
  reset,
  settings,
  TYPE,
  windowUpdate,
  type Frame,
} from '../support/http2-frames.ts'
import { ask, HOST, keyFor, take, Taker, TRUST, type TestServer } from '../support/upstream-client.ts'

const OK = [[':status', '200']] as const
const GOOD = (id: number): Buffer => Buffer.concat([headers(id, OK), frame(TYPE.DATA, FLAG.END_STREAM, id, Buffer.from('good'))])
const data = (id: number, text: string, flags = 0): Buffer => frame(TYPE.DATA, flags, id, Buffer.from(text))
const END = FLAG.END_HEADERS | FLAG.END_STREAM

/** Whose first connection is served by `attack`, and every later one as it should be. */
function openHostile(attack: (id: number, socket: TLSSocket) => void, first?: Buffer): Promise<TestServer> {
  const hostile = new Set<TLSSocket>()
  let sockets = 0
  return openFrameAnswers((id, socket) => {
    if (id === 1) {
      sockets += 1
      if (sockets === 1) hostile.add(socket)
    }
    if (hostile.has(socket) && id === 1) attack(id, socket)
    else socket.write(GOOD(id))
  }, first)
}

/** Writes until the other side has had enough. */
function flood(socket: TLSSocket, bytes: Buffer): void {
  const more = (): void => {
    while (!socket.destroyed && socket.writable && socket.write(bytes));
  }
  socket.on('drain', more)
  more()
}

const BIG = 'y'.repeat(4_000)
/** A field of 4,000 bytes that is kept in the table, and then named 5,000 times by one byte each (CVE-2016-1544 and its kind). */
const BOMB = Buffer.concat([Buffer.from([0x88]), Buffer.from([0x40]), fieldBlock([['x', BIG]]).subarray(1), Buffer.alloc(5_000, 0x80 | 62)])

const INVALID = ['upstream_invalid']
const EITHER = ['upstream_invalid', 'upstream_unreachable']
const CASES: { why: string; codes: string[]; bytes: (id: number) => Buffer[] }[] = [
  { why: 'a header bomb of the compression table', codes: INVALID, bytes: (id) => [frame(TYPE.HEADERS, FLAG.END_HEADERS, id, BOMB)] },
  {
    why: 'a head of more fields than are taken',
    codes: INVALID,
    bytes: (id) => [headers(id, [...OK, ...Array.from({ length: 1_000 }, () => ['x', 'y'] as const)])],
  },
  {
    why: 'a head of more bytes than are taken, over several frames',
    codes: INVALID,
    bytes: (id) => [
      headers(id, [...OK, ['x', 'y'.repeat(15_000)]], 0),
      ...[0, 0, FLAG.END_HEADERS].map((flags) => frame(TYPE.CONTINUATION, flags, id, fieldBlock([['x', 'y'.repeat(15_000)]]))),
    ],
  },
  {
    why: 'a field block that is none',
    codes: INVALID,
    bytes: (id) => [frame(TYPE.HEADERS, FLAG.END_HEADERS, id, Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]))],
  },
  {
    why: 'more bytes than its length',
    codes: INVALID,
    bytes: (id) => [headers(id, [...OK, ['content-length', '2']]), data(id, 'more', FLAG.END_STREAM)],
  },
  {
    why: 'fewer bytes than its length',
    codes: INVALID,
    bytes: (id) => [headers(id, [...OK, ['content-length', '9']]), data(id, 'less', FLAG.END_STREAM)],
  },
  {
    why: 'two lengths',
    codes: INVALID,
    bytes: (id) => [headers(id, [...OK, ['content-length', '4'], ['content-length', '5']]), data(id, 'more', FLAG.END_STREAM)],
  },
  {
    why: 'a length that is none',
    codes: INVALID,
    bytes: (id) => [headers(id, [...OK, ['content-length', '+4']]), data(id, 'more', FLAG.END_STREAM)],
  },
  { why: 'a body before its head', codes: EITHER, bytes: (id) => [data(id, 'body'), headers(id, OK, END)] },
  { why: 'no status', codes: INVALID, bytes: (id) => [headers(id, [['x', 'y']], END)] },
  { why: 'a status of two digits', codes: INVALID, bytes: (id) => [headers(id, [[':status', '20']], END)] },
  { why: 'a status of four digits', codes: INVALID, bytes: (id) => [headers(id, [[':status', '2000']], END)] },
  { why: 'a status that is a word', codes: INVALID, bytes: (id) => [headers(id, [[':status', 'abc']], END)] },
  {
    why: 'a status twice',
    codes: INVALID,
    bytes: (id) => [
      headers(
        id,
        [
          [':status', '200'],
          [':status', '204'],
        ],
        END,
      ),
    ],
  },
  { why: 'a switch of protocols (RFC 9113 §8.6)', codes: INVALID, bytes: (id) => [headers(id, [[':status', '101']])] },
  { why: 'an interim answer that is the end', codes: INVALID, bytes: (id) => [headers(id, [[':status', '103']], END)] },
  {
    why: 'a status behind a field',
    codes: INVALID,
    bytes: (id) => [
      headers(
        id,
        [
          ['x', 'y'],
          [':status', '200'],
        ],
        END,
      ),
    ],
  },
  { why: 'a pseudo-header field of a request', codes: INVALID, bytes: (id) => [headers(id, [...OK, [':path', '/']], END)] },
  { why: 'a field name in upper case', codes: INVALID, bytes: (id) => [headers(id, [...OK, ['X-Up', 'y']], END)] },
  { why: 'a field of HTTP/1.1 hops', codes: INVALID, bytes: (id) => [headers(id, [...OK, ['transfer-encoding', 'chunked']], END)] },
  { why: 'trailers with a status', codes: INVALID, bytes: (id) => [headers(id, OK), headers(id, [[':status', '200']], END)] },
  { why: 'trailers that are not the end', codes: INVALID, bytes: (id) => [headers(id, OK), headers(id, [['x', 'y']])] },
  {
    why: 'a push that was switched off',
    codes: EITHER,
    bytes: (id) => [
      frame(
        TYPE.PUSH_PROMISE,
        FLAG.END_HEADERS,
        id,
        Buffer.concat([
          Buffer.from([0, 0, 0, 2]),
          fieldBlock([
            [':method', 'GET'],
            [':scheme', 'https'],
            [':authority', HOST],
            [':path', '/'],
          ]),
        ]),
      ),
    ],
  },
  { why: 'a stream that nobody opened', codes: EITHER, bytes: () => [headers(7, OK, END)] },
  { why: 'a stream of its own', codes: EITHER, bytes: () => [headers(2, OK, END)] },
  { why: 'a reset of a stream that nobody opened', codes: EITHER, bytes: () => [reset(99, 0)] },
  { why: 'a window that overflows', codes: EITHER, bytes: (id) => [windowUpdate(id, 0x7f_ff_ff_ff), windowUpdate(id, 0x7f_ff_ff_ff)] },
  { why: 'a window update of nothing', codes: EITHER, bytes: (id) => [windowUpdate(id, 0)] },
  { why: 'a frame longer than was agreed', codes: EITHER, bytes: (id) => [headers(id, OK), frame(TYPE.DATA, 0, id, Buffer.alloc(70_000))] },
  { why: 'settings of half a pair', codes: EITHER, bytes: () => [frame(TYPE.SETTINGS, 0, 0, Buffer.alloc(5))] },
  { why: 'a head within a head', codes: EITHER, bytes: (id) => [headers(id, OK, 0), headers(id, OK)] },
  { why: 'HTTP/1.1', codes: EITHER, bytes: () => [Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')] },
]

for (const { why, codes, bytes } of CASES) {
  test(`an upstream that answers with ${why}: ${codes.join(' or ')}, and the next request works`, async () => {
    await using server = await openHostile((id, socket) => void socket.write(Buffer.concat(bytes(id))))
    await using upstreams = createUpstreams(TRUST)
    const pool = upstreams.pool(keyFor(server.port))
    const taker = take(pool)
    await assert.rejects(taker.done.promise, (error: { code: string; message: string }) => {
      assert.ok(codes.includes(error.code), `${error.code}: ${error.message}`)
      assert.doesNotMatch(error.message, /yyyy|evil/)
      return true
    })
    assert.equal(taker.ends, 1)
    assert.equal(String((await ask(pool)).body), 'good')
  })
}

for (const [why, value] of [
  ['a line end', 'a\r\nx-evil: b'],
  ['a NUL', 'a\0b'],
] as const) {
  test(`I10 a field with ${why} in it does not go on: nghttp2 leaves it out, or the answer is refused`, async () => {
    await using server = await openHostile((id, socket) => void socket.write(headers(id, [...OK, ['x-bad', value], ['x-good', 'c']], END)))
    await using upstreams = createUpstreams(TRUST)
    const answer = await ask(upstreams.pool(keyFor(server.port))).catch(() => undefined)
    assert.ok(!answer?.headers.some((part) => /[\r\n\0]|evil/.test(part)))
  })
}

for (const { why, codes, attack } of [
  {
    why: 'CONTINUATION without end (CVE-2024-27316 and its kind)',
    codes: EITHER,
    attack: (id: number, socket: TLSSocket) => {
      socket.write(headers(id, OK, 0))
      flood(socket, frame(TYPE.CONTINUATION, 0, id, fieldBlock([['x', 'y'.repeat(1_000)]])))
    },
  },
  {
    why: 'empty CONTINUATION without end',
    codes: EITHER,
    attack: (id: number, socket: TLSSocket) => {
      socket.write(headers(id, OK, 0))
      flood(socket, Buffer.concat(Array.from({ length: 100 }, () => frame(TYPE.CONTINUATION, 0, id))))
    },
  },
  {
    why: 'interim answers without end',
    codes: INVALID,
    attack: (id: number, socket: TLSSocket) =>
      flood(
        socket,
        headers(id, [
          [':status', '103'],
          ['link', '</a>'],
        ]),
      ),
  },
  {
    why: 'empty DATA without end (CVE-2019-9518)',
    codes: EITHER,
    attack: (id: number, socket: TLSSocket) => {
      socket.write(headers(id, OK))
      flood(socket, Buffer.concat(Array.from({ length: 1_000 }, () => frame(TYPE.DATA, 0, id))))
    },
  },
  {
    why: 'more than its window',
    codes: EITHER,
    attack: (id: number, socket: TLSSocket) => {
      socket.write(headers(id, OK))
      flood(socket, frame(TYPE.DATA, 0, id, Buffer.alloc(16_384)))
    },
  },
]) {
  test(`an upstream that sends ${why}: ${codes.join(' or ')}, its connection or stream ends, and the next request works`, async () => {
    await using server = await openHostile(attack)
    await using upstreams = createUpstreams(TRUST)
    const pool = upstreams.pool(keyFor(server.port))
    const taker = new Taker()
    // An agent that reads none of it.
    taker.onChunk = (controller) => controller.pause()
    take(pool, {}, taker)
    await assert.rejects(taker.done.promise, (error: { code: string }) => codes.includes(error.code))
    const other = upstreams.pool(keyFor(server.port, { credential: 'other' }))
    assert.equal(String((await ask(other)).body), 'good')
  })
}

for (const [why, bytes] of [
  ['PING', PING],
  ['SETTINGS', settings([[4, 65_535]])],
] as const) {
  test(`an upstream that sends ${why} without reading the answers is cut off: no answers pile up`, async () => {
    await using server = await openHostile((_id, socket) => {
      socket.pause()
      flood(socket, Buffer.concat(Array.from({ length: 500 }, () => bytes)))
    })
    await using upstreams = createUpstreams(TRUST)
    const pool = upstreams.pool(keyFor(server.port))
    await assert.rejects(ask(pool), (error: { code: string }) => EITHER.includes(error.code))
    assert.equal(String((await ask(pool)).body), 'good')
  })
}

test('the bound of a head holds also for an upstream that never acknowledges our settings', async () => {
  let sent = 0
  // Node's own server code is not used here: nothing answers SETTINGS.
  await using server = await openFrames(
    (got: Frame, socket) => {
      if (got.type !== TYPE.HEADERS) return
      sent += 1
      const fields = Array.from({ length: 3 }, (_, i) => [`x-${i}`, 'y'.repeat(15_000)] as const)
      const [first, ...rest] = fields
      socket.write(headers(got.stream, [...OK, first ?? ['x', 'y']], 0))
      rest.forEach((field, i) =>
        socket.write(frame(TYPE.CONTINUATION, i === rest.length - 1 ? FLAG.END_HEADERS : 0, got.stream, fieldBlock([field]))),
      )
      socket.write(data(got.stream, 'x', FLAG.END_STREAM))
    },
    settings(),
    { acknowledges: false },
  )
  await using upstreams = createUpstreams(TRUST)
  const end = await ask(upstreams.pool(keyFor(server.port))).then(
    ({ headers: fields }) => fields.join('').length,
    (error: { code: string }) => error.code,
  )
  assert.ok(sent > 0)
  assert.ok(end === 'upstream_invalid' || Number(end) <= LIMITS.headBytesMax * 2, String(end))
})

test('ALTSVC and ORIGIN frames, and Alt-Svc for other hosts, lead nowhere: the next request has the same session', async () => {
  const origin = Buffer.from('https://evil.example.com')
  const size = Buffer.from([0, origin.length])
  await using server = await openFrameAnswers((id, socket) => {
    socket.write(
      Buffer.concat([
        frame(TYPE.ALTSVC, 0, 0, Buffer.concat([size, origin, Buffer.from('h2="evil.example.com:443"')])),
        frame(TYPE.ALTSVC, 0, id, Buffer.concat([Buffer.from([0, 0]), Buffer.from('h3=":443"')])),
        frame(TYPE.ORIGIN, 0, 0, Buffer.concat([size, origin])),
        GOOD(id),
      ]),
    )
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  for (let i = 0; i < 3; i += 1) assert.equal(String((await ask(pool)).body), 'good')
  assert.equal(server.connections, 1)
})

test('resets of every stream, over and over, end those exchanges only, and are not answered with more requests', async () => {
  let streams = 0
  await using server = await openFrameAnswers((id, socket) => {
    streams += 1
    socket.write(reset(id, 8))
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const ends = await Promise.allSettled(Array.from({ length: 500 }, () => ask(pool)))
  assert.ok(ends.every((end) => end.status === 'rejected' && (end.reason as { code: string }).code === 'upstream_unreachable'))
  assert.equal(streams, 500)
})

test('an answer to one stream does not end another, nor show in it', async () => {
  const open: number[] = []
  await using server = await openFrameAnswers((id, socket) => {
    open.push(id)
    if (open.length < 3) return
    for (const each of open.toReversed()) socket.write(Buffer.concat([headers(each, OK), data(each, `for ${each}`, FLAG.END_STREAM)]))
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const bodies = (await Promise.all([ask(pool), ask(pool), ask(pool)])).map(({ body }) => String(body))
  assert.deepEqual(bodies, ['for 1', 'for 3', 'for 5'])
})

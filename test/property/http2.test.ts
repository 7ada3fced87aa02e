import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type ServerHttp2Stream } from 'node:http2'
import { connect as connectTcp, type AddressInfo } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { PREFACE } from '../../src/http2/protocol.ts'
import { openEnd, openOver, Story, type End } from '../support/http2-connection.ts'
import { FLAG, frame, headers, settings, TYPE } from '../support/http2-frames.ts'
import { openSocketPair } from '../support/socket-pair.ts'

const NAMES = ['x-a', 'x-b', 'accept', 'link', 'via', 'a-name-that-is-longer-than-most-of-them', 'vary', 'x!#$%&*+^_`|~1']
const name = fc.constantFrom(...NAMES)
const value = fc.oneof(
  fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 60 }),
  fc.string({ unit: fc.constantFrom('\xe9', '\xff', '\x80', 'a'), maxLength: 20 }),
  fc.constantFrom('', 'same', 'a\tb c', 'z'.repeat(3_000)),
)
const fieldLists = fc.array(fc.array(fc.tuple(name, value), { maxLength: 12 }), { minLength: 1, maxLength: 20 })

test('nghttp2 and this read each other’s heads and trailers, whatever is in the table by then', async () => {
  await fc.assert(
    fc.asyncProperty(fieldLists, async (lists) => {
      await using pair = await openSocketPair()
      const end = openOver(pair.server, {}, (stream, story) => {
        const { headers: fields = [] } = story.head ?? {}
        stream.respond(200, fields)
        stream.write(Buffer.from('body'))
        stream.end(['x-count', String(fields.length)])
      })
      const session = connect('http://h.example.com', { createConnection: () => pair.client })
      for (const list of lists) {
        const flat = [':method', 'GET', ':scheme', 'http', ':authority', 'h', ':path', '/', ...list.flat()]
        const stream = session.request(flat)
        const [[, , back], [, , trailers]] = await Promise.all([
          once(stream, 'response'),
          once(stream, 'trailers'),
          once(stream.resume(), 'close'),
        ])
        assert.deepEqual(end.stories.at(-1)?.head?.headers, list.flat())
        assert.deepEqual(back, [':status', '200', ...list.flat()])
        assert.deepEqual(trailers, ['x-count', String(list.length * 2)])
      }
      session.destroy()
    }),
    { numRuns: 15 },
  )
})

test('as a client it is read by nghttp2, and reads it', async () => {
  const server = createServer({ strictSingleValueFields: false } as never)
  server.on('stream', (stream: ServerHttp2Stream, _headers, _flags, raw: string[]) => {
    const at = raw.indexOf('x-begin')
    stream.respond([':status', '200', ...raw.slice(at + 2)] as never)
    stream.end(raw.slice(0, at).join(' '))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  await fc.assert(
    fc.asyncProperty(fieldLists, async (lists) => {
      const socket = connectTcp((server.address() as AddressInfo).port, '127.0.0.1')
      await once(socket, 'connect')
      const end = openOver(socket, { role: 'client' })
      for (const list of lists) {
        const story = new Story()
        const block = {
          method: 'PUT',
          authority: 'h.example.com',
          path: '/p?q',
          headers: ['x-begin', '', ...list.flat()],
          isPlain: () => false,
        }
        end.connection.open(story, block, true)
        await story.over.promise
        assert.deepEqual(story.headers.slice(0, list.length * 2), list.flat())
        assert.equal(story.body, ':method PUT :scheme https :authority h.example.com :path /p?q')
        assert.equal(story.isWhole, true)
      }
      socket.destroy()
    }),
    { numRuns: 15 },
  )
  server.close()
})

/** What came of some bytes, in words. */
function told(bytes: Buffer, cuts: readonly number[]): unknown {
  const end = openEnd()
  end.connection.receive(Buffer.concat([Buffer.from(PREFACE), settings()]))
  let at = 0
  for (const cut of [...cuts.map((part) => part % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]) {
    end.connection.receive(bytes.subarray(at, cut))
    at = cut
  }
  return wordsOf(end)
}

const wordsOf = ({ stories, ends }: End): unknown => [
  stories.map(({ head, body, trailers, isWhole, broken }) => [head, body, trailers, isWhole, broken?.kind, broken?.code]),
  ends.map((error) => error?.code),
]

const REQUEST = [
  [':method', 'POST'],
  [':scheme', 'https'],
  [':authority', 'h'],
  [':path', '/'],
] as const
const GOOD = Buffer.concat([
  headers(1, [...REQUEST, ['a', 'b'.repeat(200)]]),
  frame(TYPE.DATA, 0, 1, Buffer.from('some of the body')),
  headers(3, REQUEST, 0),
  frame(TYPE.CONTINUATION, FLAG.END_HEADERS, 3, headers(3, [['c', 'd']]).subarray(9)),
  frame(TYPE.DATA, 8, 1, Buffer.from('\x02 and the rest..', 'latin1')),
  headers(1, [['x-trailer', '1']], FLAG.END_HEADERS | FLAG.END_STREAM),
  frame(TYPE.DATA, FLAG.END_STREAM, 3, Buffer.from('x'.repeat(500))),
])

test('however the bytes are cut, the same comes of them', () => {
  const uncut = told(GOOD, [])
  assert.match(JSON.stringify(uncut), /some of the body and the rest/)
  fc.assert(fc.property(fc.array(fc.nat(), { maxLength: 30 }), (cuts) => assert.deepEqual(told(GOOD, cuts), uncut)))
})

test('bytes that are changed anywhere end as a request, a reset or the connection, however they are cut', () => {
  const change = fc.tuple(fc.nat({ max: GOOD.length - 1 }), fc.integer({ min: 0, max: 255 }))
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 6 }), fc.array(fc.nat(), { maxLength: 6 }), (changes, cuts) => {
      const bytes = Buffer.from(GOOD)
      for (const [at, byte] of changes) bytes[at] = byte
      assert.deepEqual(told(bytes, cuts), told(bytes, []))
    }),
    { numRuns: 2_000 },
  )
})

test('frames of any kind in any order never do more than that', () => {
  const anyFrame = fc
    .tuple(
      fc.integer({ min: 0, max: 11 }),
      fc.integer({ min: 0, max: 255 }),
      fc.integer({ min: 0, max: 6 }),
      fc.uint8Array({ maxLength: 40 }),
    )
    .map(([type, flags, stream, payload]) => frame(type, flags, stream, Buffer.from(payload)))
  const sound = fc.constantFrom(
    headers(1, REQUEST),
    headers(3, REQUEST, FLAG.END_HEADERS | FLAG.END_STREAM),
    frame(TYPE.DATA, 0, 1, Buffer.from('x')),
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(anyFrame, sound), { maxLength: 20 }), fc.constantFrom('server', 'client'), (frames, role) => {
      const end = openEnd({ role: role as 'server' })
      end.connection.receive(Buffer.concat([Buffer.from(role === 'server' ? PREFACE : ''), settings()]))
      const story = new Story()
      if (role === 'client') {
        end.connection.open(
          story,
          { method: 'GET', authority: 'h', path: '/', headers: ['a', 'b'], isPlain: (field) => field === 'a' },
          true,
        )
      }
      end.connection.receive(Buffer.concat(frames))
      end.connection.lost()
      assert.ok(end.ends.length === 1 && end.connection.load === 0)
      for (const { isWhole, broken } of end.stories) assert.ok(isWhole || broken !== undefined)
      if (role === 'client') assert.ok(story.isWhole || story.broken !== undefined)
    }),
    { numRuns: 2_000 },
  )
})

test('a field that goes to an upstream is never indexed unless it is said to be plain', () => {
  fc.assert(
    fc.property(name, value, fc.boolean(), (field, text, isPlain) => {
      const end = openEnd({ role: 'client' })
      end.connection.open(new Story(), { method: 'GET', authority: 'h', path: '/', headers: [field, text], isPlain: () => isPlain }, true)
      end.connection.receive(settings())
      end.connection.lost()
      const all = Buffer.concat(end.sent)
      const block = all.subarray(all.indexOf(Buffer.from([0x82, 0x87])))
      // :method and :scheme are a byte each; :authority is a literal of its own, then :path, never indexed; then the field.
      const path = block.indexOf(Buffer.from([0x14, 1, 0x2f]))
      assert.equal((block[path + 3] ?? 0) & 0xf0, isPlain ? 0 : 0x10)
    }),
  )
})

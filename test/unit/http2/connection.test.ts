import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type ClientHttp2Session } from 'node:http2'
import { test } from 'node:test'
import { CODE, PREFACE } from '../../../src/http2/protocol.ts'
import type { Http2Stream } from '../../../src/http2/stream.ts'
import { askStream } from '../../support/http2-agent.ts'
import { openEnd, openOver, OPTIONS, type End } from '../../support/http2-connection.ts'
import { FLAG, frame, headers, PING, reset, settings, TYPE, windowUpdate, type Frame } from '../../support/http2-frames.ts'
import { openSocketPair, type SocketPair } from '../../support/socket-pair.ts'

const GET = [
  [':method', 'GET'],
  [':scheme', 'https'],
  [':authority', 'h.example.com'],
  [':path', '/'],
] as const
const POST = [[':method', 'POST'], ...GET.slice(1)] as const
const whole = (id: number): Buffer => headers(id, GET, FLAG.END_HEADERS | FLAG.END_STREAM)
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A server that has been greeted. */
function openServer(first = settings(), ...more: Parameters<typeof openEnd>): End {
  const end = openEnd(...more)
  end.connection.receive(Buffer.concat([Buffer.from(PREFACE), first]))
  return end
}

/** All frames that were sent since the last call. */
function framesOf(end: End): Frame[] {
  const all = Buffer.concat(end.sent.splice(0))
  const frames: Frame[] = []
  for (let at = 0; at < all.length;) {
    const next = at + 9 + all.readUIntBE(at, 3)
    frames.push({ type: all[at + 3] ?? 0, flags: all[at + 4] ?? 0, stream: all.readUInt32BE(at + 5), payload: all.subarray(at + 9, next) })
    at = next
  }
  return frames
}

async function openNode(pair: SocketPair, options = {}): Promise<ClientHttp2Session> {
  const session = connect('http://h.example.com', { createConnection: () => pair.client, ...options })
  session.on('error', () => {})
  await once(session, 'remoteSettings')
  return session
}

test('all that a turn has to say goes out in one piece', async () => {
  const onRequest = (stream: Http2Stream): void => {
    stream.respond(200, ['a', 'b'])
    stream.write(Buffer.from('body'))
    stream.end()
  }
  const end = openServer(settings(), {}, { onRequest })
  await turn()
  end.sent.length = 0
  end.connection.receive(Buffer.concat(Array.from({ length: 20 }, (_, i) => whole(i * 2 + 1))))
  await turn()
  assert.equal(end.sent.length, 1)
  const frames = framesOf(end)
  assert.equal(frames.length, 40)
  assert.ok(frames.every(({ type, flags }) => type === TYPE.HEADERS || (type === TYPE.DATA && flags === FLAG.END_STREAM)))
  assert.equal(end.connection.load, 0)
})

test('what a peer makes us say and does not take ends its connection', async () => {
  const end = openServer()
  end.takes = false
  await turn()
  const pings = Buffer.concat(Array.from({ length: 1_000 }, () => PING))
  for (let i = 0; i < 100 && end.ends.length === 0; i++) end.connection.receive(pings)
  assert.equal(end.ends[0]?.code, CODE.ENHANCE_YOUR_CALM)
  assert.ok(Buffer.concat(end.sent).length < 2 * 1024 * 1024)
})

for (const { why, noise } of [
  { why: 'empty DATA frames', noise: () => frame(TYPE.DATA, 0, 1) },
  { why: 'SETTINGS', noise: () => settings([[4, 65_535]]) },
  { why: 'resets of streams that are over', noise: () => reset(1, 8) },
  { why: 'heads that are none', noise: (i: number) => headers(i * 2 + 3, GET.slice(1), FLAG.END_HEADERS | FLAG.END_STREAM) },
  // CVE-2025-8671: the peer has us reset streams whose requests go on.
  {
    why: 'streams that it makes us reset',
    noise: (i: number) => Buffer.concat([headers(i * 2 + 3, POST), windowUpdate(i * 2 + 3, 0)]),
  },
]) {
  test(`a peer that sends ${why} without end is cut off`, () => {
    const end = openServer()
    end.connection.receive(headers(1, POST))
    for (let i = 0; i < 2 * OPTIONS.noiseBurstMax && end.ends.length === 0; i++) end.connection.receive(noise(i))
    assert.equal(end.ends[0]?.code, CODE.ENHANCE_YOUR_CALM)
    assert.equal(end.stories[0]?.broken !== undefined, true)
  })
}

test('interim answers that an agent does not take are left out, not kept', async () => {
  const end = openServer(settings(), {}, { onRequest: () => {} })
  end.takes = false
  end.connection.receive(whole(1))
  await turn()
  for (let i = 0; i < 1_000; i++) end.streams[0]?.interim(103, ['link', 'x'.repeat(1_000)])
  end.takes = true
  end.connection.drained()
  await turn()
  assert.ok(framesOf(end).filter(({ type }) => type === TYPE.HEADERS).length < 100)
})

test('a body goes out as the windows of stream and connection allow, to its last byte', async () => {
  const end = openServer(settings([[4, 10]]), {}, { onRequest: (stream) => stream.respond(200, []) })
  end.connection.receive(whole(1))
  const [stream] = end.streams
  const total = 200_000
  assert.equal(stream?.write(Buffer.alloc(total, 'x')), false)
  stream?.end()
  const sentBytes = (): number => framesOf(end).reduce((sum, { type, payload }) => sum + (type === TYPE.DATA ? payload.length : 0), 0)
  await turn()
  assert.equal(sentBytes(), 10)
  assert.equal(end.stories[0]?.isHeld, true)
  end.connection.receive(windowUpdate(1, total))
  await turn()
  assert.equal(sentBytes(), 65_535 - 10)
  end.connection.receive(windowUpdate(0, total))
  await turn()
  assert.equal(sentBytes(), total - 65_535)
  assert.equal(end.stories[0]?.drains, 1)
  assert.equal(end.connection.load, 0)
})

test('a window that shrinks below nothing is waited for', async () => {
  const end = openServer(settings([[4, 100]]), {}, { onRequest: (stream) => stream.respond(200, []) })
  end.connection.receive(whole(1))
  end.streams[0]?.write(Buffer.alloc(150))
  await turn()
  framesOf(end)
  end.connection.receive(Buffer.concat([settings([[4, 0]]), windowUpdate(1, 90)]))
  await turn()
  assert.equal(framesOf(end).filter(({ type }) => type === TYPE.DATA).length, 0)
  end.connection.receive(windowUpdate(1, 20))
  await turn()
  assert.equal(framesOf(end).find(({ type }) => type === TYPE.DATA)?.payload.length, 10)
})

test('a head that is longer than a frame is read by nghttp2, and so are those of a peer that allows no table', async () => {
  await using pair = await openSocketPair()
  const long = 'y'.repeat(40_000)
  openOver(pair.server, {}, (stream) => {
    stream.respond(200, ['x-long', long, 'x-short', 'z'])
    stream.end()
  })
  const session = await openNode(pair, { settings: { headerTableSize: 0, maxHeaderListSize: 100_000 }, maxHeaderListPairs: 100 })
  for (let i = 0; i < 3; i++) {
    const answer = await askStream(session, { ':path': '/' })
    assert.deepEqual(answer.headers, ['x-long', long, 'x-short', 'z'])
  }
  session.destroy()
})

test('padding and priorities are taken off', () => {
  const end = openServer()
  const block = headers(1, POST).subarray(9)
  const padded = Buffer.concat([Buffer.from([3, 0, 0, 0, 0, 9]), block, Buffer.alloc(3)])
  end.connection.receive(frame(TYPE.HEADERS, FLAG.END_HEADERS | 8 | 0x20, 1, padded))
  end.connection.receive(frame(TYPE.DATA, 8 | FLAG.END_STREAM, 1, Buffer.from('\x05body.....', 'latin1')))
  assert.deepEqual([end.stories[0]?.head?.method, end.stories[0]?.body, end.stories[0]?.isWhole], ['POST', 'body', true])
})

test('a frame that is all padding ends the connection', () => {
  const end = openServer()
  end.connection.receive(Buffer.concat([headers(1, POST), frame(TYPE.DATA, 8, 1, Buffer.from([4, 0, 0, 0]))]))
  assert.equal(end.ends[0]?.code, CODE.PROTOCOL_ERROR)
})

test('more than the window of a stream resets it, more than that of the connection ends it', () => {
  const data = (id: number): Buffer => frame(TYPE.DATA, 0, id, Buffer.alloc(16_384))
  const end = openServer(settings(), { streamWindowBytes: 20_000, windowBytes: 65_535 }, { onRequest: (stream) => stream.pause() })
  end.connection.receive(Buffer.concat([headers(1, POST), data(1), data(1)]))
  assert.deepEqual([end.stories[0]?.broken?.kind, end.stories[0]?.broken?.code], ['invalid', CODE.FLOW_CONTROL_ERROR])
  assert.equal(end.ends.length, 0)
})

test('what comes behind GOAWAY is not served, and the connection ends with the last stream', async () => {
  const end = openServer(settings(), {}, { onRequest: (stream) => stream.respond(200, []) })
  end.connection.receive(whole(1))
  end.connection.close()
  end.connection.receive(whole(3))
  await turn()
  assert.equal(end.stories.length, 1)
  assert.equal(
    framesOf(end)
      .find(({ type }) => type === TYPE.GOAWAY)
      ?.payload.readUInt32BE(0),
    1,
  )
  assert.equal(end.ends.length, 0)
  end.streams[0]?.end()
  await turn()
  await turn()
  assert.deepEqual(end.ends, [undefined])
})

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { performServerHandshake, type ServerHttp2Stream } from 'node:http2'
import { test } from 'node:test'
import { Http2Agent } from '../../../src/sidecar/inbound/http2-agent.ts'
import { getOf, speakFrames, whole, type FrameAgent } from '../../support/http2-agent.ts'
import { FLAG, PING, TYPE, frame, headers, isPong, reset } from '../../support/http2-frames.ts'
import { openSocketPair } from '../../support/socket-pair.ts'

type Pair = AsyncDisposable & {
  readonly client: FrameAgent
  /** The agent of the next stream. */
  next(): Promise<Http2Agent>
  /** Resolves when all that the client sent has been read. */
  settled(): Promise<void>
}

async function openPair(): Promise<Pair> {
  const sockets = await openSocketPair()
  const session = performServerHandshake(sockets.server)
  session.on('error', () => {})
  const agents: Http2Agent[] = []
  const coming = new EventTarget()
  session.on('stream', (stream: ServerHttp2Stream, _headers: unknown, flags: number, raw: unknown) => {
    agents.push(new Http2Agent(stream, Array.isArray(raw) ? raw.map(String) : [], flags))
    coming.dispatchEvent(new Event('stream'))
  })
  const client = speakFrames(sockets.client)
  return {
    client,
    async next() {
      while (agents.length === 0) await once(coming, 'stream')
      return agents.shift() as Http2Agent
    },
    async settled() {
      const pongs = client.frames.filter(isPong).length
      client.send(PING)
      await client.until(() => client.frames.filter(isPong).length > pongs)
    },
    async [Symbol.asyncDispose]() {
      session.destroy()
      await sockets[Symbol.asyncDispose]()
    },
  }
}

const POST = getOf('h.example.com').map(([name, value]): [string, string] => [name, name === ':method' ? 'POST' : value])
const data = (text: string, flags = 0): Buffer => frame(TYPE.DATA, flags, 1, Buffer.from(text))

test('what waits to be read of a body in single bytes is held in a few blocks, and comes whole', async () => {
  await using pair = await openPair()
  pair.client.send(headers(1, POST))
  const { body } = await pair.next()
  const count = 30_000
  pair.client.send(Buffer.concat(Array.from({ length: count }, () => data('x'))))
  await pair.settled()
  const chunks: Buffer[] = []
  body?.on('data', (chunk: Buffer) => chunks.push(chunk)).resume()
  pair.client.send(data('end', FLAG.END_STREAM))
  await once(body as NonNullable<typeof body>, 'end')
  assert.equal(Buffer.concat(chunks).toString(), `${'x'.repeat(count)}end`)
  assert.ok(chunks.length < 10, `${chunks.length} pieces`)
})

test('a body that came with its head in one read is known as whole', async () => {
  await using pair = await openPair()
  pair.client.send(Buffer.concat([headers(1, POST), data('all', FLAG.END_STREAM)]))
  const agent = await pair.next()
  await pair.settled()
  assert.equal(agent.isUploaded, true)
})

test('a body is not uploaded before its end, and one that is reset with NO_ERROR never ends', async () => {
  await using pair = await openPair()
  pair.client.send(headers(1, POST))
  const agent = await pair.next()
  const ends: string[] = []
  agent.body?.on('end', () => ends.push('end')).resume()
  pair.client.send(data('half'))
  await pair.settled()
  assert.equal(agent.isUploaded, false)
  const gone = new Promise<void>((resolve) => void agent.onGone(resolve))
  pair.client.send(reset(1, 0))
  await gone
  assert.deepEqual([ends, agent.isUploaded, agent.isGone], [[], false, true])
})

test('a refusal in the middle of an upload that nobody reads is whole, and then the upload is stopped without an error', async () => {
  await using pair = await openPair()
  pair.client.send(headers(1, POST), data('part'))
  const agent = await pair.next()
  agent.refuse(403, { 'content-type': 'text/plain' }, 'no')
  const last = await pair.client.until(({ type }) => type === TYPE.RST_STREAM)
  assert.equal(last.payload.readUInt32BE(0), 0)
  const end = pair.client.frames.findIndex(({ type, flags }) => type === TYPE.DATA && (flags & FLAG.END_STREAM) !== 0)
  assert.ok(end >= 0 && end < pair.client.frames.indexOf(last))
  await new Promise<void>((resolve) => (agent.isGone ? resolve() : void agent.onGone(resolve)))
})

for (const { why, start } of [
  { why: 'a status that HTTP/2 has no words for', start: (agent: Http2Agent) => agent.start(999, '', []) },
  { why: 'a NUL in a value', start: (agent: Http2Agent) => agent.start(200, '', ['x', 'a\0b']) },
  { why: 'a line break in a value', start: (agent: Http2Agent) => agent.start(200, '', ['x', 'a\r\nb: c']) },
  { why: 'a name that is none', start: (agent: Http2Agent) => agent.start(200, '', ['x y', '1']) },
  { why: 'an interim answer with a line break', start: (agent: Http2Agent) => agent.sendInterim(103, ['x', 'a\nb']) },
  { why: 'a trailer with a line break', start: (agent: Http2Agent) => agent.end(['x', 'a\nb']) },
]) {
  test(`an answer with ${why} is thrown back at once, and a refusal can still be given`, async () => {
    await using pair = await openPair()
    pair.client.send(whole(1, getOf('h.example.com')))
    const agent = await pair.next()
    assert.throws(() => start(agent))
    assert.equal(agent.isAnswered, false)
    agent.refuse(502, {}, 'broken')
    const { payload } = await pair.client.until(({ type }) => type === TYPE.DATA)
    assert.equal(payload.toString(), 'broken')
  })
}

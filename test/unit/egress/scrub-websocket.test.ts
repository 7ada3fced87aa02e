import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { createRedactor } from '../../../src/redactor/redactor.ts'
import { WebSocketFrames } from '../../../src/sidecar/egress/scrub/websocket-frames.ts'
import { relay } from '../../../src/sidecar/egress/relay.ts'
import { RecordingAgent } from '../../support/recording-agent.ts'
import { CANARY, cut, MARKS, NEVER, openScrubbing } from '../../support/scrubbing.ts'
import { openSocketPair, type SocketPair } from '../../support/socket-pair.ts'
import { frame, framesOf, messagesOf, type Frame } from '../../support/server-frames.ts'

const FIN = 0x80
const [MORE, TEXT, BINARY, CLOSE, PING, PONG] = [0, 1, 2, 8, 9, 10]

const redactor = createRedactor([new Secret('token', CANARY)])
const plan = { redactor, mode: 'replace', onHits: () => true } as const

/** What comes out of frames in these chunks. */
function scrubbed(chunks: readonly Buffer[]): Frame[] {
  const frames = new WebSocketFrames(plan)
  return framesOf(Buffer.concat(chunks.map((chunk) => frames.push(chunk))))
}

type Client = AsyncDisposable & {
  readonly client: WebSocket
  /** The upstream’s end of a relay to the client. */
  readonly upstream: Socket
  readonly run: ReturnType<typeof openScrubbing>
  readonly relayed: Promise<{ bytesUp: number; bytesDown: number }>
}

/** upstream ↔ relay ↔ scrubbed agent ↔ a real client. */
async function openClient(options: Parameters<typeof openScrubbing>[0] = {}): Promise<Client> {
  const pair = await openSocketPair()
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/`, { perMessageDeflate: false })
  client.on('error', () => {})
  const [request, socket] = (await once(server, 'upgrade')) as [{ headers: Record<string, string> }, Socket]
  const behind = new RecordingAgent((headers) => {
    const fields = headers.map((part, i) => part + (i % 2 === 0 ? ': ' : '\r\n')).join('')
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n${fields}\r\n`)
    return socket
  })
  const run = openScrubbing({ ...options, behind })
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
  const agent = run.scrubbed.agent.upgrade?.(['Sec-WebSocket-Accept', accept])
  assert.ok(agent)
  const relayed = relay(agent, pair.server)
  await once(client, 'open')
  return {
    client,
    upstream: pair.client,
    run,
    relayed,
    async [Symbol.asyncDispose]() {
      client.terminate()
      await closed(pair)
      server.close()
    },
  }
}

const closed = (pair: SocketPair): Promise<void> => Promise.resolve(pair[Symbol.asyncDispose]())

test('a frame that comes whole goes on as one frame, byte for byte when there is no secret in it', () => {
  for (const length of [0, 1, 125, 126, 65_535, 65_536, 300_000]) {
    const whole = frame(FIN | BINARY, randomBytes(length))
    assert.deepEqual(Buffer.concat([new WebSocketFrames(plan).push(whole)]), whole)
  }
  assert.deepEqual(scrubbed([frame(FIN | TEXT, `<${CANARY}>`)]), [{ first: FIN | TEXT, payload: Buffer.from(`<${MARKS}>`) }])
})

test('a frame up to the limit stays one frame, in whatever pieces it comes', () => {
  const whole = frame(FIN | TEXT, `${'x'.repeat(LIMITS.webSocketFragmentBytes - 100)}${CANARY}`)
  for (const size of [1, 1000, 60_000]) assert.equal(scrubbed(cut(whole, size)).length, 1)
})

test('a longer frame goes on in fragments of about the limit, and no more than one is held', () => {
  const payload = Buffer.from(`${'y'.repeat(500_000)}${CANARY}${'z'.repeat(500_000)}`)
  const frames = new WebSocketFrames(plan)
  let given = 0
  let taken = 0
  const out = cut(frame(FIN | TEXT, payload), 9_000).map((chunk) => {
    given += chunk.length
    const released = frames.push(chunk)
    taken += released.length
    assert.ok(given - taken < LIMITS.webSocketFragmentBytes + 9_000)
    return released
  })
  const received = framesOf(Buffer.concat(out))
  assert.ok(received.slice(0, -1).every((one) => one.payload.length >= LIMITS.webSocketFragmentBytes))
  assert.deepEqual(
    received.map(({ first }) => first),
    [TEXT, ...received.slice(2).map(() => MORE), FIN],
  )
  assert.equal(messagesOf(received)[0]?.toString(), payload.toString().replace(CANARY, MARKS))
})

test('a frame that says it has gigabytes goes on as it comes', () => {
  const frames = new WebSocketFrames(plan)
  const head = Buffer.alloc(10)
  head.set([FIN | BINARY, 127])
  head.writeBigUInt64BE(BigInt(Number.MAX_SAFE_INTEGER), 2)
  let taken = frames.push(head).length
  for (let i = 0; i < 64; i++) taken += frames.push(Buffer.alloc(64 * 1024)).length
  assert.ok(taken > 63 * 64 * 1024)
})

const FRAGMENTED = Buffer.concat([
  frame(TEXT, 'one can'),
  frame(FIN | PING, `p ${CANARY}`),
  frame(MORE, 'ary-7f3a'),
  frame(MORE, ''),
  frame(FIN | PONG, ''),
  frame(FIN | MORE, '9c5e1b two'),
  frame(FIN | BINARY, CANARY),
  frame(FIN | TEXT, CANARY.slice(0, 9)),
  frame(FIN | CLOSE, Buffer.concat([Buffer.of(0x0f, 0xa0), Buffer.from(`bye ${CANARY}`)])),
])

test('a secret over the borders of fragments, with control frames in between and in any chunks, does not come out', () => {
  for (let size = 1; size <= FRAGMENTED.length; size++) {
    const frames = scrubbed(cut(FRAGMENTED, size))
    assert.deepEqual(messagesOf(frames).map(String), [`one ${MARKS} two`, MARKS, CANARY.slice(0, 9)])
    assert.deepEqual(
      frames.filter(({ first }) => (first & 0x0f) > 2).map(({ first, payload }) => [first, payload.toString('latin1')]),
      [
        [FIN | PING, `p ${MARKS}`],
        [FIN | PONG, ''],
        [FIN | CLOSE, `\x0f\xa0bye ${MARKS}`],
      ],
    )
  }
})

test('what an upstream sent of a message in fragments goes on without the rest', () => {
  assert.deepEqual(scrubbed([frame(TEXT, 'first! '), frame(MORE, 'second! ')]), [
    { first: TEXT, payload: Buffer.from('first! ') },
    { first: MORE, payload: Buffer.from('second! ') },
  ])
})

for (const { why, bytes, says } of [
  { why: 'is masked', bytes: Buffer.of(FIN | TEXT, 0x80 | 9), says: /masked/ },
  { why: 'has RSV1, as with compression', bytes: frame(FIN | 0x40 | TEXT, 'x'), says: /reserved/ },
  { why: 'has RSV3', bytes: frame(FIN | 0x10 | TEXT, 'x'), says: /reserved/ },
  { why: 'has opcode 3', bytes: frame(FIN | 3, 'x'), says: /opcode 3/ },
  { why: 'has opcode 11', bytes: frame(FIN | 11, 'x'), says: /opcode 11/ },
  { why: 'is a control frame in fragments', bytes: frame(PING, 'x'), says: /control frame/ },
  { why: 'is a control frame of 126 bytes', bytes: frame(FIN | PING, 'x'.repeat(126)), says: /control frame/ },
  { why: 'continues no message', bytes: frame(FIN | MORE, 'x'), says: /no message/ },
  { why: 'continues a message that has ended', bytes: Buffer.concat([frame(FIN | TEXT, 'x'), frame(MORE, 'y')]), says: /no message/ },
  { why: 'begins inside of a message', bytes: Buffer.concat([frame(TEXT, 'x'), frame(FIN | TEXT, 'y')]), says: /inside of another/ },
  { why: 'has a length with the first bit set', bytes: Buffer.of(FIN | TEXT, 127, 0x80, 0, 0, 0, 0, 0, 0, 1), says: /longer than any/ },
])
  test(`a frame that ${why} is refused by its head`, () => {
    for (const size of [1, 1000]) assert.throws(() => scrubbed(cut(bytes, size)), { code: 'answer_not_scrubbable', message: says })
  })

test('a real client gets messages, pings and the close with marks, and its own words arrive as it sent them', async () => {
  await using ends = await openClient()
  const { client, upstream, run } = ends
  const got: unknown[] = []
  client.on('message', (data: Buffer, isBinary: boolean) => got.push([data.toString(), isBinary]))
  client.on('ping', (data: Buffer) => got.push(data.toString()))
  const gone = once(client, 'close')
  const sent: Buffer[] = []
  upstream.on('data', (chunk: Buffer) => sent.push(chunk))
  client.send(CANARY)
  while (Buffer.concat(sent).length < 6 + CANARY.length) await once(upstream, 'data')
  for (const piece of cut(FRAGMENTED, 7)) upstream.write(piece)
  upstream.end()
  const [code, reason] = (await gone) as [number, Buffer]
  assert.deepEqual(got, [`p ${MARKS}`, [`one ${MARKS} two`, false], [MARKS, true], [CANARY.slice(0, 9), false]])
  assert.deepEqual([code, reason.toString()], [4000, `bye ${MARKS}`])
  const up = Buffer.concat(sent)
  const mask = up.subarray(2, 6)
  assert.equal(Buffer.from(up.subarray(6, 6 + CANARY.length).map((byte, i) => byte ^ (mask[i % 4] ?? 0))).toString(), CANARY)
  assert.deepEqual(run.failures, [])
  await ends.relayed
  await run.scrubbed.settled(NEVER)
})

test('a real client takes 3 MB in one message that goes on in fragments, in UTF-8 of several bytes', async () => {
  await using ends = await openClient()
  const text = `ü€😀 ${CANARY} `.repeat(100_000)
  const message = once(ends.client, 'message')
  for (const piece of cut(frame(FIN | TEXT, text), 50_001)) ends.upstream.write(piece)
  const [data] = (await message) as [Buffer]
  assert.equal(data.toString(), text.replaceAll(CANARY, MARKS))
})

for (const { name, options, bytes, code } of [
  { name: 'a frame that breaks the protocol', options: {}, bytes: frame(FIN | 0x40 | TEXT, CANARY), code: 'answer_not_scrubbable' },
  { name: 'a secret, with block,', options: { mode: 'block' }, bytes: frame(FIN | TEXT, CANARY), code: 'secret_echoed' },
  { name: 'a secret too many', options: { onHits: (): boolean => false }, bytes: frame(FIN | PING, CANARY), code: 'secret_echoed' },
] as const)
  test(`${name} ends the connection, and nothing of it arrives`, async () => {
    await using ends = await openClient(options)
    const { client, upstream, run } = ends
    const got: string[] = []
    client.on('message', (data: Buffer) => got.push(data.toString()))
    client.on('ping', (data: Buffer) => got.push(data.toString()))
    const gone = once(client, 'close')
    upstream.write(bytes)
    const [closeCode] = (await gone) as [number]
    assert.deepEqual([closeCode, got], [1006, []])
    assert.deepEqual(
      run.failures.map((failure) => failure.code),
      [code],
    )
    await run.scrubbed.settled(NEVER)
  })

test('a secret in the answer of a handshake becomes marks', () => {
  const seen: (readonly string[])[] = []
  const run = openScrubbing({ behind: new RecordingAgent((headers) => (seen.push(headers), new PassThrough())) })
  run.scrubbed.agent.upgrade?.(['Sec-WebSocket-Protocol', 'a', 'sec-websocket-extensions', '', 'X-Echo', CANARY, CANARY, 'x'])
  assert.deepEqual(seen, [['Sec-WebSocket-Protocol', 'a', 'sec-websocket-extensions', '', 'X-Echo', MARKS]])
})

test('a handshake whose answer uses an extension that nobody offered is refused before it is answered', async () => {
  const run = openScrubbing({ behind: new RecordingAgent(() => assert.fail('upgraded')) })
  assert.throws(() => run.scrubbed.agent.upgrade?.(['sec-websocket-extensions', 'permessage-deflate']), { code: 'answer_not_scrubbable' })
  await run.scrubbed.settled(NEVER)
})

test('with block a secret in the answer of a handshake refuses it', () => {
  const run = openScrubbing({ mode: 'block', behind: new RecordingAgent(() => assert.fail('upgraded')) })
  assert.throws(() => run.scrubbed.agent.upgrade?.(['sec-websocket-protocol', CANARY]), { code: 'secret_echoed' })
})

/** A client behind `inner`, an upstream before `pair`, and between them the agent that gets no secrets. */
async function openRelayed() {
  const pair = await openSocketPair()
  const inner = await openSocketPair()
  const run = openScrubbing({ behind: new RecordingAgent(() => inner.server) })
  const agent = run.scrubbed.agent.upgrade?.([])
  assert.ok(agent)
  return {
    pair,
    inner,
    run,
    agent,
    async [Symbol.asyncDispose]() {
      await closed(pair)
      await closed(inner)
    },
  }
}

test('each side may end its half: what the other still says arrives', async () => {
  await using open = await openRelayed()
  const { pair, inner, run, agent } = open
  const relayed = relay(agent, pair.server)
  inner.client.end('last words')
  assert.equal(String(await once(pair.client, 'data')), 'last words')
  const bytes = frame(FIN | TEXT, `late ${CANARY}`)
  pair.client.end(bytes)
  assert.deepEqual(Buffer.concat((await inner.client.toArray()) as Buffer[]), frame(FIN | TEXT, `late ${MARKS}`))
  assert.deepEqual(await relayed, { bytesUp: 10, bytesDown: bytes.length })
  await run.scrubbed.settled(NEVER)
})

test('an upstream that has said all still hears the client', async () => {
  await using open = await openRelayed()
  const { pair, inner, agent } = open
  const relayed = relay(agent, pair.server)
  pair.client.end(frame(FIN | TEXT, 'all'))
  assert.deepEqual(Buffer.concat((await inner.client.toArray()) as Buffer[]), frame(FIN | TEXT, 'all'))
  inner.client.end('and more')
  assert.equal(Buffer.concat((await pair.client.toArray()) as Buffer[]).toString(), 'and more')
  assert.deepEqual(await relayed, { bytesUp: 8, bytesDown: 5 })
})

test('a client that reads nothing holds up the upstream', async () => {
  await using open = await openRelayed()
  const { pair, inner, agent } = open
  inner.client.pause()
  void relay(agent, pair.server)
  const block = frame(FIN | BINARY, Buffer.alloc(64 * 1024))
  let written = 0
  // Kernel buffers take some megabytes of it.
  while (pair.client.writableLength < 1_000_000 && written < 200_000_000) {
    written += block.length
    pair.client.write(block)
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok(written < 200_000_000)
  assert.ok(agent.writableLength + inner.server.writableLength < 500_000)
})

test('when the client goes, the upstream’s connection ends', async () => {
  await using ends = await openClient()
  ends.upstream.on('end', () => ends.upstream.end()).resume()
  ends.client.terminate()
  await ends.relayed
  await ends.run.scrubbed.settled(NEVER)
  assert.equal(ends.run.failures.length, 0)
})

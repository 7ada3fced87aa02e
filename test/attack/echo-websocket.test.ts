/** I24: a WebSocket's handshake and messages reach the agent without the credential that went out in the handshake, however they are cut. */
import assert from 'node:assert/strict'
import { createServer as createHttpsServer } from 'node:https'
import { createHash } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { after, before, test } from 'node:test'
import { deflateRawSync } from 'node:zlib'
import { EVERY_WAY, openEveryWay, routeTo, type EveryWay, type Way } from '../support/every-way.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { leakIn } from '../support/leaks.ts'
import { exchangeOn } from '../support/raw-client.ts'
import { listenAsUpstream, type Recorded, type Upstream } from '../support/upstream.ts'
import { FIN, messagesIn, OPCODE, serverFrame, type ServerMessage } from '../support/websocket-frames.ts'

const SECRET = 'k9Zq/Vx+7"w<Tj&m\\4R y=PbN8'
const API = 'api.example.com'
const POLICY = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, addresses: ["127.0.0.0/8"]}
routes:
  - {name: ${routeTo('https', API)}, upstream: "https://${API}", credential: token, addresses: ["127.0.0.0/8"]}
credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let upstream: Upstream
/** What the upstream says in its handshake and behind it, made of the credential that came. */
let fields: (secret: string) => string = () => ''
let frames: (secret: string) => readonly Buffer[] = () => []

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [API], { env: { API_TOKEN: SECRET } }))
  const requests: Recorded[] = []
  const server = createHttpsServer(setting.tls(API))
  server.on('upgrade', ({ method = '', url = '', rawHeaders, headers }, socket: Duplex) => {
    requests.push({ method, url, rawHeaders, body: Buffer.alloc(0), remotePort: 0 })
    const came = (headers.authorization ?? '').replace('Bearer ', '')
    const accept = createHash('sha1').update(`${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
    socket.on('error', () => {})
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n${fields(came)}\r\n`,
    )
    for (const bytes of [...frames(came), serverFrame(FIN | OPCODE.close, Buffer.of(3, 232))]) socket.write(bytes)
    socket.end()
  })
  upstream = parts.use(await listenAsUpstream(server, requests, setting.at(API, 443)))
})
after(() => parts.disposeAsync())

/** The head and the messages that came of one WebSocket. */
async function listen(way: Way, more = ''): Promise<{ head: string; messages: readonly ServerMessage[] }> {
  const { socket, target, authority } = await setting.open(way, 'https', API)
  const handshake = `GET ${target('/chat')} HTTP/1.1\r\nHost: ${authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${more}\r\n`
  const came = Buffer.from(await exchangeOn(socket, handshake), 'latin1')
  assert.equal(headerOf(upstream.requests.at(-1), 'authorization'), `Bearer ${SECRET}`, 'it went out')
  assert.equal(leakIn(came, SECRET), undefined)
  const end = came.indexOf('\r\n\r\n') + 4
  const messages = messagesIn(came.subarray(end))
  for (const { payload } of messages) assert.equal(leakIn(payload, SECRET), undefined)
  return { head: came.toString('latin1', 0, end), messages }
}

const base64 = Buffer.from(`x${SECRET}`).toString('base64')
for (const { why, said } of [
  { why: 'a text', said: (secret: string) => [serverFrame(FIN | OPCODE.text, `{"you": ${JSON.stringify(secret)}}`)] },
  { why: 'bytes', said: (secret: string) => [serverFrame(FIN | OPCODE.binary, Buffer.from(`\0\x01${secret}\xff`, 'latin1'))] },
  {
    why: 'a text of two fragments, cut within it',
    said: (secret: string) => [serverFrame(OPCODE.text, secret.slice(0, 7)), serverFrame(FIN | OPCODE.continuation, secret.slice(7))],
  },
  {
    why: 'a text of a fragment for each letter',
    said: (secret: string) =>
      Array.from(secret, (letter, i) => serverFrame((i === 0 ? OPCODE.text : 0) | (i === secret.length - 1 ? FIN : 0), letter)),
  },
  {
    why: 'fragments with a ping between them',
    said: (secret: string) => [
      serverFrame(OPCODE.text, secret.slice(0, 7)),
      serverFrame(FIN | OPCODE.ping, 'still there?'),
      serverFrame(FIN | OPCODE.continuation, secret.slice(7)),
    ],
  },
  { why: 'a frame byte by byte', said: (secret: string) => Array.from(serverFrame(FIN | OPCODE.text, secret), (byte) => Buffer.of(byte)) },
  { why: 'a ping', said: (secret: string) => [serverFrame(FIN | OPCODE.ping, secret)] },
  { why: 'a pong', said: (secret: string) => [serverFrame(FIN | OPCODE.pong, secret)] },
  {
    why: 'the reason of a close',
    said: (secret: string) => [serverFrame(FIN | OPCODE.close, Buffer.concat([Buffer.of(3, 232), Buffer.from(secret)]))],
  },
  { why: 'base64', said: (secret: string) => [serverFrame(FIN | OPCODE.text, Buffer.from(`x${secret}`).toString('base64'))] },
  { why: 'a long text', said: (secret: string) => [serverFrame(FIN | OPCODE.text, `${'x'.repeat(40_000)}${secret}${'y'.repeat(20_000)}`)] },
]) {
  test(`I24 ${why} of a WebSocket arrives without the secret, of the same length, by every way`, async () => {
    const spoken = messagesIn(Buffer.concat([...said(SECRET)]))
    assert.ok(spoken.some(({ payload }) => leakIn(payload, SECRET) !== undefined))
    fields = () => ''
    frames = said
    for (const way of EVERY_WAY) {
      const { messages } = await listen(way)
      const shape = (all: readonly ServerMessage[]): unknown[] => all.map(({ opcode, payload }) => [opcode, payload.length])
      assert.deepEqual(shape(messages.slice(0, spoken.length)), shape(spoken), way)
    }
  })
}

test('I24 a secret in the fields of a handshake arrives as marks, and a field named by it not at all', async () => {
  frames = () => []
  fields = (secret) => `X-Echo: ${secret}\r\nX-Base64: ${base64}\r\nX-${Buffer.from(secret).toString('hex')}: 1\r\nX-Other: fine\r\n`
  for (const way of EVERY_WAY) assert.match((await listen(way)).head, /^HTTP\/1\.1 101 [^]*x-other: fine/i)
})

test('I24 compressed messages are not offered, and an upstream that uses them unasked is refused', async () => {
  frames = (secret) => [serverFrame(FIN | 0x40 | OPCODE.text, deflateRawSync(secret))]
  for (const [extensions, status] of [
    ['Sec-WebSocket-Extensions: permessage-deflate\r\n', 502],
    ['', 101],
  ] as const) {
    fields = () => extensions
    for (const way of EVERY_WAY) {
      const { head, messages } = await listen(way, 'Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n')
      assert.equal(headerOf(upstream.requests.at(-1), 'sec-websocket-extensions'), undefined)
      assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} `), way)
      // A frame with a bit of an extension that was not agreed on is broken (RFC 6455 §5.2): it does not go on.
      if (status === 101) assert.ok(messages.every(({ opcode }) => opcode === OPCODE.close))
    }
  }
})

test('I1 the audit and the log of all this have no part of the secret', async () => {
  assert.equal((await setting.gate.auditText()).includes(SECRET.slice(0, 8)) || setting.gate.log().includes(SECRET.slice(0, 8)), false)
})

/** Each cell of the README's table of ways and protocols, with the bytes of a client of that protocol. I16, I17 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2'
import { createServer as createTlsServer } from 'node:tls'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { WebSocket } from 'ws'
import {
  dialPort,
  openEveryWay,
  readBytes,
  routeTo,
  startTls,
  type Carrying,
  type EveryWay,
  type Opened,
  type Way,
} from '../support/every-way.ts'
import { openGrpcUpstream, type GrpcUpstream } from '../support/grpc-upstream.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { enterOwnNetwork } from '../support/own-network.ts'
import { readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { listenAsUpstream, openRawUpstream, openUpstream, type Upstream } from '../support/upstream.ts'
import { WAYS_TABLE, type Protocol, type WayIn } from '../support/ways-table.ts'
import { openWebSocketUpstream } from '../support/websocket-upstream.ts'

// The gate has the port of the mail server too, on its own address.
await enterOwnNetwork(import.meta.filename)

const API = 'api.example.com'
const GRPC = 'grpc.example.com'
const CHAT = 'chat.example.com'
const PINNED = 'pinned.example.com'
const MAIL = 'mail.example.com'
const HOSTS = [API, GRPC, CHAT, PINNED, MAIL]
const GREETING = '220 mail.example.com ESMTP\r\n'

const POLICY = `version: 1
network:
  rules:
${[API, GRPC, CHAT].map((host) => `    - {id: ${host.split('.')[0]}, host: ${host}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}\n`).join('')}
    - {id: pinned, host: ${PINNED}, action: allow, tls: passthrough, addresses: ["127.0.0.0/8"]}
    - {id: mail, host: ${MAIL}, ports: [25, 443], protocol: tcp, action: allow, addresses: ["127.0.0.0/8"]}
routes:
  - {name: ${routeTo('https', API)}, upstream: "https://${API}", credential: token, addresses: ["127.0.0.0/8"]}
  - {name: ${routeTo('http', API)}, upstream: "http://${API}", credential: token, plaintext: accept, addresses: ["127.0.0.0/8"]}
  - {name: ${routeTo('https', CHAT)}, upstream: "https://${CHAT}", credential: token, addresses: ["127.0.0.0/8"]}
credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${API}, ${GRPC}, ${CHAT}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let secure: Http2Upstream
let plain: Upstream
let grpc: GrpcUpstream
let chat: Upstream
let pinned: Upstream
let mail: Upstream
/** The answer to /events, which is open. */
let events: ServerResponse | undefined

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, HOSTS))
  secure = parts.use(
    await openHttp2Upstream(setting.tls(API), {
      place: setting.at(API, 443),
      answer(request, response) {
        if (request.url !== '/events') return void request.on('end', () => response.end('ok')).resume()
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n')
        events = response
      },
    }),
  )
  plain = parts.use(await openUpstream(undefined, undefined, setting.at(API, 80)))
  grpc = parts.use(await openGrpcUpstream(setting.tls(GRPC), setting.at(GRPC, 443)))
  chat = parts.use(await openWebSocketUpstream(setting.tls(CHAT), setting.at(CHAT, 443)))
  pinned = parts.use(
    await listenAsUpstream(
      createTlsServer(setting.tls(PINNED), (socket) => socket.on('error', () => {}).end('pinned')),
      [],
      setting.at(PINNED, 443),
    ),
  )
  mail = parts.use(await openMail())
})
after(() => parts.disposeAsync())

/** A server that speaks first, and then says back what it hears. */
function openMail(): Promise<Upstream> {
  return openRawUpstream(
    (socket) => {
      socket.write(GREETING)
      socket.pipe(socket)
    },
    setting.at(MAIL, 25),
  )
}

const WAY: Readonly<Record<WayIn, Way>> = {
  'HTTP proxy, whole URL': 'absolute form',
  'HTTP proxy, CONNECT': 'CONNECT',
  SOCKS5: 'SOCKS5',
  transparent: 'transparent',
  'reverse route': 'route',
}

/** What a client of the protocol does, and that it got what it wanted from the upstream that it named. */
const CARRIES: Readonly<Record<Protocol, (way: Way) => Promise<void>>> = {
  'HTTP/1.1': (way) => exchange(way, 'http', plain),
  'HTTPS, HTTP/1.1': (way) => exchange(way, 'https', secure),
  async 'HTTPS, HTTP/2'(way) {
    const session = await openSession(carrying(way), API)
    const answers = await Promise.all(['/a', '/b'].map((path) => stream(session, { ':path': path })))
    assert.deepEqual(
      answers.map(({ status, body }) => [status, body.toString()]),
      [
        [200, 'ok'],
        [200, 'ok'],
      ],
    )
    session.close()
    assert.deepEqual(
      secure.requests.slice(-2).map((request) => [request.protocol, headerOf(request, 'authorization')]),
      [
        ['h2', `Bearer ${CANARY}`],
        ['h2', `Bearer ${CANARY}`],
      ],
    )
  },
  async gRPC(way) {
    const session = await openSession(carrying(way), GRPC)
    const message = Buffer.concat([Buffer.of(0, 0, 0, 0, 4, 0x0a, 2), Buffer.from('hi')])
    const answer = await stream(
      session,
      { ':method': 'POST', ':path': '/sallyport.test.Echo/Say', 'content-type': 'application/grpc', te: 'trailers' },
      message,
    )
    session.close()
    assert.deepEqual([answer.status, answer.trailers['grpc-status'], answer.trailers['x-echo']], [200, '0', 'Say'])
    assert.ok(answer.body.includes('hi'))
    assert.deepEqual(grpc.calls.at(-1)?.metadata.get('authorization'), [`Bearer ${CANARY}`])
  },
  async WebSocket(way) {
    const opened = await setting.open(way, 'https', CHAT)
    const socket = webSocket(opened)
    await once(socket, 'open')
    socket.send('hello')
    const [said] = (await once(socket, 'message')) as [Buffer]
    assert.equal(said.toString(), 'hello')
    socket.close()
    await once(socket, 'close')
    assert.equal(headerOf(chat.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
  },
  async 'server-sent events'(way) {
    const { socket, target, authority } = await setting.open(way, 'https', API)
    socket.write(`GET ${target('/events')} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)
    let text = ''
    while (!text.includes('data: 1\n\n')) text += String((await once(socket, 'data'))[0])
    // Only now that the first has arrived is there a second.
    events?.end('data: 2\n\n')
    assert.match(await readToEnd(socket), /data: 2\n\n/)
  },
  async 'TLS passed through'(way) {
    const { cert } = setting.tls(PINNED)
    const tls = await setting.dialTls(carrying(way), PINNED, 443, { ca: undefined, rejectUnauthorized: false })
    assert.ok(tls.getPeerX509Certificate()?.toString() === cert.slice(0, cert.indexOf('-----END') + 26), "the upstream's own certificate")
    assert.equal(await readToEnd(tls), 'pinned')
  },
  async 'other TCP'(way) {
    const socket = way === 'transparent' ? await dialPort(25) : await setting.dial(carrying(way), MAIL, 25)
    assert.equal((await readBytes(socket, GREETING.length)).toString(), GREETING)
    socket.end('\0\xff binary')
    assert.equal(await readToEnd(socket), Buffer.from('\0\xff binary').toString('latin1'))
  },
}

/** What a client that has not heard of the table says, and that the upstream hears nothing of it. */
const REFUSES: Readonly<Partial<Record<Protocol, (way: Way) => Promise<void>>>> = {
  'HTTPS, HTTP/2': (way) => refused(way, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'),
  gRPC: (way) =>
    refused(
      way,
      `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0POST /sallyport.test.Echo/Say HTTP/1.1\r\nHost: ${GRPC}\r\nContent-Type: application/grpc\r\n\r\n`,
    ),
  async 'TLS passed through'(way) {
    const { socket } = await setting.open(way, 'http', PINNED)
    await assert.rejects(startTls(socket, { servername: PINNED, rejectUnauthorized: false }))
  },
  'other TCP': (way) => refused(way, `EHLO ${MAIL}\r\n`),
}

for (const { way, protocol, isCarried, title } of WAYS_TABLE) {
  test(`I16 I17 ${title}`, async () => {
    if (isCarried) return CARRIES[protocol](WAY[way])
    const count = connections()
    await REFUSES[protocol]?.(WAY[way])
    assert.ok(REFUSES[protocol], 'there is a test of it')
    assert.equal(connections(), count)
  })
}

function connections(): number {
  return secure.connections + plain.connections + chat.connections + pinned.connections + mail.connections + grpc.calls.length
}

function carrying(way: Way): Carrying {
  assert.ok(way !== 'absolute form' && way !== 'route')
  return way
}

async function exchange(way: Way, scheme: 'http' | 'https', upstream: Upstream): Promise<void> {
  const { socket, target, authority } = await setting.open(way, scheme, API)
  // Two on one connection, the first with a body that is chunked.
  socket.write(`POST ${target('/one')} HTTP/1.1\r\nHost: ${authority}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`)
  let text = ''
  while (!text.includes('ok')) text += String((await once(socket, 'data'))[0])
  assert.equal(statusOf(text), 200)
  socket.write(`GET ${target('/two')} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(socket)), 200)
  const [one, two] = upstream.requests.slice(-2)
  assert.deepEqual([one?.url, one?.body.toString(), two?.url], ['/one', 'abc', '/two'])
  for (const request of [one, two]) assert.equal(headerOf(request, 'authorization'), `Bearer ${CANARY}`)
}

async function openSession(way: Carrying, host: string): Promise<ClientHttp2Session> {
  const tls = await setting.dialTls(way, host, 443, { ALPNProtocols: ['h2'] })
  assert.equal(tls.alpnProtocol, 'h2')
  return connectHttp2(`https://${host}`, { createConnection: () => tls })
}

type Streamed = { status: number; body: Buffer; trailers: Record<string, unknown> }

async function stream(session: ClientHttp2Session, headers: Record<string, string>, body?: Buffer): Promise<Streamed> {
  const request = session.request(headers, { endStream: body === undefined })
  if (body) request.end(body)
  const streamed: Streamed = { status: 0, body: Buffer.alloc(0), trailers: {} }
  request.on('response', (answered) => (streamed.status = Number(answered[':status'])))
  request.on('trailers', (trailers) => (streamed.trailers = trailers))
  request.on('data', (chunk: Buffer) => (streamed.body = Buffer.concat([streamed.body, chunk])))
  await once(request, 'close')
  return streamed
}

/** A WebSocket client on a connection that is there already; the request line is the way's. */
function webSocket({ socket, target, authority }: Opened): WebSocket {
  return new WebSocket(`ws://${authority}/chat`, {
    createConnection: () => socket as never,
    finishRequest: (request) => {
      request.path = target('/chat')
      request.end()
    },
  })
}

/** Bytes that are not for this way: its answer is an error of HTTP or the end of the connection. */
async function refused(way: Way, bytes: string): Promise<void> {
  const socket: Socket = await dialPort(way === 'route' ? setting.gate.ports.gateway : setting.gate.port)
  socket.write(Buffer.from(bytes, 'latin1'))
  const answer = await readToEnd(socket)
  assert.ok(answer === '' || statusOf(answer) >= 400, answer)
}

test('I17 on ports that are for the web no bytes and no name in TLS lead to a host of a rule for tcp', async () => {
  const count = connections()
  for (const port of [80, 443] as const) {
    const socket = await setting.dial('transparent', MAIL, port)
    socket.write(`\0${MAIL}\0`)
    assert.equal(await readToEnd(socket), '')
  }
  await assert.rejects(setting.dialTls('transparent', MAIL), { said: 'closed' })
  assert.equal(connections(), count)
})

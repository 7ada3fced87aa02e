/** A connection that becomes bytes: what may ask for it, and that nothing else gets by under its name. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, beforeEach, test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { bodyOf, openTlsTunnel, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, policyFor } from '../support/setting.ts'
import { openRawUpstream, type Upstream } from '../support/upstream.ts'

// For this process: a WebSocket on which nothing moves.
Object.assign(LIMITS, { tunnelIdleMs: 400 })

const KEY = 'dGhlIHNhbXBsZSBub25jZQ=='
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
const SWITCHED = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${ACCEPT}\r\n\r\n`

const parts = new AsyncDisposableStack()
let upstream: Upstream
let gate: TestGate
/** The upstream's ends, and what came in by all of them. */
let sockets: Socket[] = []
let received = ''
/** What the upstream does when a head is whole. */
let onHead: (socket: Socket) => void = () => {}

before(async () => {
  upstream = parts.use(
    await openRawUpstream((socket) => {
      sockets.push(socket)
      let head = ''
      socket.on('end', () => socket.end())
      socket.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1')
        if (head.includes('\r\n\r\n')) return
        head += chunk.toString('latin1')
        if (head.includes('\r\n\r\n')) onHead(socket)
      })
    }),
  )
  gate = parts.use(await openTestGate({ policy: policyFor([upstream.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } }))
})
after(() => parts.disposeAsync())
beforeEach(() => {
  for (const socket of sockets) socket.destroy()
  sockets = []
  received = ''
  onHead = (socket) => void socket.write(SWITCHED)
})

type Head = { line?: string; upgrade?: string; version?: string; key?: string; connection?: string; more?: string }

/** A handshake in absolute form, as a proxy gets it, unless `line` says else. */
function handshake(head: Head = {}): string {
  const { connection = 'Connection: Upgrade\r\n', upgrade = 'Upgrade: websocket\r\n', more = '' } = head
  const { version = 'Sec-WebSocket-Version: 13\r\n', key = `Sec-WebSocket-Key: ${KEY}\r\n` } = head
  const line = head.line ?? `GET http://${API}:${upstream.port}/chat HTTP/1.1`
  return `${line}\r\nHost: ${API}:${upstream.port}\r\n${connection}${upgrade}${version}${key}${more}\r\n`
}

async function openAgent(bytes: string): Promise<Socket> {
  const socket = connect(gate.port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(bytes, 'latin1')
  return socket
}

async function until(is: () => boolean): Promise<void> {
  while (!is()) await new Promise(setImmediate)
}

for (const { why, head, code } of [
  { why: 'no version', head: { version: '' }, code: 'request_malformed' },
  { why: 'an old version', head: { version: 'Sec-WebSocket-Version: 8\r\n' }, code: 'request_malformed' },
  { why: 'two versions', head: { more: 'Sec-WebSocket-Version: 13\r\n' }, code: 'request_malformed' },
  { why: 'no key', head: { key: '' }, code: 'request_malformed' },
  { why: 'a key that is none', head: { key: 'Sec-WebSocket-Key: x\r\n' }, code: 'request_malformed' },
  { why: 'two keys', head: { more: `Sec-WebSocket-Key: ${KEY}\r\n` }, code: 'request_malformed' },
  { why: 'a length of a body', head: { more: 'Content-Length: 5\r\n' }, code: 'request_malformed' },
  { why: 'a body in chunks', head: { more: 'Transfer-Encoding: chunked\r\n' }, code: 'request_malformed' },
  { why: 'a length twice', head: { more: 'Content-Length: 0\r\nContent-Length: 0\r\n' }, code: 'request_malformed' },
  { why: 'another protocol', head: { upgrade: 'Upgrade: mqtt\r\n' }, code: 'upgrade_refused' },
  { why: 'TLS within HTTP (RFC 2817)', head: { upgrade: 'Upgrade: TLS/1.2\r\n' }, code: 'upgrade_refused' },
  { why: 'another protocol behind it', head: { upgrade: 'Upgrade: websocket, h2c\r\n' }, code: 'upgrade_refused' },
  { why: 'two Upgrade fields', head: { more: 'Upgrade: h2c\r\n' }, code: 'upgrade_refused' },
  { why: 'two Upgrade fields that agree', head: { more: 'Upgrade: websocket\r\n' }, code: 'upgrade_refused' },
  { why: 'no Connection that says so', head: { connection: '' }, code: 'upgrade_refused' },
] as { why: string; head: Head; code: string }[]) {
  test(`I10 a handshake with ${why} is refused as ${code}, nothing goes out, and what comes behind it is not read`, async () => {
    const connections = upstream.connections
    const agent = await openAgent(
      `${handshake(head)}GET http://${API}:${upstream.port}/smuggled HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\n\r\n`,
    )
    const answer = await readToEnd(agent)
    assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, code)
    assert.equal(answer.match(/^HTTP\/1\.1 \d/gm)?.length, 1)
    assert.equal(upstream.connections, connections, received)
  })
}

for (const { why, line } of [
  { why: 'POST', line: 'POST' },
  { why: 'HEAD', line: 'HEAD' },
  { why: 'OPTIONS', line: 'OPTIONS' },
]) {
  test(`a handshake by ${why} is refused, and nothing goes out`, async () => {
    const connections = upstream.connections
    const answer = await readToEnd(await openAgent(handshake({ line: `${line} http://${API}:${upstream.port}/chat HTTP/1.1` })))
    assert.equal(statusOf(answer), 400)
    assert.equal(upstream.connections, connections)
  })
}

test('a handshake of HTTP/1.0 switches nothing', async () => {
  onHead = (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  const answer = await readToEnd(await openAgent(handshake({ line: `GET http://${API}:${upstream.port}/chat HTTP/1.0` })))
  assert.notEqual(statusOf(answer), 101)
  assert.doesNotMatch(received, /^upgrade:/im)
})

test('what an agent sends before the answer goes out behind it, in order and not before', async () => {
  const thinking = Promise.withResolvers<Socket>()
  onHead = (socket) => thinking.resolve(socket)
  const agent = await openAgent(`${handshake()}one `)
  const socket = await thinking.promise
  agent.write('two ')
  // The gate has read it by the time that it answers another connection.
  assert.equal(statusOf(await readToEnd(await openAgent('GET / HTTP/1.1\r\n\r\n'))), 400)
  assert.doesNotMatch(received, /one|two/)
  socket.write(SWITCHED)
  await until(() => received.endsWith('one two '))
  agent.write('three')
  await until(() => received.endsWith('\r\n\r\none two three'))
  agent.destroy()
})

test('an agent that sends more than a head before the answer loses its connection, and the upstream its request', async () => {
  const thinking = Promise.withResolvers<Socket>()
  onHead = (socket) => thinking.resolve(socket)
  const agent = await openAgent(handshake())
  const socket = await thinking.promise
  agent.write('x'.repeat(LIMITS.headBytesMax * 4))
  assert.equal(await readToEnd(agent), '')
  if (!socket.destroyed) await once(socket, 'close')
  assert.doesNotMatch(received, /xx/)
})

test('a handshake that the upstream answers with a page gives the page, and a request behind it is not read', async () => {
  const thinking = Promise.withResolvers<Socket>()
  onHead = (socket) => thinking.resolve(socket)
  const agent = await openAgent(
    `${handshake()}GET http://${API}:${upstream.port}/smuggled HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\n\r\n`,
  )
  const socket = await thinking.promise
  socket.write('HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 9\r\n\r\nwho are u')
  const answer = await readToEnd(agent)
  assert.match(answer, /^HTTP\/1\.1 401 [^]*WWW-Authenticate: Bearer[^]*who are u$/i)
  assert.doesNotMatch(received, /smuggled/)
})

test('an agent that leaves while the upstream thinks has its request given up', async () => {
  const thinking = Promise.withResolvers<Socket>()
  onHead = (socket) => thinking.resolve(socket)
  const agent = await openAgent(handshake())
  const socket = await thinking.promise
  agent.end()
  if (!socket.destroyed) await once(socket, 'close')
})

test('a handshake behind a request that is not answered ends the connection, and nothing of it goes out', async () => {
  onHead = () => {}
  const first = `GET http://${API}:${upstream.port}/first HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\n\r\n`
  assert.equal(await readToEnd(await openAgent(first + handshake())), '')
  assert.doesNotMatch(received, /chat/)
})

for (const [who, end] of [
  ['the agent', (agent: Socket) => agent],
  ['the upstream', (_agent: Socket, there: Socket) => there],
] as const) {
  test(`the end of ${who}’s side ends the other side too`, async () => {
    const agent = await openAgent(handshake())
    await once(agent, 'data')
    const there = sockets[0] as Socket
    const closed = Promise.all([
      new Promise((resolve) => agent.once('close', resolve)),
      new Promise((resolve) => there.once('close', resolve)),
    ])
    agent.resume()
    end(agent, there).destroy()
    await closed
  })
}

test('a WebSocket on which nothing moves is ended after its limit', async () => {
  const agent = await openAgent(handshake())
  assert.match(await readToEnd(agent), /^HTTP\/1\.1 101 /)
})

test('bytes behind the head in one write pass both ways, and the audit has how many and the status 101', async () => {
  onHead = (socket) => void socket.write(`${SWITCHED}hello from the service`)
  const agent = await openAgent(handshake({ line: `GET http://${API}:${upstream.port}/audited HTTP/1.1`, more: 'X-Mine: yes\r\n' }))
  let got = ''
  agent.on('data', (chunk: Buffer) => (got += chunk.toString('latin1')))
  await until(() => got.endsWith('hello from the service'))
  agent.write('hi')
  await until(() => received.endsWith('hi'))
  agent.destroy()
  let events: Record<string, unknown>[] = []
  const of = (event: string): Record<string, unknown> | undefined => {
    const id = events.find(({ path }) => path === '/audited')?.['request']
    return events.find((one) => one['request'] === id && one['event'] === event)
  }
  while (of('finished') === undefined) events = await gate.audit()
  assert.deepEqual([of('decided')?.['decision'], of('finished')?.['status']], ['allow', 101])
  assert.deepEqual([of('finished')?.['bytes_up'], of('finished')?.['bytes_down']], [2, 22])
  assert.match(
    got,
    new RegExp(`^HTTP/1\\.1 101 Switching Protocols\\r\\n[^]*sec-websocket-accept: ${ACCEPT.replaceAll('+', '\\+')}\r\n`, 'i'),
  )
  assert.match(received, /X-Mine: yes/)
})

test('a WebSocket in TLS is one of HTTP/1.1: a client that offers both is given h2 and no extended CONNECT, one that offers http/1.1 gets it', async () => {
  const ca = await gate.caPem()
  const secure = await openTlsTunnel(gate.port, API, upstream.port, ca, { ALPNProtocols: ['http/1.1'] })
  assert.equal(secure.alpnProtocol, 'http/1.1')
  secure.destroy()
})

test('a handshake in a tunnel that names another host is refused, and nothing goes out', async () => {
  const connections = upstream.connections
  const { socket } = await openTunnel(gate.port, `${API}:${upstream.port}`)
  socket.write(handshake({ line: 'GET /chat HTTP/1.1' }).replace(`Host: ${API}`, 'Host: other.example.com'))
  assert.equal(statusOf(await readToEnd(socket)), 421)
  assert.equal(upstream.connections, connections)
})

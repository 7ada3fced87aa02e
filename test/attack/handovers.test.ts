/** Where one reading of HTTP is handed over to another: an upgrade, a body that is empty, a stream that begins anew. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { answerOf, askStream, openHttp2Agent } from '../support/http2-agent.ts'
import { FLAG, headers, openFrames, reset, TYPE } from '../support/http2-frames.ts'
import { headerOf, openHttp2Upstream } from '../support/http2-upstream.ts'
import { ALL_WAYS, openTestGate } from '../support/gate.ts'
import { bodyOf, exchangeRaw, statusOf } from '../support/raw-client.ts'
import { API, CANARY, policyFor } from '../support/setting.ts'
import { ask, keyFor, TRUST } from '../support/upstream-client.ts'
import { createUpstreamCa, leafFor, openRawUpstream } from '../support/upstream.ts'
import { createUpstreams } from '../../src/sidecar/upstream/upstreams.ts'

const KEY = 'dGhlIHNhbXBsZSBub25jZQ=='

/** What comes back for a WebSocket handshake that a bare upstream answers so, and whether the gate still serves afterwards. */
async function answerToHandshake(answer: Buffer): Promise<{ answer: string; code: unknown }> {
  await using upstream = await openRawUpstream((socket) => socket.once('data', () => socket.write(answer)))
  await using gate = await openTestGate({ policy: policyFor([upstream.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  const where = `${API}:${upstream.port}`
  const came = await exchangeRaw(
    gate.port,
    `GET http://${where}/ HTTP/1.1\r\nHost: ${where}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n\r\n`,
  )
  assert.equal(statusOf(await exchangeRaw(gate.port, 'GET http://evil.example/ HTTP/1.1\r\nConnection: close\r\n\r\n')), 403)
  const finished = (await gate.audit()).find(({ event }) => event === 'finished')
  return { answer: came, code: finished?.['code'] }
}

for (const { why, head } of [
  { why: 'with a transfer coding', head: 'Upgrade: websocket\r\nConnection: Upgrade\r\nTransfer-Encoding: gzip\r\n' },
  { why: 'to another protocol', head: 'Upgrade: smtp\r\nConnection: Upgrade\r\n' },
  { why: 'to two protocols', head: 'Upgrade: websocket\r\nUpgrade: smtp\r\nConnection: Upgrade\r\n' },
])
  test(`I10 a WebSocket handshake answered by an upgrade ${why} is 502, and ends nobody else's work`, async () => {
    const { answer, code } = await answerToHandshake(Buffer.from(`HTTP/1.1 101 Switching Protocols\r\n${head}\r\nbytes`))
    assert.equal(statusOf(answer), 502, answer)
    assert.equal(code, 'upstream_invalid')
  })

test('an ordinary answer to a WebSocket handshake arrives whole, however long it is', async () => {
  const bytes = 4_000_000
  const { answer, code } = await answerToHandshake(
    Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n`), Buffer.alloc(bytes, 'x')]),
  )
  assert.equal(bodyOf(answer).length, bytes)
  assert.equal(code, undefined)
})

for (const protocol of ['h2', 'http/1.1'] as const)
  test(`an HTTP/2 request whose body is there and empty is answered by an upstream of ${protocol}`, async () => {
    await using ca = await createUpstreamCa()
    await using upstream = await openHttp2Upstream(leafFor(ca.authority, API), { protocols: [protocol] })
    await using gate = await openTestGate({
      policy: policyFor([upstream.port], { inject: '' }),
      upstreamCa: [ca.file],
      hosts: { [API]: ['127.0.0.1'] },
    })
    using agent = await openHttp2Agent({ port: gate.port, host: API, targetPort: upstream.port, ca: await gate.caPem() })
    const { status, body } = await askStream(agent, { ':method': 'POST', ':path': '/' }, '')
    assert.deepEqual([status, body], [200, 'ok'])
    assert.equal(upstream.requests.length, 1)
  })

test('a request with an empty body that an HTTP/2 upstream refuses to process is sent again, to its end', async () => {
  let streams = 0
  await using server = await openFrames(({ type, flags, stream }, socket) => {
    if (type === TYPE.HEADERS) streams += 1
    const isEnd = (type === TYPE.HEADERS || type === TYPE.DATA) && (flags & FLAG.END_STREAM) !== 0
    if (!isEnd) return
    if (streams === 1) socket.write(reset(stream, 7))
    else socket.write(headers(stream, [[':status', '200']], FLAG.END_HEADERS | FLAG.END_STREAM))
  })
  await using upstreams = createUpstreams(TRUST)
  const { status } = await ask(upstreams.pool(keyFor(server.port)), { method: 'POST', body: Readable.from([]) })
  assert.equal(status, 200)
  assert.equal(streams, 2)
})

/** The same bytes again and again, each connection reset as soon as they are sent. */
async function resetBehind(port: number, bytes: string): Promise<void> {
  for (let i = 0; i < 20; i++) {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    await new Promise((resolve) => socket.write(bytes, resolve))
    socket.resetAndDestroy()
    await once(socket, 'close')
  }
}

for (const { why, bytes } of [
  { why: 'names no host', bytes: 'CONNECT bad%host:443 HTTP/1.1\r\n\r\n' },
  { why: 'names no port', bytes: `CONNECT ${API} HTTP/1.1\r\n\r\n` },
  { why: 'is not allowed', bytes: 'CONNECT evil.example:443 HTTP/1.1\r\n\r\n' },
  { why: 'is allowed', bytes: `CONNECT ${API}:443 HTTP/1.1\r\n\r\n` },
])
  test(`an agent that resets the connection of a CONNECT that ${why} ends no process`, async () => {
    await using gate = await openTestGate({ policy: policyFor([443], { inject: '' }) })
    await resetBehind(gate.port, bytes)
    assert.equal(statusOf(await exchangeRaw(gate.port, 'GET http://evil.example/ HTTP/1.1\r\nConnection: close\r\n\r\n')), 403)
  })

/** The next bytes that come, of which at least so many are due. */
async function read(socket: Socket, bytes: number): Promise<Buffer> {
  let came = Buffer.alloc(0)
  while (came.length < bytes) {
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    came = Buffer.concat([came, chunk])
  }
  return came
}

test('I18 a plain connection by SOCKS5 that showed no lease carries nothing more once the policy requires one', async () => {
  const policy = (lease: string): string => policyFor([80], { inject: '' }).replace('network:\n', `network:\n  lease: ${lease}\n`)
  await using gate = await openTestGate({ policy: policy('optional'), config: { ...ALL_WAYS, checkLease: () => false } })
  const socket = connect(gate.ports.socks, '127.0.0.1')
  // Our own address, as a client has it that asked our DNS: the requests say where they go.
  socket.write(Buffer.of(5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80))
  await read(socket, 12)
  socket.write('GET / HTTP/1.1\r\nHost: evil.example\r\n')
  const closed = once(socket, 'close')
  assert.equal(await gate.setPolicy(policy('required')), true)
  socket.end('\r\n')
  await closed
  const audit = await gate.audit()
  assert.deepEqual(
    audit.flatMap(({ event, code }) => (event === 'decided' ? [code] : [])),
    [],
  )
})

test('I5 a trailer in the place of a credential, however it is spelled, does not go on behind it', async () => {
  await using ca = await createUpstreamCa()
  await using upstream = await openHttp2Upstream(leafFor(ca.authority, API))
  await using gate = await openTestGate({
    policy: policyFor([upstream.port], { inject: `{domains: [${API}], header: X-Custom-Token}` }),
    env: { API_TOKEN: CANARY },
    upstreamCa: [ca.file],
    hosts: { [API]: ['127.0.0.1'] },
  })
  using agent = await openHttp2Agent({ port: gate.port, host: API, targetPort: upstream.port, ca: await gate.caPem() })
  const stream = agent.request({ ':method': 'POST', ':path': '/' }, { waitForTrailers: true })
  stream.once('wantTrailers', () => stream.sendTrailers({ 'x-custom-token': 'mine', x_custom_token: 'mine', 'x-sum': 'kept' }))
  stream.end('body')
  assert.equal((await answerOf(stream)).status, 200)
  const [request] = upstream.requests
  assert.equal(headerOf(request, 'x-custom-token'), CANARY)
  assert.deepEqual(request?.rawTrailers, ['x-sum', 'kept'])
})

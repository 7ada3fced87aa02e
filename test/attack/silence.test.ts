/** A side that goes silent is given up after its limit, with a code, and holds nothing for good. The limits are lowered for this process. */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { LIMITS } from '../../src/kernel/limits.ts'
import { openTestGate } from '../support/gate.ts'
import { bodyOf, exchangeRaw, exchangeTls, openTlsTunnel, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, openSetting, policyFor } from '../support/setting.ts'
import { openRawUpstream } from '../support/upstream.ts'

// Connections are looked at twice a second for what is overdue.
Object.assign(LIMITS, {
  tlsHandshakeMs: 400,
  upstreamHeadMs: 1_000,
  upstreamBodyIdleMs: 1_000,
  bodyIdleMs: 800,
  tunnelIdleMs: 500,
  recognitionMs: 500,
})

const codeOf = (answer: string): string => (JSON.parse(bodyOf(answer)) as { code: string }).code

test('an upstream that never answers the TLS handshake: 504, and not a byte of the request', async () => {
  const seen: Buffer[] = []
  await using silent = await openRawUpstream((socket) => socket.on('data', (chunk: Buffer) => seen.push(chunk)))
  await using gate = await openTestGate({
    policy: policyFor([silent.port]),
    env: { API_TOKEN: 'token-value' },
    hosts: { [API]: ['127.0.0.1'] },
  })
  const answer = await exchangeTls(
    gate.port,
    API,
    silent.port,
    await gate.caPem(),
    `GET /x HTTP/1.1\r\nHost: ${API}:${silent.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 504)
  assert.equal(codeOf(answer), 'upstream_timeout')
  assert.doesNotMatch(Buffer.concat(seen).toString('latin1'), /token-value|GET/)
})

test('an upstream that takes the request and never answers: 504 upstream_timeout', async () => {
  await using silent = await openRawUpstream((socket) => socket.resume())
  await using gate = await openTestGate({ policy: policyFor([silent.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  const answer = await exchangeRaw(gate.port, `GET http://${API}:${silent.port}/ HTTP/1.1\r\nHost: ${API}:${silent.port}\r\n\r\n`)
  assert.equal(statusOf(answer), 504)
  assert.equal(codeOf(answer), 'upstream_timeout')
})

test('an upstream that stops in the middle of its answer: the connection to the agent breaks, the answer is not made whole', async () => {
  await using silent = await openRawUpstream((socket) =>
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart')),
  )
  await using gate = await openTestGate({ policy: policyFor([silent.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  const answer = await exchangeRaw(gate.port, `GET http://${API}:${silent.port}/ HTTP/1.1\r\nHost: ${API}:${silent.port}\r\n\r\n`)
  assert.equal(bodyOf(answer), 'part')
})

test('an agent that stops in the middle of its upload: 504, and the request is ended at the upstream', async () => {
  let closed: () => void = () => {}
  const gone = new Promise<void>((resolve) => (closed = resolve))
  await using upstream = await openRawUpstream((socket) => {
    socket.resume()
    socket.on('close', closed)
  })
  await using gate = await openTestGate({ policy: policyFor([upstream.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  const answer = await exchangeRaw(
    gate.port,
    `POST http://${API}:${upstream.port}/ HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\nContent-Length: 10\r\n\r\nhalf`,
  )
  assert.equal(statusOf(answer), 504)
  await gone
})

test('a tunnel in which nothing is sent is closed, and so is one with half a ClientHello', async () => {
  await using setting = await openSetting()
  for (const bytes of ['', '\x16\x03\x01\x02\x00\x01']) {
    const { socket } = await openTunnel(setting.gate.port, `${API}:${setting.secure.port}`)
    if (bytes) socket.write(bytes, 'latin1')
    assert.equal(await readToEnd(socket), '')
  }
})

test('a passthrough tunnel in which nothing moves is closed', async () => {
  await using setting = await openSetting({ rule: 'tls: passthrough', inject: '' })
  const tunnel = await openTlsTunnel(setting.gate.port, API, setting.secure.port, setting.ca, { rejectUnauthorized: false })
  assert.equal(await readToEnd(tunnel), '')
})

test('an agent that does not answer our handshake inside a tunnel is dropped', async () => {
  await using setting = await openSetting()
  const { socket } = await openTunnel(setting.gate.port, `${API}:${setting.secure.port}`)
  const whole = await new Promise<Buffer>((resolve) => {
    // The first flight of a real client, sent by hand: the rest never comes.
    const server = createServer((peer) =>
      peer.once('data', (hello: Buffer) => {
        peer.destroy()
        server.close()
        resolve(hello)
      }),
    )
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      connectTls({ port, host: '127.0.0.1', servername: API }).on('error', () => {})
    })
  })
  socket.write(whole)
  await readToEnd(socket)
  assert.equal(setting.secure.connections, 0)
})

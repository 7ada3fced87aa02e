/** Where one reading of HTTP is handed over to another: an upgrade, a body that is empty, a stream that begins anew. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { openHttp2Agent, askStream } from '../support/http2-agent.ts'
import { FLAG, headers, openFrames, reset, TYPE } from '../support/http2-frames.ts'
import { openHttp2Upstream } from '../support/http2-upstream.ts'
import { openTestGate } from '../support/gate.ts'
import { bodyOf, exchangeRaw, statusOf } from '../support/raw-client.ts'
import { API, policyFor } from '../support/setting.ts'
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

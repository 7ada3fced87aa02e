import assert from 'node:assert/strict'
import { constants, sensitiveHeaders } from 'node:http2'
import { PassThrough, Readable } from 'node:stream'
import { test } from 'node:test'
import { createUpstreams } from '../../../src/sidecar/upstream/upstreams.ts'
import { ask, HOST, keyFor, openStreams, take, Taker, TRUST } from '../../support/upstream-client.ts'

test('fields arrive in lower case, in order, with the host as :authority, and none that ends at this hop', async () => {
  let raw: string[] = []
  await using server = await openStreams((stream, _headers, _flags, fields) => {
    raw = fields
    stream.respond({ ':status': 200, 'x-one': 'a' })
    stream.end('ok')
  })
  await using upstreams = createUpstreams(TRUST)
  const headers = ['host', `${HOST}:99`, 'X-A', '1', 'x-b', '\xe9', 'x-a', '2', 'TE', 'trailers', 'user-agent', 'u']
  const answer = await ask(upstreams.pool(keyFor(server.port)), { path: '/a?b=%2f', headers })
  assert.deepEqual([answer.status, String(answer.body)], [200, 'ok'])
  assert.deepEqual(answer.headers.slice(0, 2), ['x-one', 'a'])
  assert.ok(!answer.headers.some((name) => name.startsWith(':')))
  assert.equal(
    raw.join(' '),
    `:method GET :scheme https :authority ${HOST}:99 :path /a?b=%2f x-a 1 x-b \xe9 x-a 2 te trailers user-agent u`,
  )
})

test('te goes on only as "trailers"; anything else would be a malformed request (RFC 9113 §8.2.2)', async () => {
  let raw: string[] = []
  await using server = await openStreams((stream, _headers, _flags, fields) => {
    raw = fields
    stream.respond({ ':status': 204 }, { endStream: true })
  })
  await using upstreams = createUpstreams(TRUST)
  assert.equal((await ask(upstreams.pool(keyFor(server.port)), { headers: ['host', HOST, 'te', 'gzip'] })).status, 204)
  assert.ok(!raw.includes('te'))
})

test('I1 every field with a credential in it is marked never to be indexed, also the path, and one that is only named as sensitive', async () => {
  let marked: string[] = []
  await using server = await openStreams((stream, headers) => {
    marked = (headers as { [sensitiveHeaders]?: string[] })[sensitiveHeaders] ?? []
    stream.respond({ ':status': 204 }, { endStream: true })
  })
  await using upstreams = createUpstreams(TRUST)
  const headers = ['host', HOST, 'Authorization', 'Bearer x', 'X-Api-Key', 'k', 'Cookie', 'c=1', 'my-own-key', 'k', 'accept', '*/*']
  await ask(upstreams.pool(keyFor(server.port)), { path: '/?key=k', headers, sensitive: ['accept'] })
  assert.deepEqual(marked.toSorted(), [':path', 'accept', 'authorization', 'cookie', 'my-own-key', 'x-api-key'])
})

for (const [what, request] of [
  ['a NUL in a value', { headers: ['host', HOST, 'x-a', 'a\0x-b'] }],
  ['a line end in a value', { headers: ['host', HOST, 'x-a', 'a\r\nx-b: c'] }],
  ['a colon in a name', { headers: ['host', HOST, ':path', '/other'] }],
  ['a NUL in the path', { path: '/\0:authority\0evil.example.com' }],
  ['a space in the path', { path: '/a b' }],
  ['a NUL in the method', { method: 'GET\0' }],
  ['a NUL in the host', { headers: ['host', `${HOST}\0`] }],
] as const) {
  test(`I10 ${what} is never sent: Node would take it for another field`, async () => {
    let streams = 0
    await using server = await openStreams((stream) => {
      streams += 1
      stream.respond({ ':status': 204 }, { endStream: true })
    })
    await using upstreams = createUpstreams(TRUST)
    const pool = upstreams.pool(keyFor(server.port))
    await assert.rejects(ask(pool, request))
    assert.equal((await ask(pool)).status, 204)
    assert.equal(streams, 1)
  })
}

test('trailers go both ways', async () => {
  let sent: unknown
  await using server = await openStreams((stream) => {
    stream.on('trailers', (_headers, _flags, raw) => (sent = raw))
    stream.respond({ ':status': 200 }, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'x-t': ['a', 'b'] }))
    stream.pipe(stream)
  })
  await using upstreams = createUpstreams(TRUST)
  const body = Readable.from([Buffer.from('hello')])
  const trailers = (): string[] => ['X-Check', 'sum', 'x-two', '2', 'x-two', '3']
  const answer = await ask(upstreams.pool(keyFor(server.port)), { method: 'POST', body, trailers })
  assert.deepEqual(sent, ['x-check', 'sum', 'x-two', '2', 'x-two', '3'])
  assert.deepEqual(answer.trailers, ['grpc-status', '0', 'x-t', 'a', 'x-t', 'b'])
  assert.equal(String(answer.body), 'hello')
})

test('an answer of trailers only (gRPC) is one head and an end', async () => {
  await using server = await openStreams((stream) => stream.respond({ ':status': 200, 'grpc-status': '5' }, { endStream: true }))
  await using upstreams = createUpstreams(TRUST)
  const answer = await ask(upstreams.pool(keyFor(server.port)), { method: 'POST', body: Readable.from([Buffer.from('x')]) })
  assert.deepEqual([answer.status, answer.bytes, answer.headers[1]], [200, 0, '5'])
})

test('a body without trailers ends with its last byte, and the server knows', async () => {
  let received = ''
  await using server = await openStreams((stream) => {
    stream.on('data', (chunk: Buffer) => (received += String(chunk)))
    stream.on('end', () => stream.respond({ ':status': 200 }, { endStream: true }))
  })
  await using upstreams = createUpstreams(TRUST)
  const body = Readable.from([Buffer.from('one '), Buffer.from('two')])
  const taker = take(upstreams.pool(keyFor(server.port)), { method: 'PUT', body, trailers: () => [] })
  assert.equal((await taker.done.promise).status, 200)
  assert.deepEqual([received, taker.bytesSent, taker.isSent, taker.ends], ['one two', 7, true, 1])
})

test('both directions flow at once: each piece is answered before the next is sent', async () => {
  await using server = await openStreams((stream) => {
    stream.respond({ ':status': 200 })
    stream.on('data', (chunk: Buffer) => stream.write(`<${String(chunk)}>`))
    stream.on('end', () => stream.end('end'))
  })
  await using upstreams = createUpstreams(TRUST)
  const body = new PassThrough()
  const taker = new Taker()
  let next = Promise.withResolvers<string>()
  taker.onChunk = (_controller, chunk) => next.resolve(String(chunk))
  take(upstreams.pool(keyFor(server.port)), { method: 'POST', body }, taker)
  for (const word of ['a', 'b', 'c']) {
    next = Promise.withResolvers()
    body.write(word)
    assert.equal(await next.promise, `<${word}>`)
    assert.equal(taker.isSent, false)
  }
  body.end()
  await taker.done.promise
  assert.equal(taker.isSent, true)
})

test('interim answers come before the answer', async () => {
  await using server = await openStreams((stream) => {
    stream.additionalHeaders({ ':status': 103, link: '</a>' })
    stream.respond({ ':status': 200 })
    stream.end('ok')
  })
  await using upstreams = createUpstreams(TRUST)
  const answer = await ask(upstreams.pool(keyFor(server.port)))
  assert.deepEqual([answer.interim, answer.status, String(answer.body)], [[103], 200, 'ok'])
})

for (const [method, status] of [
  ['HEAD', 200],
  ['GET', 204],
  ['GET', 304],
] as const) {
  test(`${method} with ${status} ends without a body, with the length as it was said`, async () => {
    await using server = await openStreams((stream) => {
      stream.respond({ ':status': status, ...(status === 204 ? {} : { 'content-length': '9' }) }, { endStream: true })
    })
    await using upstreams = createUpstreams(TRUST)
    const answer = await ask(upstreams.pool(keyFor(server.port)), { method })
    assert.deepEqual([answer.status, answer.bytes, answer.headers.includes('content-length')], [status, 0, status !== 204])
  })
}

test('an answer before the end of the body is a whole one, and the rest of the body is not asked for', async () => {
  await using server = await openStreams((stream) => {
    stream.respond({ ':status': 413 })
    stream.end('too much', () => stream.close(constants.NGHTTP2_NO_ERROR))
  })
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor(server.port))
  const body = new PassThrough()
  body.write('begun')
  const answer = await ask(pool, { method: 'POST', body })
  assert.deepEqual([answer.status, String(answer.body)], [413, 'too much'])
  assert.equal(body.destroyed, true)
  assert.equal((await ask(pool, { method: 'POST', body: Readable.from([Buffer.from('x')]) })).status, 413)
  assert.equal(server.connections, 1, 'the session goes on')
})

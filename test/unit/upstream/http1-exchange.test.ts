/** One request over HTTP/1.1 and its answer: what is written, what is read, and every way in which it may end. */
import assert from 'node:assert/strict'
import { PassThrough, Readable } from 'node:stream'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { UpstreamRequest } from '../../../src/sidecar/upstream/upstream.ts'
import { eventually } from '../../support/eventually.ts'
import { echoPath, openHttp1, openOrigin } from '../../support/http1-upstream.ts'
import { ask, HOST, take } from '../../support/upstream-client.ts'
import { openRawUpstream, openUpstream } from '../../support/upstream.ts'

Object.assign(LIMITS, { upstreamSweepMs: 20 })

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** What an upstream reads of one request, until it has the end or the connection is over. */
async function wireOf(request: Partial<UpstreamRequest>, end: string): Promise<string> {
  let heard = ''
  await using upstream = await openRawUpstream((socket) => {
    socket.on('data', (chunk: Buffer) => {
      heard += chunk.toString('latin1')
      if (heard.endsWith(end)) socket.end(OK)
    })
    socket.on('end', () => socket.end())
  })
  await using origin = openOrigin(upstream.port)
  await ask(origin, request)
  return heard
}

test('a request is written as it was given, with one Host and one word on its connection', async () => {
  const headers = ['host', 'other.example', 'X-Latin', 'caf\xe9', 'x-latin', '', 'Content-Length', '0']
  assert.equal(
    await wireOf({ path: '/a?b=\xe9', headers }, '\r\n\r\n'),
    'GET /a?b=\xe9 HTTP/1.1\r\nhost: other.example\r\nconnection: keep-alive\r\nX-Latin: caf\xe9\r\nx-latin: \r\nContent-Length: 0\r\n\r\n',
  )
  assert.equal(await wireOf({ headers: [] }, '\r\n\r\n'), `GET / HTTP/1.1\r\nhost: ${HOST}\r\nconnection: keep-alive\r\n\r\n`)
})

for (const { what, request, wire } of [
  { what: 'POST without a body', request: { method: 'POST' }, wire: 'connection: keep-alive\r\ncontent-length: 0\r\n\r\n' },
  { what: 'HEAD, whose answer may be followed by a body,', request: { method: 'HEAD' }, wire: 'connection: close\r\n\r\n' },
  {
    what: 'a whole body',
    request: { method: 'POST', body: Buffer.from('a\xff', 'latin1') },
    wire: 'connection: keep-alive\r\ncontent-length: 2\r\n\r\na\xff',
  },
  {
    what: 'a streamed body of a length',
    request: { method: 'PUT', headers: ['host', HOST, 'content-length', '3'], body: Readable.from([Buffer.from('ab'), Buffer.from('c')]) },
    wire: 'connection: keep-alive\r\ncontent-length: 3\r\n\r\nabc',
  },
  {
    what: 'a streamed body without a length',
    request: { method: 'POST', body: Readable.from([Buffer.from('ab'), Buffer.from(''), Buffer.from('c'.repeat(17))]) },
    wire: `connection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n11\r\n${'c'.repeat(17)}\r\n0\r\n\r\n`,
  },
  {
    what: 'a streamed body with nothing in it',
    request: { method: 'POST', body: Readable.from([]) },
    wire: 'connection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  },
  {
    what: 'a body that GET does not usually have',
    request: { method: 'GET', body: Buffer.from('q') },
    wire: 'connection: close\r\ncontent-length: 1\r\n\r\nq',
  },
] as { what: string; request: Partial<UpstreamRequest>; wire: string }[]) {
  test(`${what} is framed exactly`, async () => {
    const heard = await wireOf({ headers: ['host', HOST], ...request }, wire.slice(-3))
    assert.equal(heard, `${request.method} / HTTP/1.1\r\nhost: ${HOST}\r\n${wire}`)
  })
}

test('bodies of all sizes arrive as they were sent, framed either way', async () => {
  let arrived = Buffer.alloc(0)
  await using upstream = await openUpstream((request, response) => {
    arrived = Buffer.from(request.body)
    response.end()
  })
  await using origin = openOrigin(upstream.port)
  for (const size of [1, LIMITS.joinedBytesMax, LIMITS.joinedBytesMax + 1, 3_000_000]) {
    const body = Buffer.alloc(size, 'abcdefg')
    const chunks = (): Readable => Readable.from([body.subarray(0, 1), body.subarray(1)])
    const length = ['host', HOST, 'content-length', `${size}`]
    for (const request of [{ body }, { body: chunks() }, { body: chunks(), headers: length }]) {
      const taker = take(origin, { method: 'POST', ...request })
      await taker.done.promise
      assert.deepEqual([arrived.equals(body), taker.bytesSent, taker.isSent], [true, size, true])
    }
  }
})

for (const { why, request } of [
  { why: 'a line in a value', request: { headers: ['x', 'a\r\nx-more: b'] } },
  { why: 'a line feed in a value', request: { headers: ['x', 'a\nb'] } },
  { why: 'a NUL in a value', request: { headers: ['x', 'a\0'] } },
  { why: 'a value beyond latin1', request: { headers: ['x', '\u010d\u010a'] } },
  { why: 'a line in a name', request: { headers: ['x\r\ny', 'a'] } },
  { why: 'a colon in a name', request: { headers: ['x:y', 'a'] } },
  { why: 'a name without a letter', request: { headers: ['', 'a'] } },
  { why: 'a space in the path', request: { path: '/ HTTP/1.1' } },
  { why: 'a line in the path', request: { path: '/\r\nx: y' } },
  { why: 'no path', request: { path: '' } },
  { why: 'a line in the method', request: { method: 'GET\r\n' } },
  { why: 'CONNECT', request: { method: 'CONNECT' } },
  { why: 'a second Host', request: { headers: ['host', 'a', 'Host', 'b'] } },
  { why: 'Transfer-Encoding', request: { headers: ['Transfer-Encoding', 'chunked'] } },
  { why: 'Connection', request: { headers: ['connection', 'close'] } },
  { why: 'Upgrade', request: { headers: ['Upgrade', 'h2c'] } },
  { why: 'two lengths', request: { headers: ['content-length', '0', 'Content-Length', '0'] } },
  { why: 'a length that is no number', request: { headers: ['content-length', '0x0'] } },
  { why: 'a length without a body', request: { headers: ['content-length', '1'] } },
  { why: 'another length than its body', request: { headers: ['content-length', '3'], body: Buffer.from('ab') } },
] as { why: string; request: Partial<UpstreamRequest> }[]) {
  test(`I10 a request with ${why} is not written, not a byte of it, and the connection serves on`, async () => {
    await using upstream = await openHttp1(echoPath)
    await using origin = openOrigin(upstream.port)
    await ask(origin, { path: '/1' })
    await assert.rejects(ask(origin, { headers: [], ...request }), { code: 'internal' })
    assert.equal(String((await ask(origin, { path: '/2' })).body), '/2')
    assert.deepEqual([upstream.connections, upstream.heads.length], [1, 2])
  })
}

for (const [what, chunks] of [
  ['longer', ['abc', 'defg']],
  ['shorter', ['abc']],
] as const) {
  test(`I10 a body that is ${what} than its length ends the connection: no byte too much, and no request behind it`, async () => {
    let heard = ''
    const closed = Promise.withResolvers<void>()
    await using upstream = await openRawUpstream((socket) => {
      socket.on('data', (chunk: Buffer) => (heard += String(chunk)))
      socket.on('close', () => closed.resolve())
    })
    await using origin = openOrigin(upstream.port)
    const body = Readable.from(chunks.map((text) => Buffer.from(text))).on('error', () => {})
    const taker = take(origin, { method: 'POST', headers: ['host', HOST, 'content-length', '5'], body })
    await assert.rejects(taker.done.promise, /too (long|short)/)
    await closed.promise
    assert.match(heard, /\r\n\r\n(abc)?$/)
    assert.deepEqual([taker.ends, body.destroyed, taker.isSent], [1, true, false])
  })
}

for (const how of ['fails', 'is destroyed'] as const) {
  test(`a body that ${how} on its way ends the connection, and the exchange with it`, async () => {
    const closed = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    await using upstream = await openRawUpstream((socket) => {
      socket.on('data', () => begun.resolve())
      socket.on('close', () => closed.resolve())
    })
    await using origin = openOrigin(upstream.port)
    const body = new PassThrough()
    const taker = take(origin, { method: 'POST', body })
    body.write('x')
    await begun.promise
    body.destroy(how === 'fails' ? new Error('gone') : undefined)
    await assert.rejects(taker.done.promise, how === 'fails' ? /gone/ : /broke off/)
    await closed.promise
  })
}

test('nothing is sent of a request whose body never begins, and one that fails while it waits is told at once', async () => {
  await using upstream = await openHttp1(echoPath)
  await using origin = openOrigin(upstream.port)
  await ask(origin)
  const body = new PassThrough()
  const taker = take(origin, { method: 'POST', body })
  await taker.started.promise
  body.destroy(new Error('gone'))
  await assert.rejects(taker.done.promise, /gone/)
  const early = new PassThrough()
  const waiting = take(origin, { method: 'POST', body: early })
  early.destroy(new Error('gone too'))
  await assert.rejects(waiting.done.promise, /gone too/)
  assert.equal(upstream.heads.length, 1)
  assert.equal(origin.isBusy, false)
})

test('a body is read only as fast as the upstream takes it', async () => {
  let peer: Socket | undefined
  await using upstream = await openRawUpstream((socket) => {
    peer = socket.pause()
  })
  await using origin = openOrigin(upstream.port)
  const total = 64 * 1024 * 1024
  let read = 0
  const body = new Readable({
    highWaterMark: 64 * 1024,
    read() {
      const isLast = read >= total
      if (!isLast) read += 65_536
      this.push(isLast ? null : Buffer.alloc(65_536))
    },
  })
  const taker = take(origin, { method: 'POST', body })
  await taker.started.promise
  // It stands still when the buffers of both ends are full.
  let last = -1
  while (last !== read) {
    last = read
    for (let i = 0; i < 50; i += 1) await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok(read > 0 && read < total / 2, `${read} of ${total} bytes were read`)
  peer?.on('data', () => {}).resume()
  await eventually(() => assert.equal(taker.isSent, true))
  peer?.end(OK)
  await taker.done.promise
})

test('I10 an answer that is whole before the request is: it arrives, and the connection carries nothing more', async () => {
  let sockets = 0
  await using upstream = await openRawUpstream((socket) => {
    sockets += 1
    socket.once('data', () => socket.write(sockets === 1 ? 'HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno' : OK))
    socket.on('end', () => socket.end())
  })
  await using origin = openOrigin(upstream.port)
  const body = new PassThrough()
  body.write('begun')
  const early = await ask(origin, { method: 'POST', body })
  assert.deepEqual([early.status, String(early.body), body.destroyed], [413, 'no', true])
  assert.equal((await ask(origin)).status, 200)
  assert.equal(sockets, 2)
})

test('I10 the same when the rest of a whole body waits for the upstream to read', async () => {
  const sockets: Socket[] = []
  await using upstream = await openRawUpstream((socket) => {
    sockets.push(socket.pause())
    socket.write(OK)
  })
  await using origin = openOrigin(upstream.port)
  assert.equal((await ask(origin, { method: 'POST', body: Buffer.alloc(32 * 1024 * 1024) })).status, 200)
  await ask(origin)
  assert.equal(sockets.length, 2)
})

test('an answer that goes on as long as the request does goes both ways at once', async () => {
  await using upstream = await openRawUpstream((socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      socket.on('data', (chunk: Buffer) => {
        const [, text] = String(chunk).split('\r\n')
        socket.write(text === '' ? '0\r\n\r\n' : `3\r\n<${text}>\r\n`)
      })
    })
  })
  await using origin = openOrigin(upstream.port)
  const body = new PassThrough()
  const taker = take(origin, { method: 'POST', body })
  body.write('-')
  await taker.answered.promise
  for (const letter of ['a', 'b', 'c']) {
    body.write(letter)
    await eventually(() => assert.ok(String(taker.answer.body).endsWith(`<${letter}>`)))
  }
  body.end()
  assert.equal(String((await taker.done.promise).body), '<a><b><c>')
})

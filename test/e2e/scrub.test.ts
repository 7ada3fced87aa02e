/**
 * Answers that are looked into arrive as alive as others: streams, events, messages and WebSockets, over both versions of HTTP, by
 * real clients. What is found in which spelling is `test/attack/echo.test.ts`.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request as requestHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import type { ClientHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import * as zlib from 'node:zlib'
import { credentials } from '@grpc/grpc-js'
import { WebSocket } from 'ws'
import { eventually } from '../support/eventually.ts'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { openGrpcClient, openGrpcUpstream, type GrpcUpstream, type Text } from '../support/grpc-upstream.ts'
import { openHttp2Agent } from '../support/http2-agent.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream, type StreamRequest } from '../support/http2-upstream.ts'
import { openTlsTunnel } from '../support/raw-client.ts'
import { createUpstreamCa, leafFor, type Upstream } from '../support/upstream.ts'
import { openWebSocketUpstream } from '../support/websocket-upstream.ts'

const CANARY = 'canary-51ab03d7ee'
const MARKS = '*'.repeat(CANARY.length)
const OLD = 'old.example.com'
const NEW = 'new.example.com'
const BLOCKED = 'blocked.example.com'
const SOCKET = 'socket.example.com'
const GRPC = 'grpc.example.com'
const HOSTS = [OLD, NEW, BLOCKED, SOCKET, GRPC] as const
type Host = (typeof HOSTS)[number]
const VERSIONS = ['HTTP/1.1', 'HTTP/2'] as const
type Version = (typeof VERSIONS)[number]

const parts = new AsyncDisposableStack()
const ports = new Map<Host, number>()
let gate: TestGate
let ca: string
let old: Http2Upstream
let socket: Upstream
let grpc: GrpcUpstream
/** What the upstreams answer now. */
let answer: (response: ServerResponse, secret: string, request: StreamRequest) => void

before(async () => {
  const authority = parts.use(await createUpstreamCa())
  const tls = (host: string) => leafFor(authority.authority, host)
  const answering = (request: StreamRequest, response: ServerResponse): void => {
    request.resume()
    answer(response, (request.headers.authorization ?? '').replace('Bearer ', ''), request)
  }
  old = parts.use(await openHttp2Upstream(tls(OLD), { protocols: ['http/1.1'], answer: answering }))
  const others = [NEW, BLOCKED] as const
  for (const host of others) ports.set(host, parts.use(await openHttp2Upstream(tls(host), { protocols: ['h2'], answer: answering })).port)
  socket = parts.use(await openWebSocketUpstream(tls(SOCKET)))
  grpc = parts.use(await openGrpcUpstream(tls(GRPC), { host: '127.0.0.1', port: 0 }))
  ports.set(OLD, old.port).set(SOCKET, socket.port).set(GRPC, grpc.port)
  gate = parts.use(
    await openTestGate({
      policy: policy(),
      env: { TOKEN: CANARY },
      upstreamCa: [authority.file],
      hosts: Object.fromEntries(HOSTS.map((host) => [host, ['127.0.0.1']])),
    }),
  )
  ca = await gate.caPem()
})
after(() => parts.disposeAsync())

function policy(): string {
  const rules = HOSTS.map((host) => {
    const scrub = host === BLOCKED ? ', scrub: block' : ''
    return `    - {id: ${host.split('.')[0]}, host: ${host}, ports: [${ports.get(host)}], action: allow, addresses: ["127.0.0.0/8"]${scrub}}\n`
  })
  return `version: 1
network:
  rules:
${rules.join('')}credentials:
  - {id: token, secret: TOKEN, inject: {domains: [${HOSTS.join(', ')}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: TOKEN, source: "env:TOKEN"}
`
}

type Reading = AsyncDisposable & {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: Readable
  /** All of the body; rejects when the answer breaks off. */
  whole(): Promise<Buffer>
  leave(): void
}

/** A request whose answer is read piece by piece, by Node's own clients. */
async function read(version: Version, host: Host, method = 'GET'): Promise<Reading> {
  const to = { port: gate.port, host, targetPort: ports.get(host) ?? 0, ca }
  if (version === 'HTTP/2') {
    const session = await openHttp2Agent(to)
    const stream: ClientHttp2Stream = session.request({ ':path': '/', ':method': method, 'accept-encoding': 'gzip, deflate, br, zstd' })
    const [headers] = (await once(stream, 'response')) as [Record<string, unknown>]
    return reading(Number(headers[':status']), headers, stream, () => session.destroy())
  }
  const connection = await openTlsTunnel(to.port, host, to.targetPort, ca)
  const headers = { host: `${host}:${to.targetPort}`, 'accept-encoding': 'gzip, deflate, br, zstd' }
  const request = requestHttp({ method, path: '/', headers, createConnection: () => connection })
  request.on('error', () => {})
  request.end()
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  return reading(response.statusCode ?? 0, response.headers, response, () => connection.destroy())
}

function reading(status: number, headers: Readonly<Record<string, unknown>>, body: Readable, leave: () => void): Reading {
  body.on('error', () => {})
  return {
    status,
    headers,
    body,
    whole: async () => Buffer.concat((await body.toArray()) as Buffer[]),
    leave,
    async [Symbol.asyncDispose]() {
      leave()
    },
  }
}

type Coding = {
  readonly name: string
  readonly compressor: () => zlib.Gzip | zlib.BrotliCompress | zlib.ZstdCompress
  readonly decompressor: () => zlib.Gunzip | zlib.BrotliDecompress | zlib.ZstdDecompress
  readonly flush: number
}

const CODINGS: readonly Coding[] = [
  { name: 'gzip', compressor: zlib.createGzip, decompressor: zlib.createGunzip, flush: 2 },
  { name: 'deflate', compressor: zlib.createDeflate, decompressor: zlib.createInflate, flush: 2 },
  { name: 'br', compressor: zlib.createBrotliCompress, decompressor: zlib.createBrotliDecompress, flush: 1 },
  { name: 'zstd', compressor: zlib.createZstdCompress, decompressor: zlib.createZstdDecompress, flush: 1 },
]

/** Each with both versions, from an upstream that speaks one of them. */
const PAIRS = VERSIONS.flatMap((version) => [OLD, NEW].map((host) => ({ version, host: host as Host })))

for (const { version, host } of PAIRS) {
  test(`events come over ${version} from ${host} one by one, each before the next is sent, cut in the middle of the secret`, async () => {
    const { promise, resolve } = Promise.withResolvers<[ServerResponse, string]>()
    answer = (response, secret) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.flushHeaders()
      resolve([response, secret])
    }
    await using got = await read(version, host)
    const [response, secret] = await promise
    assert.equal(secret, CANARY)
    const chunks = got.body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    for (const event of [`data: <${secret}>\n\n`, `data: ${secret.slice(0, 7)}\n\n`, 'data: c\r\n\r\n']) {
      response.write(event.slice(0, 12))
      response.write(event.slice(12))
      let text = ''
      while (text.length < event.length) text += String((await chunks.next()).value)
      assert.equal(text, event.replace(CANARY, MARKS))
    }
    response.end(`data: ${secret}`)
    let last = ''
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) last += String(next.value)
    assert.equal(last, `data: ${MARKS}`)
  })

  for (const { name, compressor, decompressor, flush } of CODINGS) {
    test(`events in ${name} come over ${version} from ${host} one by one, each before the next is sent`, async () => {
      const { promise, resolve } = Promise.withResolvers<[zlib.Gzip | zlib.BrotliCompress | zlib.ZstdCompress, string]>()
      answer = (response, secret) => {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': name })
        const stream = compressor()
        stream.pipe(response)
        resolve([stream, secret])
        stream.write(':\n\n')
        stream.flush(flush)
      }
      await using got = await read(version, host)
      assert.equal(got.headers['content-encoding'], name)
      const [stream, secret] = await promise
      const chunks = got.body.pipe(decompressor())[Symbol.asyncIterator]() as AsyncIterator<Buffer>
      assert.equal(String((await chunks.next()).value), ':\n\n')
      for (const event of [`data: <${secret}>\n\n`, `data: ${secret.slice(0, 7)}\n\n`]) {
        stream.write(event)
        stream.flush(flush)
        let text = ''
        while (text.length < event.length) text += String((await chunks.next()).value)
        assert.equal(text, event.replace(CANARY, MARKS))
      }
      stream.end()
      assert.equal((await chunks.next()).done, true)
    })
  }

  test(`20 MB in gzip arrive over ${version} from ${host} whole but for the secrets`, async () => {
    const block = Buffer.from(Array.from({ length: 4000 }, (_, i) => createHash('sha256').update(String(i)).digest('base64')).join('\n'))
    const expected = createHash('sha256')
    answer = (response, secret) => {
      response.writeHead(200, { 'content-encoding': 'gzip', etag: '"strong"' })
      const gzip = zlib.createGzip({ level: 1 })
      gzip.pipe(response)
      for (let i = 0; i < 120; i++) {
        gzip.write(block)
        gzip.write(secret)
        expected.update(block).update(MARKS)
      }
      gzip.end()
    }
    await using got = await read(version, host)
    const hash = createHash('sha256')
    for await (const chunk of got.body.pipe(zlib.createGunzip()) as AsyncIterable<Buffer>) hash.update(chunk)
    assert.equal(hash.digest('hex'), expected.digest('hex'))
    assert.deepEqual([got.headers['etag'], got.headers['content-length']], ['W/"strong"', undefined])
  })

  test(`a compressed answer that breaks off is broken off over ${version} from ${host}`, async () => {
    answer = (response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' })
      response.write(zlib.gzipSync(Buffer.from('half of it '.repeat(50_000))).subarray(0, 900), () => response.destroy())
    }
    // It may not even have begun.
    const got = await read(version, host)
    if (got.status === 200) await assert.rejects(got.whole())
    else assert.equal(got.status, 502)
    got.leave()
  })

  test(`an answer to HEAD and one of 304 end at once over ${version} from ${host}`, async () => {
    answer = (response, secret, { method }) => {
      response.writeHead(method === 'HEAD' ? 200 : 304, { 'content-encoding': 'br', etag: '"a"', 'x-echo': secret })
      response.end()
    }
    for (const method of ['HEAD', 'GET']) {
      await using got = await read(version, host, method)
      assert.equal((await got.whole()).length, 0)
      assert.deepEqual(
        [got.status, got.headers['etag'], got.headers['x-echo'], got.headers['content-length']],
        [method === 'HEAD' ? 200 : 304, 'W/"a"', MARKS, undefined],
      )
    }
  })

  test(`an agent that leaves a compressed answer over ${version} from ${host} ends it at the upstream, and in the audit`, async () => {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>()
    answer = (response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' })
      const gzip = zlib.createGzip({ level: 0 })
      gzip.pipe(response)
      const more = (): void => {
        while (gzip.write(Buffer.alloc(64 * 1024)));
      }
      gzip.on('drain', more)
      more()
      resolve(response)
    }
    const got = await read(version, host)
    const response = await promise
    await once(got.body, 'readable')
    const gone = once(response, 'close')
    got.leave()
    await gone
    await eventually(async () => {
      const last = (await gate.audit()).at(-1)
      assert.deepEqual([last?.['event'], last?.['code']], ['finished', 'agent_gone'])
    })
  })
}

for (const version of VERSIONS)
  test(`scrub: block breaks off an answer that is under way over ${version}, before the secret, and the audit says why`, async () => {
    const { promise, resolve } = Promise.withResolvers<() => void>()
    answer = (response, secret) => {
      response.writeHead(200, {})
      response.write('so far so good ')
      resolve(() => void response.end(`and ${secret}`))
    }
    await using got = await read(version, BLOCKED)
    assert.equal(String((await once(got.body, 'data'))[0]), 'so far so good ')
    const ended = got.whole()
    ;(await promise)()
    // What comes of the rest is not the end of an answer.
    const rest = await ended.catch((error: Error & { code?: string }) => error)
    assert.ok(rest instanceof Error)
    await eventually(async () => {
      const last = (await gate.audit()).at(-1)
      assert.deepEqual([last?.['event'], last?.['code'], last?.['scrubbed']], ['finished', 'secret_echoed', 1])
    })
  })

test('a WebSocket to a host with a credential carries messages, pings and its close without the secret, and no extension', async () => {
  const tunnel = await openTlsTunnel(gate.port, SOCKET, socket.port, ca)
  const raw: Buffer[] = []
  tunnel.on('data', (chunk: Buffer) => raw.push(chunk))
  const client = new WebSocket(`wss://${SOCKET}:${socket.port}/`, { perMessageDeflate: true, createConnection: () => tunnel })
  await once(client, 'open')
  const handshake = socket.requests.at(-1)
  assert.deepEqual(
    [client.extensions, headerOf(handshake, 'sec-websocket-extensions'), headerOf(handshake, 'authorization')],
    ['', undefined, `Bearer ${CANARY}`],
  )
  const big = `ü ${CANARY} ${'x'.repeat(3_000)}`.repeat(500)
  for (const text of [CANARY, `a ${CANARY} b`, CANARY.slice(0, -1), 'plain', big]) {
    client.send(text)
    const [data] = (await once(client, 'message')) as [Buffer]
    assert.equal(data.toString(), text.replaceAll(CANARY, MARKS))
  }
  client.ping(CANARY)
  assert.equal(String((await once(client, 'pong'))[0]), MARKS)
  client.send(`close 4000 ${CANARY}`)
  const [code, reason] = (await once(client, 'close')) as [number, Buffer]
  assert.deepEqual([code, reason.toString()], [4000, MARKS])
  assert.equal(Buffer.concat(raw).includes(CANARY), false)
  await eventually(async () => {
    const last = (await gate.audit()).at(-1)
    assert.deepEqual([last?.['event'], last?.['status'], last?.['code'], last?.['scrubbed']], ['finished', 101, undefined, 504])
  })
})

test('gRPC: each message of a talk arrives without the secret before the next is sent, and so do trailers and errors', async () => {
  process.env['grpc_proxy'] = `http://127.0.0.1:${gate.port}`
  using client = openGrpcClient(`${GRPC}:${grpc.port}`, credentials.createSsl(Buffer.from(ca)))
  delete process.env['grpc_proxy']
  const call = client.talk()
  for (const text of [CANARY, `${'x'.repeat(100_000)}${CANARY}`, CANARY.slice(0, -1), 'c', '']) {
    call.write(client.text(text, Buffer.from(CANARY)))
    const [message] = (await once(call, 'data')) as [Text]
    assert.deepEqual([message.text, message.data.toString()], [`${text.replace(CANARY, MARKS)}!`, MARKS])
  }
  call.end()
  await once(call.resume(), 'end')
  assert.deepEqual(grpc.calls.at(-1)?.metadata.get('authorization'), [`Bearer ${CANARY}`])
  const { message, trailers } = await client.unary('Say', client.text(CANARY))
  assert.deepEqual([message.text, trailers.get('x-echo')], [MARKS, ['Say']])
  const many: string[] = []
  for await (const one of client.repeat(client.text('50', Buffer.from(CANARY))) as AsyncIterable<Text>) many.push(one.data.toString())
  assert.deepEqual(
    many,
    Array.from({ length: 50 }, () => MARKS),
  )
})

test('neither the audit nor the log has the secret', async () => {
  assert.equal((await gate.auditText()).includes(CANARY), false)
  assert.equal(gate.log().includes(CANARY), false)
})

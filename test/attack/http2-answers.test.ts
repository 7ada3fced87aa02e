/** Answers of upstreams that HTTP/2 cannot say, or says in another way: none ends the process, the session or another stream. */
import assert from 'node:assert/strict'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { after, before, test } from 'node:test'
import { FLAG, TYPE, frame, headers, settings, fieldBlock } from '../support/http2-frames.ts'
import { askStream, openHttp2Agent, type Answered, type Towards } from '../support/http2-agent.ts'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { exchangeTls } from '../support/raw-client.ts'
import { API, policyFor } from '../support/setting.ts'
import { createUpstreamCa, leafFor, listenAsUpstream, type Upstream } from '../support/upstream.ts'

const parts = new AsyncDisposableStack()
let http1: Upstream
let http2: Upstream
let gate: TestGate
let ca: string
/** What the next answers are, by the path of the request. */
const answers = new Map<string, string>()

before(async () => {
  const { authority, file } = parts.use(await createUpstreamCa())
  const leaf = leafFor(authority, API)
  http1 = parts.use(await listenAsUpstream(createTlsServer({ ...leaf, ALPNProtocols: ['http/1.1'] }, serveHttp1), []))
  http2 = parts.use(await listenAsUpstream(createTlsServer({ ...leaf, ALPNProtocols: ['h2'] }, serveHttp2), []))
  gate = parts.use(
    await openTestGate({
      policy: policyFor([http1.port, http2.port], { inject: '' }),
      upstreamCa: [file],
      hosts: { [API]: ['127.0.0.1'] },
    }),
  )
  ca = await gate.caPem()
})
after(() => parts.disposeAsync())

const GOOD = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood'

function serveHttp1(socket: TLSSocket): void {
  socket.on('error', () => {})
  socket.on('data', (chunk: Buffer) => {
    const path = chunk.toString('latin1').split(' ')[1] ?? ''
    socket.write(Buffer.from(answers.get(path) ?? GOOD, 'latin1'))
  })
}

/** The paths come as literals here, as the gate never indexes them. */
function serveHttp2(socket: TLSSocket): void {
  socket.on('error', () => {})
  let buffer = Buffer.alloc(0)
  let isGreeted = false
  socket.write(settings())
  socket.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk])
    if (!isGreeted && buffer.length < 24) return
    if (!isGreeted) buffer = buffer.subarray(24)
    isGreeted = true
    while (buffer.length >= 9) {
      const end = 9 + buffer.readUIntBE(0, 3)
      if (buffer.length < end) return
      const [type, flags, stream] = [buffer[3], buffer[4] ?? 0, buffer.readUInt32BE(5)]
      buffer = buffer.subarray(end)
      if (type === TYPE.SETTINGS && (flags & FLAG.ACK) === 0) socket.write(frame(TYPE.SETTINGS, FLAG.ACK, 0))
      if (type === TYPE.HEADERS) socket.write(Buffer.concat(next(stream)))
    }
  })
}

let next: (stream: number) => Buffer[] = () => []

const to = (upstream: Upstream): Towards => ({ port: gate.port, host: API, targetPort: upstream.port, ca })

type Case = { readonly why: string; readonly bytes: string; readonly check: (answered: Answered) => void }

const is =
  (status: number, body = '') =>
  (answered: Answered): void =>
    assert.deepEqual([answered.status, answered.body, answered.rstCode], [status, body, 0])
const isInvalid = (answered: Answered): void => {
  assert.equal(answered.status, 502)
  assert.equal((JSON.parse(answered.body) as { code: string }).code, 'upstream_invalid')
}
const chunked = (trailers: string): string => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${trailers}\r\n\r\n`

const CASES: readonly Case[] = [
  {
    why: 'two Content-Type',
    bytes: 'HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 2\r\n\r\nok',
    check: (answered) => {
      is(200, 'ok')(answered)
      assert.deepEqual(answered.headers.slice(0, 4), ['content-type', 'a/b', 'content-type', 'c/d'])
    },
  },
  {
    why: 'two Date, Age, Etag and Location',
    bytes: `HTTP/1.1 200 OK\r\n${'Date: x\r\nAge: 1\r\nEtag: "1"\r\nLocation: /\r\n'.repeat(2)}Content-Length: 2\r\n\r\nok`,
    check: is(200, 'ok'),
  },
  {
    why: 'a header __proto__',
    bytes: 'HTTP/1.1 200 OK\r\n__proto__: x\r\nconstructor: y\r\nContent-Length: 2\r\n\r\nok',
    check: (answered) => {
      is(200, 'ok')(answered)
      assert.equal(headerOf({ rawHeaders: answered.headers }, '__proto__'), 'x')
    },
  },
  {
    why: 'a trailer __proto__',
    bytes: chunked('__proto__: x\r\nconstructor: y\r\nx-late: z'),
    check: (answered) => {
      is(200, 'ok')(answered)
      assert.equal(headerOf({ rawHeaders: answered.trailers }, 'x-late'), 'z')
    },
  },
  { why: 'two Date in trailers', bytes: chunked('Date: x\r\nDate: y\r\nEtag: 1\r\nEtag: 2'), check: is(200, 'ok') },
  {
    why: 'trailers that speak of the connection',
    bytes: chunked('Upgrade: h2c\r\nTE: gzip\r\nKeep-Alive: 1'),
    check: is(200, 'ok'),
  },
  {
    why: 'an interim answer with a header __proto__',
    bytes: `HTTP/1.1 103 Early Hints\r\n__proto__: x\r\nlink: </a>\r\nlink: </b>\r\n\r\n${GOOD}`,
    check: (answered) => {
      is(200, 'good')(answered)
      assert.equal(answered.interim[0]?.[':status'], 103)
    },
  },
  {
    why: 'an interim answer with a length',
    bytes: `HTTP/1.1 103 Early Hints\r\nContent-Length: 7\r\nlink: </a>\r\n\r\n${GOOD}`,
    check: is(200, 'good'),
  },
  { why: '102 and 199 before the answer', bytes: `HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 199 Odd\r\n\r\n${GOOD}`, check: is(200, 'good') },
  { why: 'a status 999', bytes: 'HTTP/1.1 999 Denied\r\nContent-Length: 2\r\n\r\nno', check: isInvalid },
  { why: 'a status 600', bytes: 'HTTP/1.1 600 Odd\r\nContent-Length: 2\r\n\r\nno', check: isInvalid },
  { why: '205 with a body', bytes: 'HTTP/1.1 205 Reset Content\r\nContent-Length: 4\r\n\r\nbody', check: is(205) },
  {
    why: '205 with a body in chunks',
    bytes: 'HTTP/1.1 205 Reset Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n',
    check: is(205),
  },
  { why: '204 with a length', bytes: 'HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n', check: is(204) },
  { why: '304 with the length of what it stands for', bytes: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 400\r\n\r\n', check: is(304) },
  { why: 'a control character in a header', bytes: 'HTTP/1.1 200 OK\r\nX: a\x01b\r\nContent-Length: 2\r\n\r\nok', check: isInvalid },
  {
    why: 'a control character in a trailer',
    bytes: chunked('x-late: a\x01b'),
    check: ({ status, rstCode }) => assert.ok(status === 502 || rstCode !== 0),
  },
  { why: 'a control character in an interim answer', bytes: `HTTP/1.1 103 Early Hints\r\nlink: a\x01b\r\n\r\n${GOOD}`, check: isInvalid },
  {
    why: 'white space around a value',
    bytes: 'HTTP/1.1 200 OK\r\nX-Space: \t a b \t \r\nContent-Length: 2\r\n\r\nok',
    check: (answered) => assert.equal(headerOf({ rawHeaders: answered.headers }, 'x-space'), 'a b'),
  },
  {
    why: 'a switch of protocols that nobody asked for',
    bytes: 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n',
    check: ({ status }) => assert.equal(status, 502),
  },
  { why: 'a Transfer-Encoding of gzip', bytes: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n', check: isInvalid },
  {
    why: 'Keep-Alive, Upgrade, Proxy-Connection and TE',
    bytes:
      'HTTP/1.1 200 OK\r\nKeep-Alive: 1\r\nUpgrade: h2c\r\nProxy-Connection: x\r\nTE: gzip\r\nHTTP2-Settings: AA\r\nContent-Length: 2\r\n\r\nok',
    check: is(200, 'ok'),
  },
]

for (const [i, { why, bytes, check }] of CASES.entries()) {
  test(`an HTTP/1.1 upstream’s answer with ${why} comes to an HTTP/2 agent as what it is, or as 502, and other streams go on`, async () => {
    answers.set(`/${i}`, bytes)
    using session = await openHttp2Agent(to(http1))
    check(await askStream(session, { ':path': `/${i}` }))
    is(200, 'good')(await askStream(session, { ':path': '/good' }))
  })
}

const GRPC = [
  [':status', '200'],
  ['content-type', 'application/grpc'],
] as const
const END = FLAG.END_HEADERS | FLAG.END_STREAM

test('a gRPC answer of trailers alone ends in its head for the agent too', async () => {
  next = (stream) => [headers(stream, [...GRPC, ['grpc-status', '7'], ['grpc-message', 'no']], END)]
  using session = await openHttp2Agent(to(http2))
  for (let n = 0; n < 20; n++) {
    const answered = await askStream(session, { ':path': '/svc/M', ':method': 'POST', te: 'trailers' }, 'x')
    assert.equal(answered.isHeadAll, true)
    assert.equal(headerOf({ rawHeaders: answered.headers }, 'grpc-status'), '7')
  }
})

test('gRPC’s status in the trailers stays there, behind the messages', async () => {
  next = (stream) => [
    headers(stream, GRPC),
    frame(TYPE.DATA, 0, stream, Buffer.from('message')),
    headers(stream, [['grpc-status', '0']], END),
  ]
  using session = await openHttp2Agent(to(http2))
  const answered = await askStream(session, { ':path': '/svc/M', ':method': 'POST', te: 'trailers' }, 'x')
  assert.deepEqual([answered.status, answered.body, answered.trailers], [200, 'message', ['grpc-status', '0']])
  assert.equal(headerOf({ rawHeaders: answered.headers }, 'grpc-status'), undefined)
})

for (const trailers of [
  [['__proto__', 'x']],
  [
    ['date', 'a'],
    ['date', 'b'],
  ],
  [
    ['content-type', 'a/b'],
    ['set-cookie', 'a=1'],
  ],
] as const) {
  test(`trailers of an HTTP/2 upstream with ${trailers.map(([name]) => name).join(' and ')} end nothing but their answer`, async () => {
    next = (stream) => [
      headers(stream, [[':status', '200']]),
      frame(TYPE.DATA, 0, stream, Buffer.from('ok')),
      headers(stream, trailers, END),
    ]
    using session = await openHttp2Agent(to(http2))
    is(200, 'ok')(await askStream(session, { ':path': '/' }))
    is(200, 'ok')(await askStream(session, { ':path': '/' }))
    assert.match(
      await exchangeTls(gate.port, API, http2.port, ca, `GET / HTTP/1.1\r\nHost: ${API}:${http2.port}\r\nConnection: close\r\n\r\n`),
      /^HTTP\/1\.1 200 [^]*ok/,
    )
  })
}

test('frames that tell of other ways to the service do not reach the agent', async () => {
  const altsvc = frame(TYPE.ALTSVC, 0, 0, Buffer.from(`\0\x15https://${API}h3=":443"`))
  const origin = frame(TYPE.ORIGIN, 0, 0, Buffer.from('\0\x19https://other.example.com'))
  next = (stream) => [
    altsvc,
    origin,
    headers(
      stream,
      [
        [':status', '200'],
        ['alt-svc', 'h3=":443"'],
      ],
      END,
    ),
  ]
  using session = await openHttp2Agent(to(http2))
  const told: unknown[] = []
  session.on('altsvc', (value) => told.push(value)).on('origin', (value) => told.push(value))
  const answered = await askStream(session, { ':path': '/' })
  assert.deepEqual([answered.status, answered.headers, told], [200, [], []])
})

test('an HTTP/2 upstream’s reset reaches the agent as a broken answer, before its head as 502', async () => {
  using session = await openHttp2Agent(to(http2))
  next = (stream) => [
    headers(stream, [[':status', '200']]),
    frame(TYPE.DATA, 0, stream, Buffer.from('ha')),
    frame(TYPE.RST_STREAM, 0, stream, Buffer.of(0, 0, 0, 2)),
  ]
  const half = await askStream(session, { ':path': '/' })
  assert.ok(half.rstCode !== 0 || half.status === 502, JSON.stringify(half))
  next = (stream) => [frame(TYPE.RST_STREAM, 0, stream, Buffer.of(0, 0, 0, 2))]
  assert.equal((await askStream(session, { ':path': '/' })).status, 502)
})

test('a pushed answer is refused, and the agent sees none', async () => {
  const promise = Buffer.concat([
    Buffer.of(0, 0, 0, 2),
    fieldBlock([
      [':method', 'GET'],
      [':scheme', 'https'],
      [':authority', API],
      [':path', '/pushed'],
    ]),
  ])
  next = (stream) => [frame(TYPE.PUSH_PROMISE, FLAG.END_HEADERS, stream, promise), headers(stream, [[':status', '200']], END)]
  using session = await openHttp2Agent(to(http2))
  let pushed = 0
  session.on('stream', () => (pushed += 1))
  assert.equal((await askStream(session, { ':path': '/' })).status, 502)
  assert.equal(pushed, 0)
})

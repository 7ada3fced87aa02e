/** Connections that know no proxy: where they lead is what their first bytes say, or nowhere. I2, I16 */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { after, before, test } from 'node:test'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import { clientHello, helloExtension, serverNameExtension } from '../support/client-hello.ts'
import { dialPort, dialSocks, openEveryWay, startTls, type EveryWay } from '../support/every-way.ts'
import { eventually } from '../support/eventually.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { exchangeRaw, readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'

const API = 'api.example.com'
const OTHER = 'other.example.com'
const DENIED = 'denied.example.net'
const PINNED = 'pinned.example.com'

const POLICY = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: other, host: ${OTHER}, action: allow, paths: ["/open"], addresses: ["127.0.0.0/8"]}
    - {id: pinned, host: ${PINNED}, action: allow, tls: passthrough, addresses: ["127.0.0.0/8"]}
credentials:
  - {id: api-token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let secure: Http2Upstream
let plain: Upstream
let other: Upstream
let oddPlain: Upstream
let oddSecure: Upstream
let pinned: Upstream

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [API, OTHER, PINNED, DENIED]))
  const { at, tls } = setting
  secure = parts.use(await openHttp2Upstream(tls(API), { place: at(API, 443) }))
  plain = parts.use(await openUpstream(undefined, undefined, at(API, 80)))
  other = parts.use(await openUpstream(undefined, undefined, at(OTHER, 80)))
  // The wrong protocol for the port, as the agent speaks it.
  oddPlain = parts.use(await openUpstream(undefined, undefined, at(OTHER, 443)))
  oddSecure = parts.use(await openUpstream(undefined, tls(PINNED), at(PINNED, 80)))
  pinned = parts.use(await openUpstream(undefined, tls(PINNED), at(PINNED, 443)))
})
after(() => parts.disposeAsync())

const connections = (): number =>
  [secure, plain, other, oddPlain, oddSecure, pinned].reduce((sum, upstream) => sum + upstream.connections, 0)

/** The same recognition stands behind SOCKS where a client names our own address. */
const WAYS = ['transparent', 'SOCKS5 by our address'] as const
type Blind = (typeof WAYS)[number]

function dial(way: Blind, port: 80 | 443): Promise<Socket> {
  if (way === 'SOCKS5 by our address') return dialSocks(setting.gate.ports.socks, Buffer.of(1, 127, 0, 0, 1), port)
  return dialPort(port === 80 ? setting.gate.ports.plain : setting.gate.ports.secure)
}

/** A socket whose client's first flight is sent in pieces, as the cutter gives them. */
async function dialInPieces(way: Blind, cut: (flight: Buffer) => Buffer[]): Promise<Duplex> {
  const socket = await dial(way, 443)
  let isFirst = true
  const through = new Duplex({
    read() {
      socket.resume()
    },
    write(chunk: Buffer, _encoding, done) {
      const pieces = isFirst ? cut(chunk) : [chunk]
      isFirst = false
      const next = (): void => {
        const piece = pieces.shift()
        // Each in a write of its own, when the one before has left.
        if (piece) socket.write(piece, () => setImmediate(next))
        else done()
      }
      next()
    },
    final: (done) => void socket.end(done),
    destroy(error, done) {
      socket.destroy()
      done(error)
    },
  })
  socket.on('data', (chunk: Buffer) => void (through.push(chunk) || socket.pause()))
  socket.on('end', () => through.push(null))
  socket.on('close', () => through.destroy())
  return through
}

const pieces =
  (size: number) =>
  (flight: Buffer): Buffer[] =>
    Array.from({ length: Math.ceil(flight.length / size) }, (_, i) => flight.subarray(i * size, (i + 1) * size))

/** One handshake message in many records (RFC 8446 §5.1), each of so many bytes. */
function inRecords(flight: Buffer, size: number): Buffer {
  return Buffer.concat(
    pieces(size)(flight.subarray(5)).map((part) =>
      Buffer.concat([flight.subarray(0, 3), Buffer.of(part.length >> 8, part.length & 255), part]),
    ),
  )
}

for (const way of WAYS) {
  for (const { what, cut } of [
    { what: 'byte by byte', cut: pieces(1) },
    { what: 'in pieces of five bytes', cut: pieces(5) },
    { what: 'in records of one byte', cut: (flight: Buffer) => [inRecords(flight, 1)] },
    { what: 'in records of 16 bytes, sent in pieces of 7', cut: (flight: Buffer) => pieces(7)(inRecords(flight, 16)) },
  ]) {
    test(`${way}: a real ClientHello that comes ${what} is routed by its server name, with the credential inside`, async () => {
      const socket = await dialInPieces(way, cut)
      const tls = connectTls({ socket, servername: API, ca: setting.ca })
      await once(tls, 'secureConnect')
      tls.write(`GET /pieces HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
      assert.equal(statusOf(await readToEnd(tls as never)), 200)
      assert.equal(headerOf(secure.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
    })
  }

  test(`${way}: a ClientHello of 16 KB with reserved extensions (GREASE) is read to its server name: allowed goes on, denied is told`, async () => {
    const grease = helloExtension(0x0a0a, Buffer.of(0))
    const padding = helloExtension(21, Buffer.alloc(15_800))
    for (const [host, alert] of [
      [DENIED, 49],
      // It is no whole handshake of TLS 1.2 or 1.3, so that our own TLS has something to say: another alert than ours.
      [API, undefined],
    ] as const) {
      const socket = await dial(way, 443)
      socket.write(clientHello([grease, padding, serverNameExtension(host), helloExtension(0x5a5a, Buffer.alloc(0))]))
      const answer = Buffer.from(await readToEnd(socket), 'latin1')
      if (alert === undefined) assert.ok((answer[0] === 21 || answer[0] === 22) && answer[6] !== 49, answer.toString('hex'))
      else assert.deepEqual([...answer], [21, 3, 3, 0, 2, 2, alert])
    }
  })

  for (const { what, extensions, alert, code, message } of [
    { what: 'names no host', extensions: [], alert: 112, code: 'server_name_missing', message: /TLS names no host \(SNI\)/ },
    {
      what: 'names its host in encrypted form only',
      extensions: [helloExtension(0xfe0d, Buffer.alloc(64))],
      alert: 112,
      code: 'server_name_missing',
      message: /in encrypted form only \(ECH\)/,
    },
    {
      what: 'names a host that no rule allows',
      extensions: [serverNameExtension(DENIED)],
      alert: 49,
      code: 'host_not_allowed',
      message: /denied\.example\.net/,
    },
    {
      what: 'names a host that no rule allows, beside an encrypted name',
      extensions: [serverNameExtension(DENIED), helloExtension(0xfe0d, Buffer.alloc(64))],
      alert: 49,
      code: 'host_not_allowed',
      message: /denied\.example\.net/,
    },
    {
      what: 'names an address',
      extensions: [serverNameExtension('127.0.0.1')],
      alert: 112,
      code: 'host_invalid',
      message: /it is an address/,
    },
    {
      what: 'names a host with a dot behind it',
      extensions: [serverNameExtension(`${API}.`)],
      alert: 112,
      code: 'host_invalid',
      message: /refused/,
    },
    {
      what: 'names a host with a NUL',
      extensions: [serverNameExtension(`${API}\0.evil.test`)],
      alert: 112,
      code: 'host_invalid',
      message: /refused/,
    },
    {
      what: 'names a host with a line end',
      extensions: [serverNameExtension(`${API}\r\nx`)],
      alert: 112,
      code: 'host_invalid',
      message: /refused/,
    },
  ]) {
    for (const port of [443, 80] as const) {
      test(`${way}: TLS to port ${port} that ${what} gets the alert ${alert} and a line in the audit: ${code}`, async () => {
        const known = (await setting.gate.audit()).length
        const count = connections()
        const socket = await dial(way, port)
        socket.write(clientHello(extensions))
        assert.deepEqual([...Buffer.from(await readToEnd(socket), 'latin1')], [21, 3, 3, 0, 2, 2, alert])
        const events = (await setting.gate.audit()).slice(known)
        const decided = events.find(({ event }) => event === 'decided')
        assert.deepEqual(
          [decided?.['decision'], decided?.['code'], decided?.['lane']],
          ['deny', code, way === 'transparent' ? 'transparent' : 'socks'],
        )
        await eventually(() => assert.match(setting.gate.log(), message))
        assert.equal(connections(), count)
      })
    }
  }

  for (const { what, bytes } of [
    { what: 'two server names', bytes: clientHello([serverNameExtension(API), serverNameExtension(DENIED)]) },
    { what: 'a length that lies', bytes: Buffer.concat([Buffer.of(22, 3, 1, 0, 5), Buffer.from('hello')]) },
    { what: 'an SSH greeting', bytes: Buffer.from('SSH-2.0-OpenSSH_9.6\r\n') },
    { what: 'zeroes', bytes: Buffer.alloc(64) },
    { what: 'HTTP/2 without TLS', bytes: Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n') },
    { what: 'a ClientHello without an end', bytes: Buffer.concat([Buffer.of(22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff), Buffer.alloc(40_000)]) },
  ]) {
    test(`I17 ${way}: a connection that begins with ${what} is closed without a word, with protocol_not_recognised in the audit`, async () => {
      const known = (await setting.gate.audit()).length
      for (const port of [80, 443] as const) {
        const socket = await dial(way, port)
        socket.write(bytes)
        assert.equal(await readToEnd(socket), '')
      }
      const codes = (await setting.gate.audit()).slice(known).flatMap((event) => (event['event'] === 'decided' ? [event['code']] : []))
      assert.deepEqual(codes, ['protocol_not_recognised', 'protocol_not_recognised'])
    })
  }

  test(`${way}: a connection that ends before it says anything leaves nothing, and the gate serves on`, async () => {
    for (const port of [80, 443] as const) {
      const socket = await dial(way, port)
      socket.end()
      assert.equal(await readToEnd(socket), '')
    }
    assert.equal(statusOf(await plainly(way, `GET / HTTP/1.1\r\nHost: ${API}\r\n`)), 200)
  })

  test(`I2 ${way}: inside TLS for one host a request for another is 421, also on HTTP/2, and nothing arrives there`, async () => {
    const count = secure.requests.length
    const known = connections()
    const tls = await secured(way, { servername: API })
    tls.write(`GET / HTTP/1.1\r\nHost: ${OTHER}\r\n\r\n`)
    assert.equal(statusOf(await readToEnd(tls)), 421)
    const h2 = await secured(way, { servername: API, ALPNProtocols: ['h2'] })
    const session = connectHttp2(`https://${API}`, { createConnection: () => h2 })
    const request = session.request({ ':authority': OTHER })
    const [headers] = (await once(request, 'response')) as [Record<string, unknown>]
    assert.equal(headers[':status'], 421)
    session.destroy()
    assert.equal(secure.requests.length, count)
    assert.equal(connections(), known)
  })

  test(`I2 ${way}: two hosts on one kept plain connection are each decided on: one goes with its credential, one without, one not`, async () => {
    const counts = [plain.requests.length, other.requests.length]
    const socket = await dial(way, 80)
    const answers: number[] = []
    for (const [host, path] of [
      [API, '/kept'],
      [OTHER, '/open'],
      [API, '/again'],
    ] as const) {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
      let text = ''
      while (!text.endsWith('ok')) text += String((await once(socket, 'data'))[0])
      answers.push(statusOf(text))
    }
    socket.write(`GET /kept HTTP/1.1\r\nHost: ${DENIED}\r\n\r\nGET /behind HTTP/1.1\r\nHost: ${API}\r\n\r\n`)
    answers.push(...[...(await readToEnd(socket)).matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => Number(match[1])))
    assert.deepEqual(answers, [200, 200, 200, 403])
    assert.deepEqual(
      plain.requests.slice(counts[0]).map((request) => [request.url, headerOf(request, 'authorization')]),
      [
        ['/kept', `Bearer ${CANARY}`],
        ['/again', `Bearer ${CANARY}`],
      ],
    )
    assert.deepEqual(
      other.requests.slice(counts[1]).map((request) => [request.url, headerOf(request, 'authorization')]),
      [['/open', undefined]],
    )
  })

  for (const { why, request, status, code } of [
    { why: 'another port in Host', request: `GET / HTTP/1.1\r\nHost: ${API}:8080\r\n`, status: 421, code: 'misdirected_request' },
    { why: 'the port of TLS in Host', request: `GET / HTTP/1.1\r\nHost: ${API}:443\r\n`, status: 421, code: 'misdirected_request' },
    { why: 'an address as Host', request: 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n', status: 403, code: 'host_not_allowed' },
    { why: 'a disguised address as Host', request: 'GET / HTTP/1.1\r\nHost: 0x7f.1\r\n', status: 400, code: 'host_invalid' },
    { why: 'no Host', request: 'GET / HTTP/1.1\r\n', status: 400, code: 'request_malformed' },
    { why: 'an empty Host', request: 'GET / HTTP/1.1\r\nHost:\r\n', status: 400, code: 'target_invalid' },
    { why: 'two Hosts', request: `GET / HTTP/1.1\r\nHost: ${API}\r\nHost: ${DENIED}\r\n`, status: 400, code: 'request_malformed' },
    {
      why: 'Host and a URL that differ',
      request: `GET http://${DENIED}/ HTTP/1.1\r\nHost: ${API}\r\n`,
      status: 421,
      code: 'misdirected_request',
    },
    {
      why: 'a URL of another scheme',
      request: `GET https://${API}/ HTTP/1.1\r\nHost: ${API}\r\n`,
      status: 421,
      code: 'misdirected_request',
    },
    { why: 'CONNECT', request: `CONNECT ${API}:443 HTTP/1.1\r\nHost: ${API}:443\r\n`, status: 405, code: 'method_refused' },
    { why: 'TRACE', request: `TRACE / HTTP/1.1\r\nHost: ${API}\r\n`, status: 405, code: 'method_refused' },
    {
      why: 'h2c',
      request: `GET / HTTP/1.1\r\nHost: ${API}\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n`,
      status: 501,
      code: 'upgrade_refused',
    },
    { why: 'the gate itself', request: 'GET /healthz HTTP/1.1\r\nHost: sallyport\r\n', status: 403, code: undefined },
  ]) {
    test(`I2 ${way}: plain HTTP with ${why} is ${status}, and nothing leaves`, async () => {
      const count = connections()
      const answer = await plainly(way, request)
      assert.equal(statusOf(answer), status)
      if (code !== undefined) assert.match(answer, new RegExp(`"code":"${code}"`))
      assert.equal(connections(), count)
    })
  }

  test(`${way}: a whole URL that agrees with Host is the same request`, async () => {
    assert.equal(statusOf(await plainly(way, `GET http://${API}/whole?x HTTP/1.1\r\nHost: ${API.toUpperCase()}\r\n`)), 200)
    assert.equal(plain.requests.at(-1)?.url, '/whole?x')
    assert.equal(headerOf(plain.requests.at(-1), 'host'), API)
  })

  test(`${way}: plain HTTP to port 443 goes there as plain HTTP, if its Host says so too`, async () => {
    const ask = async (host: string): Promise<string> => {
      const socket = await dial(way, 443)
      socket.write(`GET /open HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
      return readToEnd(socket)
    }
    assert.equal(statusOf(await ask(OTHER)), 421)
    assert.equal(oddPlain.requests.length, WAYS.indexOf(way))
    assert.equal(statusOf(await ask(`${OTHER}:443`)), 200)
    assert.equal(oddPlain.requests.length, WAYS.indexOf(way) + 1)
  })

  test(`I8 ${way}: a pinned client gets the upstream's own certificate, on port 80 too, and no credential`, async () => {
    for (const [port, upstream] of [
      [443, pinned],
      [80, oddSecure],
    ] as const) {
      const tls = await startTls(await dial(way, port), { servername: PINNED, rejectUnauthorized: false })
      assert.deepEqual(tls.getPeerX509Certificate()?.raw, new X509Certificate(setting.tls(PINNED).cert).raw)
      tls.write(`GET /pinned HTTP/1.1\r\nHost: ${PINNED}\r\nConnection: close\r\n\r\n`)
      assert.equal(statusOf(await readToEnd(tls)), 200)
      assert.deepEqual(upstream.requests.at(-1)?.rawHeaders, ['Host', PINNED, 'Connection', 'close'])
    }
  })
}

test('I1 the audit and the log of all this have no secret, and the log no line that a name made', async () => {
  assert.doesNotMatch((await setting.gate.auditText()) + setting.gate.log(), new RegExp(CANARY))
  for (const line of setting.gate.log().split('\n').filter(Boolean)) JSON.parse(line)
  assert.equal(statusOf(await exchangeRaw(setting.gate.ports.plain, `GET / HTTP/1.1\r\nHost: ${DENIED}\r\n\r\n`)), 403)
})

async function plainly(way: Blind, request: string): Promise<string> {
  const socket = await dial(way, 80)
  socket.write(`${request}${/Connection:/.test(request) ? '' : 'Connection: close\r\n'}\r\n`)
  return readToEnd(socket)
}

async function secured(way: Blind, options: ConnectionOptions): ReturnType<typeof startTls> {
  return startTls(await dial(way, 443), { ca: setting.ca, ...options })
}

/**
 * I10: where a request ends is the same for every part of the gate and the upstream, or the request is refused, by every way in.
 * Sources: RFC 9112 §6.3 and §11.2, CVE-2022-32213 to 32215, CVE-2023-30589, the corpus of http-desync research.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { APPROACHES, ask, named, readAnswer } from '../support/every-client.ts'
import { dialPort, EVERY_WAY, openEveryWay, routeTo, type EveryWay, type Way } from '../support/every-way.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream, type StreamRequest } from '../support/http2-upstream.ts'
import { exchangeOn, exchangeRaw, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { REFUSED, REFUSED_BODIES, SMUGGLED } from '../support/smuggling.ts'
import { openRawUpstream } from '../support/upstream.ts'

/** One upstream of each version of HTTP, and one whose bytes are looked at. */
const API = 'api.example.com'
const STREAMS = 'streams.example.com'
const RAW = 'raw.example.com'

const POLICY = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, addresses: ["127.0.0.0/8"]}
    - {id: streams, host: ${STREAMS}, action: allow, addresses: ["127.0.0.0/8"]}
    - {id: raw, host: ${RAW}, action: allow, addresses: ["127.0.0.0/8"]}
    - {id: secret, host: ${API}, paths: ["/secret"], action: deny}
routes:
${[API, STREAMS].map((host) => `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", credential: token, addresses: ["127.0.0.0/8"]}\n`).join('')}\
  - {name: ${routeTo('http', RAW)}, upstream: "http://${RAW}", addresses: ["127.0.0.0/8"]}
credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${API}, ${STREAMS}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let api: Http2Upstream
let streams: Http2Upstream
/** The target of each request whose body came to its end. */
const completed: string[] = []

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [API, STREAMS, RAW]))
  const { at, tls } = setting
  const answer = (request: StreamRequest, response: { end(text: string): unknown }): void => {
    request.on('end', () => {
      completed.push(request.url ?? '')
      response.end('ok')
    })
  }
  api = parts.use(await openHttp2Upstream(tls(API), { protocols: ['http/1.1'], answer, place: at(API, 443) }))
  streams = parts.use(await openHttp2Upstream(tls(STREAMS), { protocols: ['h2'], answer, place: at(STREAMS, 443) }))
})
after(() => parts.disposeAsync())

const UPSTREAMS = { [API]: () => api, [STREAMS]: () => streams } as const
type Host = keyof typeof UPSTREAMS
/** The bytes of requests to a host by a way: TARGET and HOST as that way has them, on one connection, and all that came back. */
async function exchange(way: Way, host: Host, bytes: string): Promise<string> {
  const { socket, target, authority } = await setting.open(way, 'https', host)
  return exchangeOn(
    socket,
    Buffer.from(bytes.replaceAll(/TARGET(\/\w+)?/g, (_all, path?: string) => target(path ?? '/')).replaceAll('HOST', authority), 'latin1'),
  )
}

for (const way of EVERY_WAY) {
  for (const [why, head, body = ''] of REFUSED) {
    test(`I10 ${way}: ${why} is refused, and no upstream gets the request or what follows it`, async () => {
      for (const host of [API, STREAMS] as const) {
        const { requests } = UPSTREAMS[host]()
        const count = requests.length
        const answer = await exchange(way, host, `${head}\r\n${body}${SMUGGLED}`)
        // Bytes after the head may break the connection before the answer is out: then there is none.
        assert.ok(answer === '' || (statusOf(answer) >= 400 && statusOf(answer) < 600), answer.slice(0, 100))
        assert.ok((answer.match(/HTTP\/1\.1 \d{3} /g)?.length ?? 0) <= 1, 'one answer at most, then the connection ends')
        assert.deepEqual(requests.slice(count), [])
      }
    })
  }

  for (const [why, body] of REFUSED_BODIES) {
    test(`I10 ${way}: a chunked body with ${why} never completes at an upstream, and nothing is smuggled`, async () => {
      for (const host of [API, STREAMS] as const) {
        const { requests } = UPSTREAMS[host]()
        const counts = [requests.length, completed.length]
        await exchange(way, host, `POST TARGET/first HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n${body}${SMUGGLED}`)
        assert.deepEqual(completed.slice(counts[1]), [])
        assert.ok(requests.slice(counts[0]).every(({ url }) => url === '/first'))
      }
    })
  }

  test(`I10 ${way}: requests that are pipelined past a body are each decided and audited by themselves`, async () => {
    const { requests } = api
    const count = requests.length
    const answer = await exchange(
      way,
      API,
      'POST TARGET/ok HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nbodyGET TARGET/secret HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n',
    )
    assert.deepEqual(
      [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]),
      ['200', '403'],
    )
    assert.deepEqual(
      requests.slice(count).map(({ url, body }) => `${url} ${body.toString()}`),
      ['/ok body'],
    )
  })

  for (const [why, head, body] of [
    ['a length', 'Content-Length: 4\r\n', 'body'],
    ['chunks', 'Transfer-Encoding: chunked\r\n', '4\r\nbody\r\n0\r\n\r\n'],
    [
      'chunks, named with more space before them and in capitals',
      'Transfer-Encoding: \t  CHUNKED  \r\n',
      '2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n',
    ],
    [
      'chunk extensions and trailers',
      'Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n',
      '4;ext=1\r\nbody\r\n0\r\nAuthorization: evil\r\nHost: evil\r\n\r\n',
    ],
  ] as const) {
    test(`I10 ${way}: a GET whose body has ${why} is framed the same for either upstream, and the next request begins behind it`, async () => {
      for (const host of [API, STREAMS] as const) {
        const { requests } = UPSTREAMS[host]()
        const count = requests.length
        await exchange(
          way,
          host,
          `GET TARGET/1 HTTP/1.1\r\nHost: HOST\r\n${head}\r\n${body}GET TARGET/2 HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n`,
        )
        const came = requests.slice(count)
        assert.deepEqual(
          came.map((request) => `${request.url} ${request.body.toString()}`),
          ['/1 body', '/2 '],
        )
        assert.doesNotMatch(JSON.stringify(came.map(({ rawHeaders, rawTrailers }) => [rawHeaders, rawTrailers])), /evil|ext=1|trailer/i)
      }
    })
  }

  test(`I10 ${way}: fields named by Connection go, but not Host, not the length, and not our credential`, async () => {
    for (const host of [API, STREAMS] as const) {
      await exchange(
        way,
        host,
        'POST TARGET/1 HTTP/1.1\r\nHost: HOST\r\nX-Hop: 1\r\nContent-Length: 4\r\nConnection: close, Host, X-Hop, Authorization, Content-Length\r\n\r\nbody',
      )
      const request = UPSTREAMS[host]().requests.at(-1)
      assert.equal(request?.authority, host)
      assert.equal(headerOf(request, 'authorization'), `Bearer ${CANARY}`)
      assert.equal(headerOf(request, 'content-length'), '4')
      assert.equal(headerOf(request, 'x-hop'), undefined)
      assert.equal(request?.body.toString(), 'body')
    }
  })
}

for (const approach of APPROACHES) {
  test(`I10 ${named(approach)}: a body that looks like a request is a body, at either upstream`, async () => {
    const body = `0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: ${API}\r\n\r\n`
    for (const host of [API, STREAMS] as const) {
      const { requests } = UPSTREAMS[host]()
      const count = requests.length
      assert.equal((await ask(setting, approach, { host, method: 'POST', path: '/body', body })).status, 200)
      assert.deepEqual(
        requests.slice(count).map((request) => [request.url, request.body.toString()]),
        [['/body', body]],
      )
    }
  })
}

test('I10 white space in the request line that the parser tolerates is not passed on', async () => {
  const lines: string[] = []
  await using upstream = await openRawUpstream(
    (socket) =>
      socket.once('data', (bytes: Buffer) => {
        lines.push(bytes.toString('latin1').split('\r\n')[0] ?? '')
        socket.end('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
      }),
    setting.at(RAW, 80),
  )
  for (const way of EVERY_WAY) {
    const { socket, target, authority } = await setting.open(way, 'http', RAW)
    const answer = readAnswer(
      Buffer.from(await exchangeOn(socket, `GET  ${target('/x')} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)),
    )
    assert.equal(answer.status, 204, way)
  }
  assert.deepEqual(
    lines,
    EVERY_WAY.map(() => 'GET /x HTTP/1.1'),
  )
  assert.equal(upstream.connections, EVERY_WAY.length)
})

for (const [why, bytes] of [
  ['empty lines only', '\r\n\r\n\r\n\r\n'],
  ['garbage', '\x00\x01\x02\x03\x04\r\n\r\n'],
  ['a TLS handshake', '\x16\x03\x01\x00\x05hello'],
  ['an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['HTTP/0.9', 'GET /\r\n\r\n'],
] as const) {
  test(`the proxy port and the gateway answer ${why} with an error or by closing, and go on`, async () => {
    const { port, ports } = setting.gate
    for (const at of [port, ports.gateway]) {
      const answer = await exchangeOn(await dialPort(at), `${bytes}x y z\r\n\r\n`)
      assert.ok(answer === '' || statusOf(answer) >= 400)
    }
    assert.equal((await ask(setting, { way: 'absolute form', version: 'HTTP/1.1' }, { host: API })).status, 200)
    assert.equal(statusOf(await exchangeRaw(ports.gateway, 'GET /healthz HTTP/1.1\r\nHost: sallyport\r\nConnection: close\r\n\r\n')), 200)
  })
}

/**
 * I2: on every connection, however it came to be and whatever is spoken on it, every request names the host that it leads to.
 * Sources: httpjail#57, microsandbox#709, #836 and #986, OpenShell#819, CVE-2022-24825.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { APPROACHES, ask, named } from '../support/every-client.ts'
import { CARRYING, dialPort, dialSocks, openEveryWay, routeTo, socksAddress, startTls, type EveryWay } from '../support/every-way.ts'
import { fateOf, getOf, speakFrames, whole } from '../support/http2-agent.ts'
import { TYPE } from '../support/http2-frames.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { bodyOf, exchangeOn, exchangeRaw, readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'

const API = 'api.example.com'
const OTHER = 'other.example.com'
const PINNED = 'pinned.example.com'
const EVIL = 'evil.example.net'

const policy = (more = ''): string => `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: other, host: ${OTHER}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: pinned, host: ${PINNED}, action: allow, tls: passthrough, addresses: ["127.0.0.0/8"]}
${more}routes:
  - {name: ${routeTo('https', API)}, upstream: "https://${API}", credential: token, addresses: ["127.0.0.0/8"]}
credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let secure: Http2Upstream
let other: Http2Upstream
let plain: Upstream
let otherPlain: Upstream
let pinned: Upstream

before(async () => {
  setting = parts.use(await openEveryWay(policy(), [API, OTHER, PINNED]))
  const { at, tls } = setting
  secure = parts.use(await openHttp2Upstream(tls(API), { place: at(API, 443) }))
  other = parts.use(await openHttp2Upstream(tls(OTHER), { place: at(OTHER, 443) }))
  plain = parts.use(await openUpstream(undefined, undefined, at(API, 80)))
  otherPlain = parts.use(await openUpstream(undefined, undefined, at(OTHER, 80)))
  pinned = parts.use(await openUpstream(undefined, tls(PINNED), at(PINNED, 443)))
})
after(() => parts.disposeAsync())

const all = (): readonly Upstream[] => [secure, other, plain, otherPlain, pinned]
const arrived = (): number => all().reduce((sum, { requests }) => sum + requests.length, 0)
const connections = (): number => all().reduce((sum, upstream) => sum + upstream.connections, 0)
const codeOf = (answer: string): string => (JSON.parse(bodyOf(answer)) as { code: string }).code
const statuses = (answers: string): number[] => [...answers.matchAll(/HTTP\/1\.1 (\d+) /g)].map((match) => Number(match[1]))

const HANDSHAKE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'

/** On a connection to API. `SCHEME` is its own. */
const ELSEWHERE = [
  { why: 'Host of another allowed host', request: `GET / HTTP/1.1\r\nHost: ${OTHER}\r\n`, code: 'misdirected_request' },
  { why: 'Host of a host that is not allowed', request: `GET / HTTP/1.1\r\nHost: ${EVIL}\r\n`, code: 'misdirected_request' },
  {
    why: 'a target of another allowed host (httpjail#57)',
    request: `GET SCHEME://${OTHER}/ HTTP/1.1\r\nHost: ${API}\r\n`,
    code: 'misdirected_request',
  },
  {
    why: 'a target of another host, and its Host',
    request: `GET SCHEME://${OTHER}/ HTTP/1.1\r\nHost: ${OTHER}\r\n`,
    code: 'misdirected_request',
  },
  { why: 'a target with a user', request: `GET SCHEME://${API}@${EVIL}/ HTTP/1.1\r\nHost: ${API}\r\n`, code: 'misdirected_request' },
  {
    why: 'a target with a user, of its own host',
    request: `GET SCHEME://me@${API}/ HTTP/1.1\r\nHost: ${API}\r\n`,
    code: 'misdirected_request',
  },
  { why: 'a target of another scheme', request: `GET ftp://${API}/ HTTP/1.1\r\nHost: ${API}\r\n`, code: 'target_invalid' },
  { why: 'two Host fields', request: `GET / HTTP/1.1\r\nHost: ${API}\r\nHost: ${OTHER}\r\n`, code: 'request_malformed' },
  { why: 'the same Host twice', request: `GET / HTTP/1.1\r\nHost: ${API}\r\nHost: ${API}\r\n`, code: 'request_malformed' },
  { why: 'no Host', request: 'GET / HTTP/1.1\r\n', code: 'request_malformed' },
  { why: 'an empty Host', request: 'GET / HTTP/1.1\r\nHost:\r\n', code: /misdirected_request|target_invalid/ },
  { why: 'two hosts in one Host', request: `GET / HTTP/1.1\r\nHost: ${API}, ${OTHER}\r\n`, code: /misdirected_request|host_invalid/ },
  { why: 'Host with a user', request: `GET / HTTP/1.1\r\nHost: me@${API}\r\n`, code: /misdirected_request|host_invalid/ },
  {
    why: 'Host with a dot behind it (CVE-2022-24825)',
    request: `GET / HTTP/1.1\r\nHost: ${API}.\r\n`,
    code: /misdirected_request|host_invalid/,
  },
  { why: 'Host with an odd port', request: `GET / HTTP/1.1\r\nHost: ${API}:8443\r\n`, code: 'misdirected_request' },
  { why: 'Host with the port of mail', request: `GET / HTTP/1.1\r\nHost: ${API}:25\r\n`, code: 'misdirected_request' },
  {
    why: 'a WebSocket handshake whose target is elsewhere',
    request: `GET SCHEME://${OTHER}/ HTTP/1.1\r\nHost: ${API}\r\n${HANDSHAKE}`,
    code: 'misdirected_request',
  },
  {
    why: 'a WebSocket handshake whose Host is elsewhere',
    request: `GET / HTTP/1.1\r\nHost: ${OTHER}\r\n${HANDSHAKE}`,
    code: 'misdirected_request',
  },
  { why: 'a CONNECT through it to another host', request: `CONNECT ${EVIL}:443 HTTP/1.1\r\nHost: ${EVIL}:443\r\n`, code: 'method_refused' },
  { why: 'a CONNECT through it to itself', request: `CONNECT ${API}:443 HTTP/1.1\r\nHost: ${API}:443\r\n`, code: 'method_refused' },
] as const

for (const way of CARRYING) {
  for (const scheme of ['https', 'http'] as const) {
    // Without a proxy and in plain text it is Host that says where it leads: test/attack/transparent.test.ts.
    if (scheme === 'http' && way !== 'CONNECT' && way !== 'SOCKS5') continue
    for (const { why, request, code } of ELSEWHERE) {
      test(`I2 ${way}, ${scheme}: ${why} is refused, and nothing arrives anywhere`, async () => {
        const count = connections()
        const { socket } = await setting.open(way, scheme, API)
        const bytes = request.replace('SCHEME', scheme)
        const answer = await exchangeOn(socket, `${bytes}${bytes.includes('Connection:') ? '' : 'Connection: close\r\n'}\r\n`)
        assert.match(codeOf(answer), typeof code === 'string' ? new RegExp(`^${code}$`) : code)
        assert.equal(connections(), count)
      })
    }
  }
}

type Row = { readonly why: string; readonly fields: [string, string][]; readonly becomes: string }
const get = getOf(API)
const replaced = (name: string, value: string): [string, string][] => get.map(([field, old]) => [field, field === name ? value : old])
const STREAMS: readonly Row[] = [
  { why: ':authority of another allowed host (microsandbox#986)', fields: replaced(':authority', OTHER), becomes: 'misdirected_request' },
  { why: ':authority of a host that is not allowed', fields: replaced(':authority', EVIL), becomes: 'misdirected_request' },
  { why: ':authority with another port', fields: replaced(':authority', `${API}:8443`), becomes: 'misdirected_request' },
  { why: ':authority with a user', fields: replaced(':authority', `me@${API}`), becomes: 'reset' },
  { why: ':authority with a dot behind it', fields: replaced(':authority', `${API}.`), becomes: 'misdirected_request' },
  { why: ':authority with a line end', fields: replaced(':authority', `${API}\r\nhost: ${OTHER}`), becomes: 'reset' },
  { why: ':authority with a NUL', fields: replaced(':authority', `${API}\0.${EVIL}`), becomes: 'reset' },
  { why: 'an empty :authority', fields: replaced(':authority', ''), becomes: 'reset' },
  { why: 'no :authority and no host', fields: get.filter(([name]) => name !== ':authority'), becomes: 'reset' },
  { why: 'two :authority', fields: [...get, [':authority', OTHER]], becomes: 'reset' },
  { why: 'a host that is not its :authority', fields: [...get, ['host', OTHER]], becomes: 'request_malformed' },
  { why: 'a host that is its :authority', fields: [...get, ['host', API]], becomes: 'answered' },
  {
    why: 'a host of another host alone',
    fields: [...get.filter(([name]) => name !== ':authority'), ['host', OTHER]],
    becomes: 'misdirected_request',
  },
  { why: ':scheme http in TLS', fields: replaced(':scheme', 'http'), becomes: 'misdirected_request' },
  { why: ':scheme of another protocol', fields: replaced(':scheme', 'ftp'), becomes: 'misdirected_request' },
  { why: ':scheme with a line end', fields: replaced(':scheme', 'https\r\nx: y'), becomes: 'reset' },
  { why: 'a :path that is a URL of another host', fields: replaced(':path', `https://${OTHER}/`), becomes: 'reset' },
  {
    why: 'CONNECT to another host',
    fields: [
      [':method', 'CONNECT'],
      [':authority', `${EVIL}:443`],
    ],
    becomes: 'method_refused',
  },
  {
    why: 'CONNECT to its own host',
    fields: [
      [':method', 'CONNECT'],
      [':authority', `${API}:443`],
    ],
    becomes: 'method_refused',
  },
  {
    why: 'extended CONNECT, which was not offered',
    fields: [...replaced(':method', 'CONNECT'), [':protocol', 'websocket']],
    becomes: 'reset',
  },
]

for (const way of CARRYING) {
  for (const { why, fields, becomes } of STREAMS) {
    test(`I2 I22 ${way}, HTTP/2: a stream with ${why} is ${becomes}, and the next one is served`, async () => {
      const count = arrived()
      using agent = speakFrames(await setting.dialTls(way, API, 443, { ALPNProtocols: ['h2'] }))
      agent.send(whole(1, fields))
      assert.equal(await fateOf(agent), becomes)
      const served = becomes === 'answered' ? 1 : 0
      assert.equal(arrived(), count + served)
      agent.send(whole(3, get))
      await agent.until(({ stream, type }) => stream === 3 && type === TYPE.HEADERS)
      assert.equal(arrived(), count + served + 1)
      assert.equal(headerOf(secure.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
    })
  }
}

for (const way of CARRYING) {
  test(`I2 ${way}: a second request for another host on a kept connection is refused, the first was served (OpenShell#819)`, async () => {
    const { socket } = await setting.open(way, 'https', API)
    const counts = [secure.requests.length, other.connections]
    const answers = await exchangeOn(
      socket,
      `GET /1 HTTP/1.1\r\nHost: ${API}\r\n\r\nGET /2 HTTP/1.1\r\nHost: ${OTHER}\r\n\r\nGET /3 HTTP/1.1\r\nHost: ${API}\r\n\r\n`,
    )
    assert.deepEqual(statuses(answers), [200, 421])
    assert.deepEqual(
      secure.requests.slice(counts[0]).map(({ url }) => url),
      ['/1'],
    )
    assert.equal(other.connections, counts[1])
  })

  test(`I2 ${way}: of a hundred streams every second one for another host, those are refused and the rest served`, async () => {
    const count = arrived()
    using agent = speakFrames(await setting.dialTls(way, API, 443, { ALPNProtocols: ['h2'] }))
    const ids = Array.from({ length: 100 }, (_, i) => i * 2 + 1)
    agent.send(...ids.map((id, i) => whole(id, getOf(i % 2 === 0 ? API : OTHER, `/${id}`))))
    const fates = await Promise.all(ids.map((id) => fateOf(agent, id)))
    assert.deepEqual(
      fates,
      ids.map((_, i) => (i % 2 === 0 ? 'answered' : 'misdirected_request')),
    )
    assert.equal(arrived(), count + 50)
  })
}

test('I2 at the proxy each request of a kept connection is decided by itself: one with its credential, one without, one not at all', async () => {
  const counts = [plain.requests.length, otherPlain.requests.length]
  const asked = [API, OTHER, API, EVIL].map((host, i) => `GET http://${host}/${i} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  const socket = await dialPort(setting.gate.port)
  assert.deepEqual(statuses(await exchangeOn(socket, asked.join(''))), [200, 200, 200, 403])
  const carried = (requests: Upstream['requests'], from = 0): unknown[] =>
    requests.slice(from).map((request) => [request.url, headerOf(request, 'authorization')])
  assert.deepEqual(carried(plain.requests, counts[0]), [
    ['/0', `Bearer ${CANARY}`],
    ['/2', `Bearer ${CANARY}`],
  ])
  assert.deepEqual(carried(otherPlain.requests, counts[1]), [['/1', undefined]])
})

for (const approach of APPROACHES) {
  if (approach.way === 'route') continue
  test(`I2 ${named(approach)}: a host in upper case is the same host, and the upstream is told the canonical one`, async () => {
    assert.equal((await ask(setting, approach, { host: API.toUpperCase(), path: '/case' })).status, 200)
    assert.deepEqual([secure.requests.at(-1)?.url, secure.requests.at(-1)?.authority], ['/case', API])
  })
}

for (const way of ['CONNECT', 'SOCKS5'] as const) {
  for (const [host, servername] of [
    [API, OTHER],
    [API, EVIL],
    [API, PINNED],
    [PINNED, API],
    [PINNED, `x.${PINNED}`],
  ] as const) {
    test(`I2 ${way} to ${host} with the server name ${servername} is closed, and no upstream is connected to (microsandbox#709)`, async () => {
      const since = (await setting.gate.audit()).length
      const count = connections()
      await assert.rejects(setting.dialTls(way, host, 443, { servername, rejectUnauthorized: false }))
      assert.equal(connections(), count)
      await eventually(async () =>
        assert.ok((await setting.gate.audit()).slice(since).some(({ code, decision }) => code === 'sni_mismatch' && decision === 'deny')),
      )
    })
  }

  for (const port of [22, 25, 465, 587, 53, 853, 2375, 3128, 6379, 65_535]) {
    test(`I2 ${way} to port ${port} of an allowed host is refused: no rule has it`, async () => {
      const count = connections()
      await assert.rejects(setting.dial(way, API, port), /HTTP 403|SOCKS 2/)
      assert.equal(connections(), count)
    })
  }
}

test('I2 a connection to an address with the server name of an allowed host is closed, though a rule allows the address too', async () => {
  const address = setting.at(API, 443).host
  assert.ok(await setting.gate.setPolicy(policy(`    - {id: address, host: ${address}, action: allow, addresses: ["${address}/32"]}\n`)))
  try {
    const count = connections()
    const dials: Record<string, () => ReturnType<typeof dialPort>> = {
      CONNECT: () => setting.dial('CONNECT', address, 443),
      'a SOCKS name': () => setting.dial('SOCKS5', address, 443),
      'a SOCKS address': () => dialSocks(setting.gate.ports.socks, socksAddress(address), 443),
    }
    for (const [what, dial] of Object.entries(dials))
      await assert.rejects(startTls(await dial(), { servername: API, rejectUnauthorized: false }), /closed|alert/, what)
    assert.equal(connections(), count)
  } finally {
    await setting.gate.setPolicy(policy())
  }
})

for (const [what, lines] of [
  ['two Host fields', `Host: ${API}\r\nHost: ${EVIL}\r\n`],
  ['the same Host twice', `Host: ${API}\r\nHost: ${API}\r\n`],
  ['a Host that is no field', `Host ${API}\r\n`],
] as const) {
  test(`I2 ${what} at the proxy and at a route: refused, and nothing arrives`, async () => {
    const count = connections()
    for (const [port, target] of [
      [setting.gate.port, `http://${API}/`],
      [setting.gate.ports.gateway, `/route/${routeTo('https', API)}/`],
    ] as const) {
      const status = statusOf(await exchangeRaw(port, `GET ${target} HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`))
      assert.ok(status >= 400 && status < 500, String(status))
    }
    assert.equal(connections(), count)
  })
}

test('I20 a second request on a kept connection to a route leads where it says, and to no host that it names', async () => {
  const socket = await dialPort(setting.gate.ports.gateway)
  const count = connections()
  const route = `/route/${routeTo('https', API)}`
  const answers = readToEnd(socket)
  socket.write(
    `GET ${route}/1 HTTP/1.1\r\nHost: sallyport\r\n\r\nGET http://${OTHER}/ HTTP/1.1\r\nHost: ${OTHER}\r\nConnection: close\r\n\r\n`,
  )
  const [first, second = 0] = statuses(await answers)
  assert.equal(first, 200)
  assert.ok(second >= 400)
  assert.equal(secure.requests.at(-1)?.url, '/1')
  assert.ok(connections() <= count + 1)
})

/** The lease of the session (`network.lease: required`): who does not show it gets nothing, and it goes no further than the gate. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { SallyportError } from '../../src/kernel/errors.ts'
import { leaseOf } from '../../src/cli/gate.ts'
import { eventually } from '../support/eventually.ts'
import { dialPort, openEveryWay, readBytes, socksName, startTls, type EveryWay } from '../support/every-way.ts'
import { openTestGate } from '../support/gate.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { bodyOf, exchangeRaw, readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { openRawUpstream, openUpstream, type Upstream } from '../support/upstream.ts'

const API = 'api.example.com'
const OPEN = 'open.example.com'
const PINNED = 'pinned.example.com'
const MAIL = 'mail.example.com'
const LEASE = 'lease-5d0c77e1b2a94f'
const ENV = { API_TOKEN: CANARY, SALLYPORT_LEASE: LEASE }
const { checkLease } = leaseOf({ env: ENV } as never)
assert.ok(checkLease)

const policy = (lease: 'required' | 'optional'): string => `version: 1
network:
  lease: ${lease}
  rules:
    - {id: api, host: ${API}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: open, host: ${OPEN}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: pinned, host: ${PINNED}, action: allow, tls: passthrough, addresses: ["127.0.0.0/8"]}
    - {id: mail, host: ${MAIL}, ports: [25], protocol: tcp, action: allow, addresses: ["127.0.0.0/8"]}
routes:
  - {name: api, upstream: "http://${API}", credential: api-token, plaintext: accept, addresses: ["127.0.0.0/8"]}
  - {name: open, upstream: "http://${OPEN}", addresses: ["127.0.0.0/8"]}
credentials:
  - {id: api-token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let plain: Upstream
let open: Upstream
let secure: Http2Upstream
let pinned: Upstream
let mail: Upstream

before(async () => {
  setting = parts.use(await openEveryWay(policy('required'), [API, OPEN, PINNED, MAIL], { env: ENV, config: { checkLease } }))
  plain = parts.use(await openUpstream(undefined, undefined, setting.at(API, 80)))
  open = parts.use(await openUpstream(undefined, undefined, setting.at(OPEN, 80)))
  secure = parts.use(await openHttp2Upstream(setting.tls(API), { place: setting.at(API, 443) }))
  pinned = parts.use(await openUpstream(undefined, setting.tls(PINNED), setting.at(PINNED, 443)))
  mail = parts.use(await openRawUpstream((socket) => socket.write('220\r\n'), setting.at(MAIL, 25)))
})
after(() => parts.disposeAsync())

const basic = (user: string, password: string): string => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
const connections = (): number => plain.connections + open.connections + secure.connections + pinned.connections + mail.connections

const SHOWN = [
  { why: 'as the password of any user', header: basic('agent', LEASE) },
  { why: 'as the password of nobody', header: basic('', LEASE) },
  { why: 'as a bearer token', header: `Bearer ${LEASE}` },
]
const NOT_SHOWN = [
  { why: 'no field for it', header: undefined },
  { why: 'an empty password', header: basic('agent', '') },
  { why: 'another one', header: basic('agent', `${LEASE}x`) },
  { why: 'the beginning of it', header: `Bearer ${LEASE.slice(0, -1)}` },
  { why: 'it as the user', header: basic(LEASE, '') },
  { why: 'it in another case', header: `Bearer ${LEASE.toUpperCase()}` },
  { why: 'Basic that is not base64', header: 'Basic ÿÿÿ' },
  { why: 'the secret of a host', header: `Bearer ${CANARY}` },
]

for (const { why, header } of NOT_SHOWN) {
  const field = header === undefined ? '' : `Proxy-Authorization: ${header}\r\n`
  for (const [form, request] of [
    ['a request', `GET http://${API}/v1/me HTTP/1.1\r\nHost: ${API}\r\n`],
    // The field of the upstream's own credential is not where the proxy looks.
    ['a request with it in Authorization', `GET http://${API}/v1/me HTTP/1.1\r\nHost: ${API}\r\nAuthorization: Bearer ${LEASE}\r\n`],
    ['a CONNECT', `CONNECT ${API}:443 HTTP/1.1\r\nHost: ${API}:443\r\n`],
    ['a CONNECT that is malformed', `CONNECT ${API} HTTP/1.1\r\nHost: ${API}\r\n`],
    ['a request to a host that no rule names', 'GET http://unknown.example.net/ HTTP/1.1\r\nHost: unknown.example.net\r\n'],
  ] as const) {
    test(`${form} that shows ${why} is answered 407 and how to show the lease, before anything else is said of it`, async () => {
      const count = connections()
      const answer = await exchangeRaw(setting.gate.port, `${request}${field}\r\n`)
      assert.equal(statusOf(answer), 407)
      assert.match(answer, /^proxy-authenticate: Basic realm="sallyport", charset="UTF-8"\r$/im)
      assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'lease_required')
      assert.equal(connections(), count)
    })
  }
}

for (const { why, header } of SHOWN) {
  test(`a request that shows the lease ${why} is served, and the upstream gets none of it`, async () => {
    const answer = await exchangeRaw(
      setting.gate.port,
      `GET http://${API}/v1/me HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\nProxy-Authorization: ${header}\r\n\r\n`,
    )
    assert.equal(statusOf(answer), 200)
    const request = plain.requests.at(-1)
    assert.equal(headerOf(request, 'proxy-authorization'), undefined)
    assert.equal(headerOf(request, 'authorization'), `Bearer ${CANARY}`)
  })

  test(`a CONNECT that shows the lease ${why} opens a tunnel, in which each request is served without it`, async () => {
    const socket = await dialPort(setting.gate.port)
    socket.write(`CONNECT ${API}:443 HTTP/1.1\r\nHost: ${API}:443\r\nProxy-Authorization: ${header}\r\n\r\n`)
    assert.match((await readBytes(socket, 39)).toString(), /^HTTP\/1\.1 200 /)
    const tls = await startTls(socket, { servername: API, ca: setting.ca })
    tls.write(`GET /v1/me HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
    assert.equal(statusOf(await readToEnd(tls)), 200)
  })
}

/** What a SOCKS client is told up to the reply to its request, byte by byte. */
async function socks(methods: readonly number[], password: string | undefined, address: Buffer, port: number): Promise<number[]> {
  const socket = await dialPort(setting.gate.ports.socks)
  const message = Buffer.from(password ?? '')
  socket.write(
    Buffer.concat([
      Buffer.of(5, methods.length, ...methods),
      ...(password === undefined ? [] : [Buffer.of(1, 1, 0x78, message.length), message]),
      Buffer.of(5, 1, 0),
      address,
      Buffer.of(port >> 8, port & 255),
    ]),
  )
  const said = await readBytes(socket, 6)
  socket.destroy()
  return [...said]
}

for (const { why, methods, password, said } of [
  { why: 'offers no password', methods: [0], password: undefined, said: [5, 255] },
  { why: 'offers no password, though it sends one', methods: [0], password: LEASE, said: [5, 255] },
  { why: 'has another password', methods: [0, 2], password: 'wrong', said: [5, 2, 1, 1] },
  { why: 'has an empty password', methods: [2], password: '', said: [5, 2, 1, 1] },
  { why: 'has the lease with a byte behind it', methods: [2], password: `${LEASE}\0`, said: [5, 2, 1, 1] },
  { why: 'has the lease', methods: [0, 2], password: LEASE, said: [5, 2, 1, 0, 5, 0] },
]) {
  test(`a SOCKS client that ${why} is answered ${said.join(' ')}`, async () => {
    const count = connections()
    assert.deepEqual(await socks(methods, password, socksName(API), 443), said)
    assert.equal(connections(), count)
  })
}

test('tcp by SOCKS needs the lease too: without it nobody is connected to, with it the greeting comes', async () => {
  const count = mail.connections
  assert.deepEqual(await socks([0], undefined, socksName(MAIL), 25), [5, 255])
  assert.equal(mail.connections, count)
  assert.deepEqual(await socks([2], LEASE, socksName(MAIL), 25), [5, 2, 1, 0, 5, 0])
  assert.equal(mail.connections, count + 1)
})

test('no connection that knows no proxy is carried, as it has no place for the lease: HTTP is told so, TLS by an alert', async () => {
  const count = connections()
  const answer = await exchangeRaw(
    setting.gate.ports.plain,
    `GET / HTTP/1.1\r\nHost: ${API}\r\nProxy-Authorization: Bearer ${LEASE}\r\n\r\n`,
  )
  assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'lease_required')
  for (const host of [API, PINNED]) await assert.rejects(setting.dialTls('transparent', host), { said: 'alert 49' })
  assert.equal(connections(), count)
  const refused = (await setting.gate.audit()).filter((event) => event['code'] === 'lease_required' && event['event'] === 'decided')
  assert.deepEqual(
    refused.slice(-2).map((event) => [event['lane'], event['host'], event['port'], event['decision']]),
    [API, PINNED].map((host) => ['transparent', host, 443, 'deny']),
  )
})

test('a SOCKS client that names our own address has shown the lease, and its server name says where it goes', async () => {
  const socket = await dialPort(setting.gate.ports.socks)
  const password = Buffer.from(LEASE)
  socket.write(Buffer.concat([Buffer.of(5, 1, 2, 1, 1, 0x78, password.length), password, Buffer.of(5, 1, 0, 1, 127, 0, 0, 1, 1, 187)]))
  assert.deepEqual([...(await readBytes(socket, 14))].slice(0, 6), [5, 2, 1, 0, 5, 0])
  const tls = await startTls(socket, { servername: API, ca: setting.ca })
  tls.write(`GET / HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(tls)), 200)
})

for (const field of ['Authorization', 'X-Api-Key', 'Api-Key', 'X-Goog-Api-Key', 'aUTHORIZATION']) {
  for (const route of ['api', 'open'] as const) {
    test(`I1 a route takes the lease in ${field} and the upstream of "${route}" gets none of it`, async () => {
      const value = field.toLowerCase() === 'authorization' ? `Bearer ${LEASE}` : LEASE
      const upstream = route === 'api' ? plain : open
      const answer = await exchangeRaw(
        setting.gate.ports.gateway,
        `GET /route/${route}/v1/me HTTP/1.1\r\nHost: sallyport:7070\r\n${field}: ${value}\r\nX-Own: kept\r\nConnection: close\r\n\r\n`,
      )
      assert.equal(statusOf(answer), 200)
      const request = upstream.requests.at(-1)
      assert.doesNotMatch((request?.rawHeaders ?? []).join('\n'), /lease-/)
      assert.equal(headerOf(request, 'x-own'), 'kept')
      assert.equal(headerOf(request, 'authorization'), route === 'api' ? `Bearer ${CANARY}` : undefined)
    })
  }
}

test('a key of its own that the agent sends beside the lease to a route without a credential goes on', async () => {
  const answer = await exchangeRaw(
    setting.gate.ports.gateway,
    `GET /route/open/ HTTP/1.1\r\nHost: sallyport\r\nX-Api-Key: ${LEASE}\r\nAuthorization: Bearer own\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 200)
  assert.equal(headerOf(open.requests.at(-1), 'authorization'), 'Bearer own')
})

for (const [why, field] of [
  ['nothing', ''],
  ['a wrong key', 'Authorization: Bearer wrong\r\n'],
  ['it where proxies have theirs', `Proxy-Authorization: Bearer ${LEASE}\r\n`],
  ['it in a cookie', `Cookie: lease=${LEASE}\r\n`],
] as const) {
  test(`a route that is shown ${why} answers lease_required, also for a name that is no route`, async () => {
    const count = connections()
    for (const name of ['api', 'none']) {
      const answer = await exchangeRaw(setting.gate.ports.gateway, `GET /route/${name}/v1 HTTP/1.1\r\nHost: sallyport\r\n${field}\r\n`)
      assert.equal(statusOf(answer), 407)
    }
    assert.equal(connections(), count)
  })
}

test('/healthz and /ca.crt need no lease', async () => {
  for (const path of ['/healthz', '/ca.crt']) {
    const answer = await exchangeRaw(setting.gate.ports.gateway, `GET ${path} HTTP/1.1\r\nHost: sallyport\r\nConnection: close\r\n\r\n`)
    assert.equal(statusOf(answer), 200)
  }
})

test('I18 a policy that begins to want the lease ends the tunnels that did not show it, and leaves those that did', async () => {
  assert.equal(await setting.gate.setPolicy(policy('optional')), true)
  const tunnel = async (field: string): Promise<Awaited<ReturnType<typeof dialPort>>> => {
    const socket = await dialPort(setting.gate.port)
    socket.write(`CONNECT ${API}:443 HTTP/1.1\r\nHost: ${API}:443\r\n${field}\r\n`)
    assert.match((await readBytes(socket, 39)).toString(), /^HTTP\/1\.1 200 /)
    return startTls(socket, { servername: API, ca: setting.ca })
  }
  const pass = async (): Promise<Awaited<ReturnType<typeof dialPort>>> => {
    const tls = await setting.dialTls('transparent', PINNED, 443, { rejectUnauthorized: false })
    tls.write(`GET / HTTP/1.1\r\nHost: ${PINNED}\r\n\r\n`)
    await readBytes(tls, 15)
    return tls
  }
  const shown = await tunnel(`Proxy-Authorization: ${basic('agent', LEASE)}\r\n`)
  const cut = [await tunnel(''), await setting.dialTls('SOCKS5', API), await setting.dialTls('transparent', API), await pass()]
  const ends = cut.map((socket) => readToEnd(socket))
  assert.equal(await setting.gate.setPolicy(policy('required')), true)
  await Promise.all(ends)
  shown.write(`GET / HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(shown)), 200)
})

test('a gate without a lease refuses a policy that wants one, at the start and at a reload', async () => {
  await assert.rejects(
    openTestGate({ policy: policy('required'), env: ENV }),
    (error) => error instanceof SallyportError && error.code === 'config_invalid',
  )
  await using gate = await openTestGate({ policy: policy('optional'), env: ENV })
  assert.equal(await gate.setPolicy(policy('required')), false)
  assert.ok((await gate.audit()).some((event) => event['event'] === 'reload_failed' && event['code'] === 'config_invalid'))
  // The one before is still in force: whoever comes needs none.
  const answer = await exchangeRaw(gate.port, 'GET http://unknown.example.net/ HTTP/1.1\r\nHost: unknown.example.net\r\n\r\n')
  assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'host_not_allowed')
})

for (const { why, lease } of [
  { why: 'a space', lease: 'lease of the session' },
  { why: 'a line end', lease: 'lease-of-the-session\n' },
  { why: 'a letter that headers cannot hold', lease: 'lease-of-the-session-\u00fc' },
  { why: 'fewer characters than nobody guesses', lease: 'lease' },
  { why: 'more bytes than SOCKS has room for', lease: 'x'.repeat(256) },
]) {
  test(`I1 a lease with ${why} is config_invalid, and the error does not show it`, () => {
    assert.throws(
      () => leaseOf({ env: { SALLYPORT_LEASE: lease } } as never),
      (error) => error instanceof SallyportError && error.code === 'config_invalid' && !`${error.message}${error.hint}`.includes(lease),
    )
  })
}

test('I1 the lease is in no line of the audit or the log', async () => {
  await eventually(async () => assert.match(await setting.gate.auditText(), /lease_required/))
  assert.doesNotMatch((await setting.gate.auditText()) + setting.gate.log(), /lease-5d0c|bGVhc2Ut/)
})

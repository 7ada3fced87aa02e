/** curl by every way in, speaking each version of HTTP, before upstreams that speak one of them only. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Ended } from '../support/command.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'
import { BEARER, CANARY, openPlaces, type Ways } from '../support/ways.ts'

/** Upstreams, by what they speak. */
const HOSTS = { 'HTTP/1.1 alone': 'one.example.com', 'HTTP/2 alone': 'two.example.com', 'both versions': 'both.example.com' } as const
const DENIED = 'denied.example.net'

const parts = new AsyncDisposableStack()
const upstreams = new Map<string, Http2Upstream>()
let plain: Upstream
let denied: Upstream
let ways: Ways

before(async () => {
  const places = parts.use(await openPlaces())
  for (const [host, protocols] of [
    [HOSTS['HTTP/1.1 alone'], ['http/1.1']],
    [HOSTS['HTTP/2 alone'], ['h2']],
    [HOSTS['both versions'], ['h2', 'http/1.1']],
  ] as const) {
    upstreams.set(host, parts.use(await openHttp2Upstream(places.tls(host), { protocols, place: places.at(host, 443) })))
  }
  plain = parts.use(await openUpstream(undefined, undefined, places.at(HOSTS['both versions'], 80)))
  denied = parts.use(await openUpstream(undefined, places.tls(DENIED), places.at(DENIED, 443)))
  const rule = { rule: 'methods: [GET, POST]', inject: BEARER }
  ways = parts.use(await places.open({ hosts: Object.fromEntries(Object.values(HOSTS).map((host) => [host, rule])), denied: [DENIED] }))
})
after(() => parts.disposeAsync())

/** What curl is told so that it takes each way. */
const WAYS = {
  'an HTTP proxy': () => ['--proxy', ways.proxy.url],
  'SOCKS5, the name resolved there': () => ['--socks5-hostname', ways.socks],
  'no proxy, at the transparent ports': () => [
    '--connect-to',
    `:443:${ways.transparent.https}`,
    '--connect-to',
    `:80:${ways.transparent.http}`,
  ],
} as const

function curl(way: keyof typeof WAYS, ...args: string[]): Promise<Ended> {
  return ways.run(['curl', '--silent', '--show-error', '--max-time', '20', ...WAYS[way](), ...args])
}

const wayNames = Object.keys(WAYS) as (keyof typeof WAYS)[]
const versions = [
  { flag: '--http1.1', version: '1.1' },
  { flag: '--http2', version: '2' },
]

for (const way of wayNames) {
  for (const { flag, version } of versions) {
    for (const [what, host] of Object.entries(HOSTS)) {
      test(`curl ${flag} by ${way} gets the answer of an upstream of ${what}, with the credential`, async () => {
        const { stdout, stderr } = await curl(way, flag, '--write-out', ' %{http_code} %{http_version}', `https://${host}/v1/me?x=%2f`)
        assert.equal(stdout, `ok 200 ${version}`, stderr)
        const request = upstreams.get(host)?.requests.at(-1)
        assert.equal(request?.url, '/v1/me?x=%2f')
        assert.equal(request.authority, host)
        assert.equal(request.protocol, what === 'HTTP/1.1 alone' ? 'http/1.1' : 'h2')
        assert.equal(headerOf(request, 'authorization'), `Bearer ${CANARY}`)
      })
    }
  }

  test(`curl by ${way} gets plain HTTP, without the credential`, async () => {
    const { stdout, stderr } = await curl(way, '--write-out', ' %{http_code}', `http://${HOSTS['both versions']}/plain`)
    assert.equal(stdout, 'ok 200', stderr)
    assert.equal(plain.requests.at(-1)?.url, '/plain')
    assert.equal(headerOf(plain.requests.at(-1), 'authorization'), undefined)
  })

  test(`curl by ${way} uploads and is told what the rule refuses, on the same connection of HTTP/2`, async () => {
    const host = HOSTS['both versions']
    const count = upstreams.get(host)?.requests.length ?? 0
    const { stdout, stderr } = await curl(
      way,
      '--http2',
      '--data-binary',
      'x'.repeat(100_000),
      `https://${host}/up`,
      '--next',
      '--http2',
      ...WAYS[way](),
      '--request',
      'DELETE',
      '--write-out',
      ' %{http_code} %{num_connects}',
      `https://${host}/up`,
    )
    assert.match(stdout, /^ok\{.*"code":"denied_by_rule".*\}\s* 403 0$/s, stderr)
    const seen = upstreams.get(host)?.requests.slice(count) ?? []
    assert.deepEqual(
      seen.map(({ method, body }) => `${method} ${body.length}`),
      ['POST 100000'],
    )
  })
}

for (const { way, code, says } of [
  { way: 'an HTTP proxy', code: 56, says: /403/ },
  { way: 'SOCKS5, the name resolved there', code: 97, says: /\(2\)/ },
  { way: 'no proxy, at the transparent ports', code: 35, says: /alert/ },
] as const) {
  test(`curl by ${way} fails at once for a host that no rule allows, and nobody is connected to`, async () => {
    const ended = await curl(way, `https://${DENIED}/`)
    assert.equal(ended.code, code, ended.stderr)
    assert.match(ended.stderr, says)
    assert.equal(denied.connections, 0)
    const lines = (await ways.audit()).filter(({ host, event }) => host === DENIED && event === 'decided')
    assert.deepEqual([lines.at(-1)?.['decision'], lines.at(-1)?.['code']], ['deny', 'host_not_allowed'])
  })
}

for (const way of ['an HTTP proxy', 'no proxy, at the transparent ports'] as const) {
  test(`curl by ${way} reads why a host is refused, over plain HTTP`, async () => {
    const { stdout } = await curl(way, '--include', `http://${DENIED}/`)
    assert.match(stdout, /^HTTP\/1\.1 403 [^]*application\/problem\+json[^]*"code":"host_not_allowed"/)
  })
}

for (const { what, address, code } of [
  { what: 'the address that the gate’s DNS gave it', address: '127.0.0.1', code: 0 },
  { what: 'any other address, though the name is allowed', address: '127.0.0.2', code: 97 },
]) {
  test(`curl that resolves by itself and names ${what} to SOCKS ${code === 0 ? 'gets its answer with the credential' : 'is refused'}`, async () => {
    const host = HOSTS['both versions']
    const upstream = upstreams.get(host)
    const count = upstream?.requests.length ?? 0
    const args = ['--socks5', ways.socks, '--resolve', `${host}:443:${address}`, `https://${host}/resolved`]
    const ended = await ways.run(['curl', '--silent', '--show-error', '--max-time', '20', ...args])
    assert.deepEqual([ended.code, ended.stdout], code === 0 ? [0, 'ok'] : [code, ''], ended.stderr)
    const seen = upstream?.requests.slice(count).map((request) => [request.url, headerOf(request, 'authorization')])
    assert.deepEqual(seen, code === 0 ? [['/resolved', `Bearer ${CANARY}`]] : [])
  })
}

const SAME = ['decision', 'code', 'rule', 'plane', 'scheme', 'host', 'port', 'method', 'path', 'credential', 'tls'] as const

for (const { method, decision } of [
  { method: 'GET', decision: 'allow' },
  { method: 'DELETE', decision: 'deny' },
]) {
  test(`a request that gets "${decision}" gets it by every way, with the same fields in the audit`, async () => {
    const lines: Record<string, unknown>[] = []
    for (const way of wayNames) {
      await curl(way, '--request', method, `https://${HOSTS['both versions']}/same`)
      lines.push((await ways.audit()).findLast(({ event }) => event === 'decided') ?? {})
    }
    assert.deepEqual(
      lines.map(({ lane }) => lane),
      ['connect', 'socks', 'transparent'],
    )
    const [first, ...others] = lines.map((line) => Object.fromEntries(SAME.map((field) => [field, line[field]])))
    assert.equal(first?.['decision'], decision)
    for (const other of others) assert.deepEqual(other, first)
  })
}

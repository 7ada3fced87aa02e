/**
 * I1, I5, I6, I8: by every way in, a credential goes only to its host, over verified TLS, once, in its own place, and in place of
 * what the agent sent there. Source: OpenSandbox#955 (injection on http://).
 */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, before, test } from 'node:test'
import { system } from '../../src/kernel/system.ts'
import { makeAuthority } from '../../src/pki/authority.ts'
import { APPROACHES, ask, fieldOf, named, type Approach, type Fields } from '../support/every-client.ts'
import { CARRYING, openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { openHttp2Upstream, type Http2Upstream, type StreamRequest } from '../support/http2-upstream.ts'
import { leakIn } from '../support/leaks.ts'
import { exchangeOn } from '../support/raw-client.ts'
import { createUpstreamCa, leafFor, openUpstream, type Recorded, type Upstream } from '../support/upstream.ts'

const SECRET = 'k9Zq/Vx+7"w<Tj&m\\4R y=PbN8'
const OLD = 'old.example.com'
const NEW = 'new.example.com'
const OTHER = 'other.example.com'
const PINNED = 'pinned.example.com'
const UNVERIFIED = ['unknown', 'self-signed', 'expired', 'early', 'misnamed', 'above'].map((kind) => `${kind}.example.com`)
const BOUND = [OLD, NEW, ...UNVERIFIED]
const LOOPBACK = 'addresses: ["127.0.0.0/8"]'
const POLICY = `version: 1
network:
  rules:
${[...BOUND, OTHER].map((host) => `    - {id: ${host.split('.')[0]}, host: ${host}, action: allow, ${LOOPBACK}}\n`).join('')}\
    - {id: pinned, host: ${PINNED}, action: allow, tls: passthrough, ${LOOPBACK}}
routes:
${BOUND.map((host) => `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", credential: token, ${LOOPBACK}}\n`).join('')}\
  - {name: ${routeTo('https', OTHER)}, upstream: "https://${OTHER}", ${LOOPBACK}}
  - {name: ${routeTo('http', OLD)}, upstream: "http://${OLD}", ${LOOPBACK}}
credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${BOUND.join(', ')}], paths: ["/**"], methods: [GET, POST, HEAD], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let plain: Upstream
let pinned: Upstream
const upstreams = new Map<string, Http2Upstream>()
const at = (years: number): typeof system => ({ ...system, now: () => Date.now() + years * 365 * 24 * 3_600_000 })

before(async () => {
  const [good, past, future, unknown] = await Promise.all(
    [system, at(-3), at(3), system].map(async (when) => parts.use(await createUpstreamCa(when))),
  )
  assert.ok(good && past && future && unknown)
  setting = parts.use(
    await openEveryWay(POLICY, [...BOUND, OTHER, PINNED], {
      env: { API_TOKEN: SECRET },
      upstreamCa: [good.file, past.file, future.file],
    }),
  )
  const alone = makeAuthority('self', system)
  const certificates: Record<string, { cert: string; key: string }> = {
    [OLD]: setting.tls(OLD),
    [NEW]: setting.tls(NEW),
    [OTHER]: setting.tls(OTHER),
    'unknown.example.com': leafFor(unknown.authority, 'unknown.example.com'),
    'self-signed.example.com': {
      cert: alone.certificate.toString(),
      key: alone.issuer.key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    },
    'expired.example.com': leafFor(past.authority, 'expired.example.com'),
    'early.example.com': leafFor(future.authority, 'early.example.com'),
    'misnamed.example.com': leafFor(good.authority, OTHER),
    'above.example.com': leafFor(good.authority, 'example.com'),
  }
  for (const [host, tls] of Object.entries(certificates)) {
    const protocols = host === OLD ? (['http/1.1'] as const) : host === NEW ? (['h2'] as const) : (['h2', 'http/1.1'] as const)
    upstreams.set(host, parts.use(await openHttp2Upstream(tls, { protocols, answer, place: setting.at(host, 443) })))
  }
  plain = parts.use(await openUpstream(undefined, undefined, setting.at(OLD, 80)))
  pinned = parts.use(await openUpstream(undefined, setting.tls(PINNED), setting.at(PINNED, 443)))
})
after(() => parts.disposeAsync())

/** Sends /a of one host to another, /b of that one back, and has `ok` for the rest. */
function answer(request: StreamRequest, response: ServerResponse): void {
  const to = { '/a': `https://${OTHER}/b`, '/b': `https://${OLD}/end?x=1` }[request.url ?? '']
  request.resume()
  request.on('end', () => (to === undefined ? response.end('ok') : response.writeHead(302, { location: to }).end()))
}

const upstreamOf = (host: string): Http2Upstream => upstreams.get(host) ?? assert.fail(host)
const headOf = ({ url, rawHeaders }: Recorded): string => [url, ...rawHeaders].join('\n')
const values = ({ rawHeaders }: Recorded, name: string): string[] =>
  rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name)

async function assertKept(): Promise<void> {
  const written = (await setting.gate.auditText()) + setting.gate.log()
  assert.ok(!written.includes(SECRET) && !written.includes(JSON.stringify(SECRET).slice(1, -1)))
}

for (const approach of APPROACHES) {
  test(`I5 ${named(approach)}: the credential is there once, over TLS, to an upstream of either version`, async () => {
    for (const host of [OLD, NEW]) {
      assert.equal((await ask(setting, approach, { host })).status, 200)
      assert.deepEqual(values(upstreamOf(host).requests.at(-1) as Recorded, 'authorization'), [`Bearer ${SECRET}`])
    }
  })

  test(`I5 I7 ${named(approach)}: none of it goes to another host that is allowed, whatever of the first the agent sends there`, async () => {
    await ask(setting, approach, { host: OLD })
    const { status } = await ask(setting, approach, {
      host: OTHER,
      fields: [
        ['X-Forwarded-Host', OLD],
        ['Referer', `https://${OLD}/`],
        ['X-Host', OLD],
      ],
    })
    assert.equal(status, 200)
    const request = upstreamOf(OTHER).requests.at(-1) as Recorded
    assert.equal(leakIn(headOf(request), SECRET), undefined)
    assert.deepEqual(values(request, 'authorization'), [])
  })

  test(`I5 ${named(approach)}: a method that the credential is not for goes without it, and without the agent's own`, async () => {
    for (const host of [OLD, NEW]) {
      assert.equal((await ask(setting, approach, { host, method: 'DELETE' })).status, 200)
      assert.equal(leakIn(headOf(upstreamOf(host).requests.at(-1) as Recorded), SECRET), undefined)
    }
  })

  for (const host of UNVERIFIED) {
    test(`I6 ${named(approach)}: an upstream whose certificate is ${host.split('.')[0]} gets no request, and the agent a coded 502`, async () => {
      const { status, code, bytes } = await ask(setting, approach, { host, method: 'POST', body: 'data' })
      assert.deepEqual([status, code], [502, 'upstream_tls_failed'])
      assert.deepEqual(upstreamOf(host).requests, [])
      assert.equal(leakIn(bytes, SECRET), undefined)
      await assertKept()
    })
  }
}

const HTTP = APPROACHES.filter(({ version }) => version === 'HTTP/1.1')
for (const approach of HTTP) {
  test(`I5 ${named(approach)}: over http:// no credential goes out, nor what the agent sent in its place (OpenSandbox#955)`, async () => {
    const count = plain.requests.length
    const fields: Fields = [
      ['authorization', 'Bearer agent-own'],
      ['X-Api-Key', 'agent-own'],
    ]
    assert.equal((await ask(setting, approach, { host: OLD, scheme: 'http', fields })).status, 200)
    assert.equal(plain.requests.length, count + 1)
    const head = headOf(plain.requests.at(-1) as Recorded)
    assert.equal(leakIn(head, SECRET), undefined)
    // A route without a credential is for the agent's own.
    assert.equal(head.includes('agent-own'), approach.way === 'route')
  })
}

/** What an agent may send to have its own credential used, or ours twice. */
const OWN: readonly { readonly why: string; readonly fields: Fields; readonly path?: string; readonly onlyOld?: boolean }[] = [
  { why: 'the same field', fields: [['Authorization', 'Bearer agent-own']] },
  { why: 'the same field in lower case', fields: [['authorization', 'agent-own']] },
  { why: 'the same field in capitals', fields: [['AUTHORIZATION', 'agent-own']] },
  {
    why: 'the same field twice',
    fields: [
      ['Authorization', 'agent-own'],
      ['Authorization', 'agent-own-2'],
    ],
    onlyOld: true,
  },
  {
    why: 'the same field twice, in two cases',
    fields: [
      ['Authorization', 'agent-own'],
      ['aUTHORIZATION', 'agent-own-2'],
    ],
    onlyOld: true,
  },
  {
    why: 'an empty one and another',
    fields: [
      ['Authorization', ''],
      ['authorization', 'agent-own'],
    ],
    onlyOld: true,
  },
  { why: 'basic authentication', fields: [['Authorization', `Basic ${Buffer.from('agent-own:agent-own').toString('base64')}`]] },
  {
    why: 'its siblings',
    fields: ['X-Api-Key', 'Api-Key', 'X-Auth-Token', 'X-Access-Token', 'Private-Token', 'Job-Token', 'X-Goog-Api-Key', 'X-Vault-Token'].map(
      (name) => [name, 'agent-own'],
    ),
  },
  {
    why: 'siblings that CGI takes for others',
    fields: [
      ['x_api_key', 'agent-own'],
      ['Private_Token', 'agent-own'],
      ['x.api.key', 'agent-own'],
    ],
  },
  { why: 'a cookie', fields: [['Cookie', 'session=agent-own']] },
  { why: 'the query', fields: [], path: '/x?access_token=agent-own&a=1&private_token=agent-own' },
  { why: 'the query, encoded', fields: [], path: '/x?%61ccess_token=agent-own&a=1&API_KEY=agent-own&access%5ftoken=agent-own' },
  {
    why: 'fields that Connection names',
    fields: [
      ['Authorization', 'agent-own'],
      ['X-Hop', 'agent-own'],
      ['Connection', 'X-Hop, Authorization'],
    ],
    onlyOld: true,
  },
]

for (const { why, fields, path = '/x?a=1', onlyOld = false } of OWN) {
  test(`I5 what the agent sends of its own in ${why} does not go on, and ours does, once, by every way`, async () => {
    for (const approach of APPROACHES) {
      // HTTP/2 has one case, and a client library that would not send such fields.
      if (onlyOld && approach.version === 'HTTP/2') continue
      for (const host of [OLD, NEW]) {
        assert.equal((await ask(setting, approach, { host, path, fields })).status, 200, named(approach))
        const request = upstreamOf(host).requests.at(-1) as Recorded
        assert.doesNotMatch(headOf(request), /agent-own/, named(approach))
        assert.doesNotMatch(headOf(request), new RegExp(Buffer.from('agent-own:agent-own').toString('base64')))
        assert.deepEqual(values(request, 'authorization'), [`Bearer ${SECRET}`])
        assert.match(request.url, /[?&]a=1/)
      }
    }
  })
}

test('I8 bytes that pass through uninspected are the agent’s own, and none of ours, by every way that carries them', async () => {
  const own = `GET /x HTTP/1.1\r\nHost: ${OLD}\r\nX-Own: 1\r\nConnection: close\r\n\r\n`
  for (const way of CARRYING) {
    if (way === 'SOCKS5 by our address') continue
    const socket = await setting.dialTls(way, PINNED, 443, { rejectUnauthorized: false })
    assert.match(await exchangeOn(socket, own), /^HTTP\/1\.1 200 /)
    assert.deepEqual(pinned.requests.at(-1)?.rawHeaders, ['Host', OLD, 'X-Own', '1', 'Connection', 'close'])
  }
  assert.equal(pinned.requests.length, 3)
})

/** What a client does that follows redirects: the same fields again, wherever it is sent. */
async function follow(approach: Approach, fields: Fields, hops: number): Promise<{ hosts: string[]; status: number }> {
  const hosts: string[] = []
  let [host, path] = [OLD, '/a']
  for (;;) {
    const { status, headers } = await ask(setting, approach, { host, path, fields })
    hosts.push(host)
    const location = fieldOf(headers, 'location')
    if (status !== 302 || location === undefined || hosts.length > hops) return { hosts, status }
    const url = new URL(location)
    ;[host, path] = [url.hostname, `${url.pathname}${url.search}`]
  }
}

test('I5 a redirect A→B→A: the gate follows none, B gets no credential, and A gets it as for any request', async () => {
  for (const approach of APPROACHES) {
    const since = [OLD, OTHER].map((host) => upstreamOf(host).requests.length)
    assert.deepEqual(
      await follow(
        approach,
        [
          ['Authorization', 'Bearer agent-own'],
          ['X-Own', '1'],
        ],
        5,
      ),
      { hosts: [OLD, OTHER, OLD], status: 200 },
      named(approach),
    )
    const came = [OLD, OTHER].map((host, i) => upstreamOf(host).requests.slice(since[i]))
    const said = came.map((requests) => requests.map((request) => [request.url, ...values(request, 'authorization')]))
    assert.deepEqual(said[0], [
      ['/a', `Bearer ${SECRET}`],
      ['/end?x=1', `Bearer ${SECRET}`],
    ])
    // B has no credential of ours: what the agent sends there is its own.
    assert.deepEqual(said[1], [['/b', 'Bearer agent-own']])
    assert.equal(
      came[1]?.some((request) => leakIn(headOf(request), SECRET) !== undefined),
      false,
    )
  }
})

test('I1 audit and log of all this have no part of the secret', assertKept)

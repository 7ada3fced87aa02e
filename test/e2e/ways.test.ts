/** I16: every way in leads to the same decision. The requests are written by hand, so that each way carries the same bytes. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { EVERY_WAY, LANE, NotCarried, openEveryWay, routeTo, type EveryWay, type Scheme, type Way } from '../support/every-way.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { bodyOf, readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'

const API = 'api.example.com'
/** Allowed, and its address is of a class that no rule opens. */
const INNER = 'inner.example.com'
const UNKNOWN = 'unknown.example.net'
const SCHEMES = ['https', 'http'] as const

const POLICY = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, methods: [GET, POST], paths: ["/v1/**"], plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: closed, host: ${API}, paths: ["/v1/closed/**"], action: deny}
    - {id: no-delete, host: ${API}, methods: [DELETE], action: deny}
    - {id: inner, host: ${INNER}, action: allow}
routes:
  - {name: ${routeTo('https', API)}, upstream: "https://${API}", credential: api-token, addresses: ["127.0.0.0/8"]}
  - {name: ${routeTo('http', API)}, upstream: "http://${API}", credential: api-token, plaintext: accept, addresses: ["127.0.0.0/8"]}
  - {name: ${routeTo('https', INNER)}, upstream: "https://${INNER}"}
  - {name: ${routeTo('http', INNER)}, upstream: "http://${INNER}"}
credentials:
  - {id: api-token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let upstreams: Readonly<Record<Scheme, Upstream>>
let inner: Upstream

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [API, INNER, UNKNOWN]))
  upstreams = {
    https: parts.use(await openUpstream(undefined, setting.tls(API), setting.at(API, 443))),
    http: parts.use(await openUpstream(undefined, undefined, setting.at(API, 80))),
  }
  inner = parts.use(await openUpstream(undefined, setting.tls(INNER), setting.at(INNER, 443)))
})
after(() => parts.disposeAsync())

type Line = Readonly<Record<string, unknown>>
/** What came of a request: the answer, and its two lines in the audit. */
type Seen = { readonly status: number; readonly body: string; readonly decided: Line; readonly finished: Line }

async function send(way: Way, scheme: Scheme, host: string, method: string, path: string): Promise<Seen> {
  const known = (await setting.gate.audit()).length
  let status: number
  let body: string
  try {
    const { socket, target, authority } = await setting.open(way, scheme, host)
    socket.write(
      `${method} ${target(path)} HTTP/1.1\r\nHost: ${authority}\r\nAuthorization: Bearer own\r\nX-Own: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi`,
    )
    const answer = await readToEnd(socket)
    status = statusOf(answer)
    body = bodyOf(answer)
  } catch (error) {
    if (!(error instanceof NotCarried)) throw error
    status = 0
    body = error.said
  }
  return eventually(async () => {
    const [decided, finished, ...more] = (await setting.gate.audit()).slice(known) as Line[]
    assert.ok(decided && finished && more.length === 0, 'two lines')
    assert.equal(decided['request'], finished['request'])
    return { status, body, decided, finished }
  })
}

/** A line without what is of this one request: its way, its place in the chain, its times; of a route also its rule. */
function common(line: Line, way: Way): Line {
  const own = new Set(['seq', 'time', 'prev', 'hash', 'request', 'lane', 'duration_ms', ...(way === 'route' ? ['rule'] : [])])
  return Object.fromEntries(Object.entries(line).filter(([name]) => !own.has(name)))
}

function without(line: Line, ...names: string[]): Line {
  return Object.fromEntries(Object.entries(line).filter(([name]) => !names.includes(name)))
}

for (const scheme of SCHEMES) {
  for (const way of EVERY_WAY) {
    test(`I16 ${scheme} by ${way}: an allowed request arrives with its body and the credential in place of the agent's own`, async () => {
      const upstream = upstreams[scheme]
      const count = upstream.requests.length
      const seen = await send(way, scheme, API, 'POST', '/v1/me?x=%2f')
      assert.equal(seen.status, 200)
      const [request, ...more] = upstream.requests.slice(count)
      assert.ok(request && more.length === 0)
      assert.deepEqual(
        [request.method, request.url, request.body.toString(), headerOf(request, 'host'), headerOf(request, 'x-own')],
        ['POST', '/v1/me?x=%2f', 'hi', API, '1'],
      )
      assert.deepEqual(request.rawHeaders.filter((_, i) => request.rawHeaders[i - (i % 2)]?.toLowerCase() === 'authorization').slice(1), [
        `Bearer ${CANARY}`,
      ])
      assert.equal(seen.decided['lane'], LANE[way])
      if (way !== 'route') assert.equal(seen.decided['rule'], 'api')
    })
  }

  test(`I16 ${scheme}: all ways have the same fields in the audit of an allowed request`, async () => {
    const [first, ...rest] = await all(scheme, API, 'GET', '/v1/me')
    assert.equal(first?.seen.decided['decision'], 'allow')
    assert.equal(first.seen.decided['credential'], 'api-token')
    assert.equal(first.seen.finished['status'], 200)
    for (const { way, seen } of rest) {
      const ruled: Line = way === 'route' ? without(first.seen.decided, 'rule') : first.seen.decided
      assert.deepEqual(common(seen.decided, way), common(ruled, way), way)
      assert.deepEqual(common(seen.finished, way), common(first.seen.finished, way), way)
    }
  })

  for (const { what, host = API, method = 'GET', path, code, status, ways = EVERY_WAY } of [
    { what: 'a deny rule for its path', path: '/v1/closed/door', code: 'denied_by_rule', status: 403 },
    { what: 'a deny rule for its method', method: 'DELETE', path: '/v1/me', code: 'denied_by_rule', status: 403 },
    { what: 'its path, which has a dot segment', path: '/v1/%2e%2e/v2', code: 'path_not_canonical', status: 400 },
    { what: 'its path, which is encoded twice', path: '/v1/%252e%252e/v2', code: 'path_not_canonical', status: 400 },
    { what: 'the address of its host', host: INNER, path: '/v1/me', code: 'address_refused', status: 403 },
    // A route is an allow of its own for all below its base path.
    { what: 'no rule for its method', method: 'PUT', path: '/v1/me', code: 'denied_by_rule', status: 403, ways: EVERY_WAY.slice(0, -1) },
    { what: 'no rule for its path', path: '/v2/me', code: 'denied_by_rule', status: 403, ways: EVERY_WAY.slice(0, -1) },
  ]) {
    test(`I16 ${scheme}: a request that is forbidden by ${what} is refused alike by every way, and nothing leaves`, async () => {
      const counts = [upstreams.http.requests.length, upstreams.https.requests.length]
      const [first, ...rest] = await all(scheme, host, method, path, ways)
      assert.ok(first)
      assert.equal(first.seen.status, status)
      const problem = JSON.parse(first.seen.body) as Record<string, unknown>
      assert.equal(problem['code'], code)
      assert.equal(first.seen.decided['decision'], code === 'address_refused' ? 'allow' : 'deny')
      assert.equal(first.seen.finished['code'], code)
      for (const { way, seen } of rest) {
        const ruled: Line = way === 'route' ? without(first.seen.decided, 'rule') : first.seen.decided
        assert.equal(seen.status, status, way)
        assert.deepEqual(common(seen.decided, way), common(ruled, way), way)
        assert.deepEqual(common(seen.finished, way), common(first.seen.finished, way), way)
        const told = JSON.parse(seen.body) as Record<string, unknown>
        const own = way === 'route' ? ['request_id', 'rule', 'detail', 'hint'] : ['request_id']
        assert.deepEqual(without(told, ...own), without(problem, ...own), way)
      }
      assert.deepEqual([upstreams.http.requests.length, upstreams.https.requests.length], counts)
      assert.equal(inner.connections, 0)
    })
  }
}

/** Where a connection is carried its host is judged before a request is seen: then the way says no, each in its own words. */
for (const { way, scheme, said } of [
  { way: 'absolute form', scheme: 'https', said: 'a problem' },
  { way: 'absolute form', scheme: 'http', said: 'a problem' },
  { way: 'CONNECT', scheme: 'https', said: 'HTTP 403' },
  { way: 'CONNECT', scheme: 'http', said: 'HTTP 403' },
  { way: 'SOCKS5', scheme: 'https', said: 'SOCKS 2' },
  { way: 'SOCKS5', scheme: 'http', said: 'SOCKS 2' },
  { way: 'SOCKS5 by our address', scheme: 'https', said: 'alert 49' },
  { way: 'SOCKS5 by our address', scheme: 'http', said: 'a problem' },
  { way: 'transparent', scheme: 'https', said: 'alert 49' },
  { way: 'transparent', scheme: 'http', said: 'a problem' },
] as const) {
  test(`I16 ${scheme} by ${way} to a host that no rule names is denied with host_not_allowed, said as ${said}`, async () => {
    const { status, body, decided, finished } = await send(way, scheme, UNKNOWN, 'GET', '/v1/me')
    if (said === 'a problem') {
      assert.equal(status, 403)
      assert.equal((JSON.parse(body) as { code: string }).code, 'host_not_allowed')
    } else assert.equal(body, said)
    const isSeen = said === 'a problem'
    assert.deepEqual(common(decided, way), {
      ...common(decided, way),
      event: 'decided',
      plane: 'agent',
      host: UNKNOWN,
      port: scheme === 'https' ? 443 : 80,
      decision: 'deny',
      code: 'host_not_allowed',
      // The connection is all that was seen.
      method: isSeen ? 'GET' : 'CONNECT',
      ...(isSeen && { scheme, path: '/v1/me' }),
    })
    assert.equal('path' in decided, isSeen)
    assert.equal(decided['lane'], LANE[way])
    assert.deepEqual([finished['code'], finished['status'], finished['bytes_up'], finished['bytes_down']], ['host_not_allowed', 403, 0, 0])
  })
}

test('I16 a host that no rule names has no route, and the near name is told', async () => {
  const { status, body, decided } = await send('route', 'https', `apl.${API}`, 'GET', '/v1/me')
  assert.equal(status, 404)
  const problem = JSON.parse(body) as { code: string; hint: string }
  assert.equal(problem.code, 'route_unknown')
  assert.equal(problem.hint, 'did you mean "https-api"?')
  assert.equal(decided['code'], 'route_unknown')
})

test('I1 no way gave the secret to the agent, the audit or the log', async () => {
  for (const way of EVERY_WAY) assert.doesNotMatch((await send(way, 'https', API, 'GET', '/v1/me')).body, new RegExp(CANARY))
  assert.doesNotMatch((await setting.gate.auditText()) + setting.gate.log(), new RegExp(CANARY))
})

async function all(
  scheme: Scheme,
  host: string,
  method: string,
  path: string,
  ways: readonly Way[] = EVERY_WAY,
): Promise<{ way: Way; seen: Seen }[]> {
  const found: { way: Way; seen: Seen }[] = []
  for (const way of ways) found.push({ way, seen: await send(way, scheme, host, method, path) })
  return found
}

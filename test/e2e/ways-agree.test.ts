/** The same request by all five ways in. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { headerOf } from '../support/http2-upstream.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'
import { BEARER, CANARY, openPlaces, type Ways } from '../support/ways.ts'

const HOST = 'api.example.com'
const URL = `http://${HOST}`

const parts = new AsyncDisposableStack()
let upstream: Upstream
let ways: Ways

before(async () => {
  const places = parts.use(await openPlaces())
  upstream = parts.use(await openUpstream(undefined, undefined, places.at(HOST, 80)))
  ways = parts.use(
    await places.open({
      // Over plain HTTP, which is all that an absolute URL can ask a proxy for.
      hosts: { [HOST]: { inject: BEARER, rule: 'plaintext: accept' } },
      rules: `    - {id: closed, host: ${HOST}, paths: ["/closed/**"], action: deny}\n`,
      more: `routes:\n  - {name: api, upstream: "${URL}", credential: credential-0, plaintext: accept, addresses: ["127.0.0.0/8"]}\n`,
    }),
  )
})
after(() => parts.disposeAsync())

/** How curl asks for a path, by the lane that the audit has for it. */
const LANES: Readonly<Record<string, (path: string) => string[]>> = {
  http: (path) => ['--proxy', ways.proxy.url, `${URL}${path}`],
  connect: (path) => ['--proxytunnel', '--proxy', ways.proxy.url, `${URL}${path}`],
  socks: (path) => ['--socks5-hostname', ways.socks, `${URL}${path}`],
  transparent: (path) => ['--connect-to', `:80:${ways.transparent.http}`, `${URL}${path}`],
  route: (path) => [`http://${ways.gateway}/route/api${path}`],
}

/** What is recorded of a decision, without what is of this one request. */
const FIELDS = ['decision', 'code', 'plane', 'scheme', 'host', 'port', 'method', 'path', 'credential', 'secret'] as const

for (const { what, path, status, decision, arrives } of [
  { what: 'allowed', path: '/v1/me', status: 200, decision: 'allow', arrives: true },
  { what: 'forbidden', path: '/closed/door', status: 403, decision: 'deny', arrives: false },
]) {
  test(`the same ${what} request by all five ways has the same answer, decision and fields in the audit`, async () => {
    const decisions: [unknown, Record<string, unknown>][] = []
    for (const [lane, args] of Object.entries(LANES)) {
      const count = upstream.requests.length
      const argv = ['curl', '--silent', '--show-error', '--max-time', '20', '--write-out', '\n%{http_code}', '--data', 'x=1', ...args(path)]
      const { stdout, stderr } = await ways.run(argv)
      assert.match(stdout, arrives ? /^ok\n/ : /"code":"denied_by_rule"/, `${lane}: ${stderr}`)
      assert.equal(stdout.trim().split('\n').at(-1), String(status), lane)
      const seen = upstream.requests.slice(count)
      assert.deepEqual(
        seen.map((request) => [request.url, request.body.toString(), headerOf(request, 'authorization'), headerOf(request, 'host')]),
        arrives ? [[path, 'x=1', `Bearer ${CANARY}`, HOST]] : [],
        lane,
      )
      const last = (await ways.audit()).findLast(({ event }) => event === 'decided') ?? {}
      decisions.push([last['lane'], Object.fromEntries(FIELDS.map((field) => [field, last[field]]))])
    }
    assert.deepEqual(
      decisions.map(([lane]) => lane),
      Object.keys(LANES),
    )
    const [first] = decisions
    assert.equal(first?.[1]['decision'], decision)
    for (const [lane, fields] of decisions) assert.deepEqual(fields, first?.[1], String(lane))
  })
}

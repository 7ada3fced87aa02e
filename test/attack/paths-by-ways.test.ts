/**
 * I2, I9: the bytes of a path that rules look at are the bytes that are sent, by every way in and to upstreams of both versions.
 * Sources: Envoy CVE-2019-9901 and CVE-2021-29492, Apache CVE-2021-41773, Spring CVE-2020-5398's `..;`, overlong UTF-8 of CVE-2000-0884.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CONFUSED_PATHS } from '../support/confused-paths.ts'
import { APPROACHES, named, readAnswer, type Approach } from '../support/every-client.ts'
import { openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { fateOf, getOf, speakFrames, whole } from '../support/http2-agent.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { exchangeOn } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'

/** Rules look at paths of the first, a credential at those of the second; nobody does at the others, which are reached by either version. */
const [RULED, BOUND, FREE, STREAMS] = ['ruled.example.com', 'bound.example.com', 'free.example.com', 'streams.example.com'] as const
const HOSTS = [RULED, BOUND, FREE, STREAMS]
const LOOPBACK = 'addresses: ["127.0.0.0/8"]'
const POLICY = `version: 1
network:
  rules:
    - {id: ruled, host: ${RULED}, paths: ["/repos/acme/**", "/@scope%2Fname"], action: allow, ${LOOPBACK}}
    - {id: admin, host: ${RULED}, paths: ["/repos/acme/admin/**"], action: deny}
${[BOUND, FREE, STREAMS].map((host) => `    - {id: ${host.split('.')[0]}, host: ${host}, action: allow, ${LOOPBACK}}\n`).join('')}routes:
${[FREE, STREAMS].map((host) => `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", ${LOOPBACK}}\n`).join('')}\
  - {name: ${routeTo('https', RULED)}, upstream: "https://${RULED}", ${LOOPBACK}}
  - {name: ${routeTo('https', BOUND)}, upstream: "https://${BOUND}", credential: token, ${LOOPBACK}}
credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${BOUND}], paths: ["/repos/acme/**"], header: X-Key}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
const upstreams = new Map<string, Http2Upstream>()

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, HOSTS))
  for (const host of HOSTS) {
    const protocols = host === STREAMS ? (['h2'] as const) : (['http/1.1'] as const)
    upstreams.set(host, parts.use(await openHttp2Upstream(setting.tls(host), { protocols, place: setting.at(host, 443) })))
  }
})
after(() => parts.disposeAsync())

/** Sends the path as the bytes that it is, and gives what arrived of it and what was said. */
async function send(approach: Approach, host: string, path: string): Promise<{ said: string; arrived: readonly string[]; key: unknown }> {
  const requests = upstreams.get(host)?.requests ?? []
  const count = requests.length
  const bytes = Buffer.from(path).toString('latin1')
  let said: string
  if (approach.version === 'HTTP/2' && approach.way !== 'absolute form' && approach.way !== 'route') {
    using agent = speakFrames(await setting.dialTls(approach.way, host, 443, { ALPNProtocols: ['h2'] }))
    agent.send(whole(1, getOf(host, bytes)))
    said = await fateOf(agent)
  } else {
    const { socket, target, authority } = await setting.open(approach.way, 'https', host)
    const request = `GET ${target(bytes)} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`
    const { status, code } = readAnswer(Buffer.from(await exchangeOn(socket, Buffer.from(request, 'latin1')), 'latin1'))
    said = code ?? (status === 200 ? 'answered' : String(status))
  }
  const came = requests.slice(count)
  return { said, arrived: came.map(({ url }) => url), key: headerOf(came[0], 'x-key') }
}

/** Whole paths: of the others a client could not tell where its host ends. */
const PATHS = CONFUSED_PATHS.filter((path) => path.startsWith('/'))

for (const approach of APPROACHES) {
  for (const path of PATHS) {
    test(`I2 I9 ${named(approach)}: ${JSON.stringify(path)} does not reach a host whose rules or credentials look at paths`, async () => {
      for (const host of [RULED, BOUND]) {
        const { said, arrived } = await send(approach, host, path)
        assert.notEqual(said, 'answered')
        assert.deepEqual(arrived, [])
      }
    })
  }

  test(`I2 ${named(approach)}: where nobody looks at paths each of them arrives as the bytes that it was, or not at all`, async () => {
    let count = 0
    for (const path of PATHS) {
      for (const host of [FREE, STREAMS]) {
        const { said, arrived } = await send(approach, host, path)
        assert.deepEqual(arrived, said === 'answered' ? [path] : [], path)
        count += arrived.length
      }
    }
    // A route holds its requests below its base path: most of these are refused there.
    assert.ok(count > (approach.way === 'route' ? 10 : PATHS.length), String(count))
  })

  for (const { path, why } of [
    { path: '/repos/acme/x%2fy', why: '%2f is a character of its segment' },
    { path: '/@scope%2fname', why: 'hex digits have no case for the rule, and keep theirs on the way' },
    { path: '/repos/acme/a;v=1', why: 'parameters' },
    { path: '/repos/acme/%C3%A9?x=/../%2e%2e//&y=%252e', why: 'the query is not part of the path' },
    { path: '/repos/acme/a%2520b/...', why: 'what is encoded twice stays so' },
  ]) {
    test(`I2 ${named(approach)}: ${path} is allowed and arrives as it was: ${why}`, async () => {
      for (const host of [RULED, BOUND]) assert.deepEqual((await send(approach, host, path)).arrived, [path])
    })
  }

  for (const path of [
    '/repos/acme/admin/x',
    '/repos/acme/admin;x/y',
    '/repos/acme/admin%2Fx',
    '/repos/acme;x/admin/y',
    '/repos/evil/x',
    '/repos%2Facme/x',
    '/REPOS/acme/x',
    '/',
  ]) {
    test(`I9 ${named(approach)}: ${path} is denied or outside of what is allowed, and does not arrive`, async () => {
      const { said, arrived } = await send(approach, RULED, path)
      if (approach.way !== 'route' || path.includes('admin')) {
        assert.notEqual(said, 'answered')
        assert.deepEqual(arrived, [])
      }
    })
  }

  test(`I5 ${named(approach)}: a credential for /repos/acme/** goes with the bytes of such a path, and with no other spelling`, async () => {
    assert.equal((await send(approach, BOUND, '/repos/acme/x')).key, CANARY)
    for (const path of ['/repos%2Facme/x', '/repos/acme%2Fx', '/REPOS/acme/x', '/repos;/acme/x', '/x?/repos/acme/x'])
      assert.equal((await send(approach, BOUND, path)).key, undefined, path)
  })
}

/** Chromium loads a whole page through the gate. Certificates are checked: it trusts the session's authority and ignores nothing. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openBrowser } from '../support/browser.ts'
import { headerOf, type Http2Upstream } from '../support/http2-upstream.ts'
import { PAGE_OUTPUTS, openPageUpstream } from '../support/page-upstream.ts'
import { enterOwnNetwork } from '../support/own-network.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'
import { BEARER, CANARY, openPlaces, type Ways } from '../support/ways.ts'

await enterOwnNetwork(import.meta.filename)

const PAGE = 'page.example.com'
const SECOND = 'second.example.com'
const DENIED = 'denied.example.net'

const parts = new AsyncDisposableStack()
let page: Http2Upstream
let second: Http2Upstream
let denied: Upstream
let ways: Ways

before(async () => {
  const places = parts.use(await openPlaces())
  const hosts = { second: `https://${SECOND}`, denied: `https://${DENIED}` }
  page = parts.use(await openPageUpstream(places.tls(PAGE), hosts, places.at(PAGE, 443)))
  second = parts.use(await openPageUpstream(places.tls(SECOND), hosts, places.at(SECOND, 443)))
  denied = parts.use(await openUpstream(undefined, places.tls(DENIED), places.at(DENIED, 443)))
  ways = parts.use(await places.open({ hosts: { [PAGE]: { inject: BEARER }, [SECOND]: {} }, denied: [DENIED] }))
})
after(() => parts.disposeAsync())

for (const [way, args] of [
  ['an HTTP proxy', () => [`--proxy-server=${ways.proxy.url}`]],
  ['SOCKS5', () => [`--proxy-server=socks5://${ways.socks}`]],
  ['no proxy, at the transparent ports', () => [`--host-resolver-rules=MAP *:443 ${ways.transparent.https}`]],
] as const) {
  test(`Chromium by ${way} loads a page with all that belongs to it, by HTTP/2, and what is denied fails inside it`, async () => {
    const counts = { page: page.requests.length, second: second.requests.length }
    await using opened = await openBrowser({ ca: ways.proxy.ready.ca, args: args() })
    const tab = await opened.browser.newPage()
    const answer = await tab.goto(`https://${PAGE}/`)
    assert.equal(answer?.status(), 200)
    await tab.waitForFunction('[...document.querySelectorAll("output")].every((output) => output.textContent !== "")')
    const outputs = 'Object.fromEntries([...document.querySelectorAll("output")].map((output) => [output.id, output.textContent]))'
    assert.deepEqual(await tab.evaluate(outputs), PAGE_OUTPUTS)
    const spoken = 'performance.getEntries().filter(({ name }) => name.startsWith(location.href)).map((entry) => entry.nextHopProtocol)'
    assert.deepEqual(new Set(await tab.evaluate<string[]>(spoken)), new Set(['h2']))

    const seen = page.requests.slice(counts.page)
    assert.deepEqual(seen.map(({ method, url, protocol }) => `${method} ${url} ${protocol}`).toSorted(), [
      'GET / h2',
      'GET /events h2',
      'GET /image.svg h2',
      'GET /script.js h2',
      'GET /socket http/1.1',
      'GET /style.css h2',
      'POST /post h2',
    ])
    for (const request of seen) assert.equal(headerOf(request, 'authorization'), `Bearer ${CANARY}`, request.url)
    const other = second.requests.slice(counts.second)
    assert.deepEqual(
      other.map((request) => [request.url, headerOf(request, 'authorization')]),
      [['/second', undefined]],
    )
    assert.ok(!(await tab.content()).includes(CANARY))
    assert.equal(denied.connections, 0)
  })
}

test('Chromium by an HTTP proxy shows an error for a page that no rule allows, and nobody is connected to', async () => {
  await using opened = await openBrowser({ ca: ways.proxy.ready.ca, args: [`--proxy-server=${ways.proxy.url}`] })
  const tab = await opened.browser.newPage()
  await assert.rejects(tab.goto(`https://${DENIED}/`), /ERR_TUNNEL_CONNECTION_FAILED/)
  assert.equal(denied.connections, 0)
})

test('Chromium that does not trust the session’s authority loads nothing through the gate', async () => {
  const count = page.requests.length
  await using opened = await openBrowser({ args: [`--proxy-server=${ways.proxy.url}`] })
  const tab = await opened.browser.newPage()
  await assert.rejects(tab.goto(`https://${PAGE}/`), /ERR_CERT_AUTHORITY_INVALID/)
  assert.equal(page.requests.length, count)
})

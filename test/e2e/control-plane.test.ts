/** `network.harness` and `network.mode`: whose traffic is it, and what is left in each mode, by every way in. */
import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import { askUdp, queryFor, RCODE, readAnswer, TYPE } from '../support/dns.ts'
import { openEveryWay, routeTo, type EveryWay, type Way } from '../support/every-way.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { bodyOf, readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'

/** The provider of the harness, a host that the operator allows, and one that no rule is about. */
const MODEL = 'model.example.com'
const API = 'api.example.com'
const NOBODY = 'nobody.example.net'
const WAYS = ['absolute form', 'CONNECT', 'SOCKS5', 'SOCKS5 by our address', 'transparent'] as const

const policy = (mode: string, more = ''): string => `version: 1
network:
  mode: ${mode}
  harness: mine
  rules:
    - {id: api, host: ${API}, action: allow, addresses: ["127.0.0.0/8"]}
${more}credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`
const HARNESS = `version: 1
network:
  rules:
    - {id: model, host: ${MODEL}, action: allow, addresses: ["127.0.0.0/8"]}
`

const parts = new AsyncDisposableStack()
let ways: EveryWay
const upstreams = new Map<string, Upstream>()
let since = 0

before(async () => {
  ways = parts.use(await openEveryWay('version: 1\nnetwork: {rules: []}\n', [MODEL, API, NOBODY]))
  await mkdir(join(ways.gate.folder, 'harness'))
  await writeFile(join(ways.gate.folder, 'harness', 'mine.yaml'), HARNESS)
  for (const host of [MODEL, API, NOBODY]) upstreams.set(host, parts.use(await openUpstream(undefined, ways.tls(host), ways.at(host, 443))))
})
after(() => parts.disposeAsync())
beforeEach(async () => (since = (await ways.gate.audit()).length))

/** Status or refusal of one request over TLS, by any way. */
async function ask(way: Way, host: string, path = '/'): Promise<string> {
  try {
    const { socket, target, authority } = await ways.open(way, 'https', host)
    socket.write(`GET ${target(path)} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)
    const answer = await readToEnd(socket)
    return statusOf(answer) === 200 ? 'ok' : (JSON.parse(bodyOf(answer)) as { code: string }).code
  } catch {
    return 'not carried'
  }
}

const lookUp = async (name: string): Promise<number> =>
  readAnswer(await askUdp(ways.gate.sidecar.dns[0] ?? '', queryFor(name, { type: TYPE.A }))).rcode

const decided = async (): Promise<Record<string, unknown>[]> =>
  (await ways.gate.audit()).slice(since).filter(({ event }) => event === 'decided')

const heard = (host: string): number => upstreams.get(host)?.connections ?? 0

test('mode none: the harness reaches its provider by every way, as control plane; nothing else passes by any, and no name of it is known', async () => {
  assert.ok(await ways.gate.setPolicy(policy('none')))
  for (const way of WAYS) assert.equal(await ask(way, MODEL), 'ok', way)
  assert.deepEqual(
    (await decided()).map(({ plane, rule, decision }) => [plane, rule, decision]),
    WAYS.map(() => ['control_plane', 'model', 'allow']),
  )
  for (const host of [API, NOBODY]) {
    for (const way of WAYS) assert.match(await ask(way, host), /^(?:host_not_allowed|not carried)$/, `${way} ${host}`)
    assert.equal(heard(host), 0)
    assert.equal(await lookUp(host), RCODE.nxDomain, host)
  }
  assert.equal(await lookUp(MODEL), RCODE.noError)
  const refused = (await decided()).slice(WAYS.length)
  assert.deepEqual([...new Set(refused.map(({ plane, code }) => `${String(plane)} ${String(code)}`))], ['agent host_not_allowed'])
})

test('mode restricted: what the operator allows is the agent’s, what the harness brings the control plane’s, in the log as in the audit', async () => {
  assert.ok(await ways.gate.setPolicy(policy('restricted')))
  const logged = ways.gate.log().length
  for (const host of [MODEL, API]) assert.equal(await ask('CONNECT', host), 'ok')
  assert.equal(await ask('absolute form', NOBODY), 'host_not_allowed')
  const planes = [
    [MODEL, 'control_plane'],
    [API, 'agent'],
    [NOBODY, 'agent'],
  ]
  assert.deepEqual(
    (await decided()).map(({ host, plane }) => [host, plane]),
    planes,
  )
  const lines = ways.gate.log().slice(logged).split('\n').filter(Boolean)
  const told = lines.map((line) => JSON.parse(line) as Record<string, unknown>).filter(({ plane }) => plane !== undefined)
  assert.deepEqual(
    told.map(({ host, plane }) => [host, plane]),
    planes,
  )
})

test('I9 a rule that denies wins over the harness in every mode, and the operator is warned', async () => {
  for (const mode of ['restricted', 'none', 'open']) {
    const logged = ways.gate.log().length
    const count = heard(MODEL)
    assert.ok(await ways.gate.setPolicy(policy(mode, `    - {id: closed, host: ${MODEL}, action: deny}\n`)), mode)
    for (const way of WAYS) assert.match(await ask(way, MODEL), /^(?:denied_by_rule|not carried)$/, `${mode} ${way}`)
    assert.equal(heard(MODEL), count)
    assert.match(ways.gate.log().slice(logged), /"level":40[^\n]*closed/, mode)
  }
})

test('I4 I5 mode open: a host that no rule is about is let through to public addresses alone, without a credential; one that is bound has its own', async () => {
  assert.ok(await ways.gate.setPolicy(policy('open')))
  assert.equal(await ask('CONNECT', API), 'ok')
  assert.equal(headerOf(upstreams.get(API)?.requests.at(-1), 'authorization'), CANARY)
  for (const way of WAYS) assert.equal(await ask(way, NOBODY), 'address_refused', way)
  assert.equal(heard(NOBODY), 0)
  const open = (await decided()).filter(({ host }) => host === NOBODY)
  assert.deepEqual(
    open.map(({ rule, plane, decision, credential }) => [rule, plane, decision, credential]),
    WAYS.map(() => ['open', 'agent', 'allow', undefined]),
  )
  assert.equal(await lookUp(NOBODY), RCODE.noError)
})

test('mode open: addresses, names without a dot, metadata and ports other than 80 and 443 are refused by every way', async () => {
  assert.ok(await ways.gate.setPolicy(policy('open')))
  for (const host of ['10.0.0.1', '127.0.0.1', '169.254.169.254', '[::1]', 'localhost', 'intranet', 'metadata.google.internal']) {
    assert.match(await ask('absolute form', host), /^(?:address_refused|name_refused)$/, host)
    await assert.rejects(ways.dial('CONNECT', host, 443), /HTTP 403/, host)
  }
  await assert.rejects(ways.dial('CONNECT', NOBODY, 22), /HTTP 403/)
  await assert.rejects(ways.dial('SOCKS5', NOBODY, 25), /SOCKS 2/)
})

test('I18 a change of the mode is in force at once for names and requests', async () => {
  assert.ok(await ways.gate.setPolicy(policy('restricted')))
  assert.equal(await ask('CONNECT', API), 'ok')
  assert.equal(await lookUp(API), RCODE.noError)
  assert.ok(await ways.gate.setPolicy(policy('none')))
  assert.equal(await ask('absolute form', API), 'host_not_allowed')
  assert.equal(await lookUp(API), RCODE.nxDomain)
})

test('a route of the harness is of the control plane', async () => {
  const route = `routes:\n  - {name: ${routeTo('https', MODEL)}, upstream: "https://${MODEL}", addresses: ["127.0.0.0/8"]}\n`
  await writeFile(join(ways.gate.folder, 'harness', 'mine.yaml'), `${HARNESS}${route}`)
  assert.ok(await ways.gate.setPolicy(policy('none')))
  assert.equal(await ask('route', MODEL), 'ok')
  assert.deepEqual(
    (await decided()).map(({ lane, plane }) => [lane, plane]),
    [['route', 'control_plane']],
  )
})

/** I18: what runs when the policy changes goes on where it could begin now, and ends where it could not. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { headerOf } from '../support/http2-upstream.ts'
import {
  openRunningPeers,
  RUNNING,
  RUNNING_HOSTS,
  RUNNING_NAMES,
  type Running,
  type RunningName,
  type RunningPeers,
} from '../support/running.ts'
import { CANARY } from '../support/setting.ts'

const { api: API, pinned: PINNED, mail: MAIL } = RUNNING_HOSTS
const LOOPBACK = 'addresses: ["127.0.0.0/8"]'
const RULES = {
  // Answers that are looked into keep back what may be the beginning of a secret, as the last word of an echo.
  api: `{id: api, host: ${API}, action: allow, plaintext: accept, scrub: "off", ${LOOPBACK}}`,
  pinned: `{id: pinned, host: ${PINNED}, action: allow, tls: passthrough, ${LOOPBACK}}`,
  mail: `{id: mail, host: ${MAIL}, ports: [25], protocol: tcp, action: allow, ${LOOPBACK}}`,
}
const CREDENTIAL = `{id: token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}`
const ROUTE = `{name: ${routeTo('https', API)}, upstream: "https://${API}", credential: token, ${LOOPBACK}}`

type Parts = { rules?: Record<string, string>; credentials?: string; routes?: string; secrets?: string; network?: string }

function policy({ rules = RULES, credentials = CREDENTIAL, routes = ROUTE, secrets = 'env:API_TOKEN', network = '' }: Parts = {}): string {
  const list = (entries: readonly string[], indent: string): string =>
    entries.filter(Boolean).length === 0 ? ' []\n' : `\n${entries.map((entry) => `${indent}- ${entry}\n`).join('')}`
  return `version: 1
network:
${network}  rules:${list(Object.values(rules), '    ')}routes:${list([routes], '  ')}credentials:${list([credentials], '  ')}secrets:
  - {name: API_TOKEN, source: "${secrets}"}
`
}

const parts = new AsyncDisposableStack()
const env: Record<string, string> = { API_TOKEN: CANARY, OTHER_TOKEN: 'canary-other-61d0' }
let setting: EveryWay
let peers: RunningPeers

before(async () => {
  setting = parts.use(await openEveryWay(policy(), [API, PINNED, MAIL], { env }))
  peers = parts.use(await openRunningPeers(setting))
})
after(() => parts.disposeAsync())

/** Has all of them running, changes the policy, and says which ended: each has to prove either. */
async function change(to: string, isCut: (name: RunningName) => boolean, names: readonly RunningName[] = RUNNING_NAMES): Promise<void> {
  assert.ok(await setting.gate.setPolicy(policy()))
  const since = (await setting.gate.audit()).length
  const all = new Map<RunningName, Running>()
  for (const name of names) all.set(name, await RUNNING[name](setting, peers))
  for (const running of all.values()) await running.ping()
  assert.ok(await setting.gate.setPolicy(to))
  for (const [name, running] of all) {
    const outcome = await (isCut(name) ? running.closed.then(() => 'cut') : running.ping().then(() => 'goes on'))
    assert.equal(outcome, isCut(name) ? 'cut' : 'goes on', name)
  }
  // An idle tunnel is no exchange: it has no end in the audit.
  const expected = names.filter((name) => isCut(name) && name !== 'an idle tunnel').length
  await eventually(async () => {
    const events = (await setting.gate.audit()).slice(since)
    const begun = new Set(events.filter(({ decision }) => decision === 'allow').map(({ request }) => request))
    assert.equal(
      events.filter(({ event, code, request }) => event === 'finished' && code === 'policy_changed' && begun.has(request)).length,
      expected,
    )
  })
  for (const running of all.values()) running.end()
}

const NONE: readonly RunningName[] = []
const EVENTS = RUNNING_NAMES.filter((name) => name.startsWith('events'))
const OF_ROUTE: readonly RunningName[] = ['events by a route']
const OF_RULE = EVENTS.filter((name) => !OF_ROUTE.includes(name))
const BODIES: readonly RunningName[] = ['an upload', 'an HTTP/2 stream']
const BLIND: readonly RunningName[] = ['a tunnel that nobody looks into', 'a stream that is no HTTP']
const IDLE: readonly RunningName[] = ['an idle tunnel']
const WEBSOCKET: readonly RunningName[] = ['a WebSocket']

for (const { what, to, cut } of [
  {
    what: 'the order of rules changes, another rule comes, the secret is another',
    to: policy({
      rules: { ...RULES, mail: RULES.mail, more: '{id: more, host: more.example.com, action: allow}', api: RULES.api },
      secrets: 'env:OTHER_TOKEN',
    }),
    cut: NONE,
  },
  {
    what: 'the rule of the host has another id',
    to: policy({ rules: { ...RULES, api: RULES.api.replace('id: api', 'id: other') } }),
    cut: NONE,
  },
  {
    what: 'the rule of the host is gone',
    to: policy({ rules: { ...RULES, api: '{id: more, host: more.example.com, action: allow}' } }),
    cut: [...OF_RULE, ...BODIES, ...WEBSOCKET, ...IDLE],
  },
  {
    what: 'a rule denies the path of some',
    to: policy({ rules: { ...RULES, closed: `{id: closed, host: ${API}, paths: ["/events"], action: deny}` } }),
    cut: EVENTS,
  },
  {
    what: 'the rule allows GET alone',
    to: policy({ rules: { ...RULES, api: RULES.api.replace('action', 'methods: [GET], action') } }),
    cut: BODIES,
  },
  {
    what: 'the rule asks the operator',
    to: policy({ rules: { ...RULES, api: RULES.api.replace('allow', 'ask'), mail: RULES.mail.replace('allow', 'ask') } }),
    cut: [...EVENTS, ...BODIES, ...WEBSOCKET, 'a stream that is no HTTP'],
  },
  {
    what: 'the credential is another',
    to: policy({ credentials: CREDENTIAL.replace('token', 'other'), routes: ROUTE.replace('token', 'other') }),
    cut: [...EVENTS, ...BODIES, ...WEBSOCKET],
  },
  {
    what: 'the credential is for another path',
    to: policy({
      credentials: CREDENTIAL.replace('header', 'paths: ["/upload"], header'),
      routes: ROUTE.replace('credential: token, ', ''),
    }),
    cut: [...EVENTS, ...WEBSOCKET],
  },
  {
    what: 'the rule takes no plain text',
    to: policy({ rules: { ...RULES, api: RULES.api.replace('accept', 'refuse') } }),
    cut: WEBSOCKET,
  },
  {
    what: 'the addresses are others',
    to: policy({
      rules: Object.fromEntries(Object.entries(RULES).map(([id, rule]) => [id, rule.replace('127.0.0.0/8', '10.0.0.0/8')])),
      routes: ROUTE.replace('127.0.0.0/8', '10.0.0.0/8'),
    }),
    cut: [...EVENTS, ...BODIES, ...WEBSOCKET, ...BLIND],
  },
  {
    what: 'the pinned host is looked into',
    to: policy({ rules: { ...RULES, pinned: RULES.pinned.replace('passthrough', 'intercept') } }),
    cut: ['a tunnel that nobody looks into'],
  },
  {
    what: 'the tcp rule is gone',
    to: policy({ rules: { api: RULES.api, pinned: RULES.pinned } }),
    cut: ['a stream that is no HTTP'],
  },
  { what: 'the route is gone', to: policy({ routes: '' }), cut: OF_ROUTE },
  { what: 'the route has a base path', to: policy({ routes: ROUTE.replace(`//${API}`, `//${API}/v2`) }), cut: OF_ROUTE },
  { what: 'the route leads to another port', to: policy({ routes: ROUTE.replace(`//${API}`, `//${API}:8443`) }), cut: OF_ROUTE },
  { what: 'the mode is none', to: policy({ network: '  mode: none\n' }), cut: RUNNING_NAMES },
] satisfies { what: string; to: string; cut: readonly RunningName[] }[]) {
  test(`I18 ${what}: ${cut.length === 0 ? 'all that runs goes on' : `${cut.join(', ')} cut, the rest not`}`, async () => {
    await change(to, (name) => cut.includes(name))
  })
}

test('I81 what runs by rules that end is cut when they end, by every way, and nothing new begins by them', async () => {
  const timed = (of: Record<string, string>, until: string): string =>
    policy({
      rules: Object.fromEntries(Object.entries(of).map(([id, rule]) => [id, rule.replace('action: allow', `action: allow, ${until}`)])),
    })
  assert.ok(await setting.gate.setPolicy(policy()))
  const all = new Map<RunningName, Running>()
  for (const name of RUNNING_NAMES) all.set(name, await RUNNING[name](setting, peers))
  assert.ok(await setting.gate.setPolicy(timed(RULES, `expires: "${new Date(Date.now() + 1_000).toISOString()}"`)))
  for (const [name, running] of all) if (!OF_ROUTE.includes(name)) await running.closed
  const begun = (await setting.gate.audit()).length
  for (const name of ['events by CONNECT', 'a stream that is no HTTP'] as const) await assert.rejects(RUNNING[name](setting, peers), name)
  // Whatever is read anew from the same file, what ended stays so.
  assert.ok(await setting.gate.setPolicy(timed(RULES, 'expires: "2020-01-01T00:00:00Z"')))
  await assert.rejects(RUNNING['a tunnel that nobody looks into'](setting, peers))
  const since = (await setting.gate.audit()).slice(begun)
  assert.ok(since.length > 0 && since.every(({ decision }) => decision !== 'allow'))
  for (const running of all.values()) running.end()
})

test('I18 a policy with an error cuts nothing', async () => {
  assert.ok(await setting.gate.setPolicy(policy()))
  const running = await RUNNING['events by CONNECT'](setting, peers)
  assert.equal(await setting.gate.setPolicy('version: 1\nnetwork: {rules: [{host: 1}]}\n'), false)
  await running.ping()
  running.end()
})

test('I18 I7 a connection of the upstream from before the change carries nothing after it', async () => {
  assert.ok(await setting.gate.setPolicy(policy()))
  const idle = await RUNNING['an idle tunnel'](setting, peers)
  await idle.ping()
  await idle.ping()
  const [first, second] = peers.secure.requests.slice(-2)
  assert.equal(first?.remotePort, second?.remotePort, 'they share one, while the policy is the same')
  assert.ok(await setting.gate.setPolicy(policy({ secrets: 'env:OTHER_TOKEN' })))
  await idle.ping()
  const third = peers.secure.requests.at(-1)
  assert.notEqual(third?.remotePort, first?.remotePort)
  assert.equal(headerOf(third, 'authorization'), `Bearer ${env['OTHER_TOKEN']}`)
  idle.end()
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { factsOf, hostname, policyOf, verdict, type Parts } from '../../support/policy.ts'

function decides(title: string, parts: Parts, table: Readonly<Record<string, string>>): void {
  test(title, () => {
    const policy = policyOf(parts)
    for (const [request, expected] of Object.entries(table)) assert.equal(verdict(policy.decide(factsOf(request))), expected, request)
  })
}

decides(
  'an empty list of rules denies everything',
  {},
  { 'GET https://api.example.com/': 'host_not_allowed', 'GET http://1.1.1.1/': 'host_not_allowed' },
)

decides(
  'an exact host allows itself alone',
  { rules: [{ id: 'api', host: 'api.example.com' }] },
  {
    'GET https://api.example.com/': 'allow api',
    'DELETE http://api.example.com/any?thing': 'allow api',
    'GET https://example.com/': 'host_not_allowed',
    'GET https://x.api.example.com/': 'host_not_allowed',
    'GET https://api.example.com:8443/': 'host_not_allowed',
  },
)

decides(
  'a wildcard allows names at any depth below it, never the apex',
  { rules: [{ id: 'below', host: '*.example.com' }] },
  {
    'GET https://a.example.com/': 'allow below',
    'GET https://a.b.c.example.com/': 'allow below',
    'GET https://example.com/': 'host_not_allowed',
    'GET https://evilexample.com/': 'host_not_allowed',
    'GET https://example.com.evil.net/': 'host_not_allowed',
  },
)

decides(
  'ports, methods and paths narrow a rule',
  { rules: [{ id: 'api', host: 'api.example.com', ports: [8443], methods: ['GET', 'HEAD'], paths: ['/v1/*/items', '/files/**'] }] },
  {
    'GET https://api.example.com:8443/v1/x/items?q=/../': 'allow api',
    'HEAD https://api.example.com:8443/files': 'allow api',
    'GET https://api.example.com:8443/files/a/b/': 'allow api',
    'GET https://api.example.com:8443/v1/x/y/items': 'denied_by_rule',
    'GET https://api.example.com:8443/V1/x/items': 'denied_by_rule',
    'POST https://api.example.com:8443/files/a': 'denied_by_rule',
    'GET https://api.example.com/files/a': 'host_not_allowed',
  },
)

decides(
  'the strictest matching rule wins, however specific the others and in whatever order',
  {
    rules: [
      { id: 'exact', host: 'api.example.com' },
      { id: 'no-admin', host: '*.example.com', paths: ['/admin/**'], action: 'deny' },
      { id: 'ask-write', host: 'api.example.com', methods: ['POST'], action: 'ask' },
      { id: 'all', host: '*.example.com' },
    ],
  },
  {
    'GET https://api.example.com/x': 'allow exact',
    'GET https://api.example.com/admin': 'denied_by_rule no-admin',
    'POST https://api.example.com/admin/x': 'denied_by_rule no-admin',
    'POST https://api.example.com/x': 'ask ask-write',
    'POST https://b.example.com/x': 'allow all',
  },
)

decides(
  'a denial sees through encodings and parameters that a lenient server ignores, an allowance does not',
  {
    rules: [
      { id: 'all', host: 'api.example.com', paths: ['/**'] },
      { id: 'no', host: 'api.example.com', paths: ['/admin', '/@scope/**', '/%40other'], action: 'deny' },
      { id: 'only', host: 'b.example.com', paths: ['/@scope/x'] },
    ],
  },
  {
    'GET https://api.example.com/admin;x=1': 'denied_by_rule no',
    'GET https://api.example.com/admin%3Bx': 'denied_by_rule no',
    'GET https://api.example.com/%40scope/p': 'denied_by_rule no',
    'GET https://api.example.com/@other': 'denied_by_rule no',
    'GET https://api.example.com/administrator': 'allow all',
    'GET https://b.example.com/@scope/x': 'allow only',
    'GET https://b.example.com/%40scope/x': 'denied_by_rule',
  },
)

decides(
  'what is denied on port 443 is denied to plain http that would leave there',
  {
    rules: [
      { id: 'up', host: 'api.example.com', upgrade: 'https' },
      { id: 'no', host: 'api.example.com', ports: [443], paths: ['/admin/**'], action: 'deny' },
    ],
  },
  { 'GET http://api.example.com/x': 'allow up', 'GET http://api.example.com/admin/x': 'denied_by_rule no' },
)

test('among rules that allow, intercept wins over passthrough, then the more specific, then the one that opens less', () => {
  const policy = policyOf({
    rules: [
      { id: 'pin', host: 'a.example.com', tls: 'passthrough' },
      { id: 'wide', host: '*.example.com', ports: [443] },
      { id: 'open', host: 'b.example.com', addresses: ['10.0.0.0/8'] },
      { id: 'closed', host: 'b.example.com', methods: ['GET'] },
      { id: 'loose', host: 'c.example.com', plaintext: 'accept' },
      { id: 'tight', host: 'c.example.com', ports: [80] },
    ],
  })
  assert.equal(verdict(policy.decide(factsOf('GET https://a.example.com/'))), 'allow wide')
  assert.equal(verdict(policy.decide(factsOf('GET http://a.example.com/'))), 'allow pin')
  assert.equal(verdict(policy.decide(factsOf('GET https://b.example.com/'))), 'allow closed')
  assert.equal(verdict(policy.decide(factsOf('POST https://b.example.com/'))), 'allow open')
  assert.equal(verdict(policy.decide(factsOf('GET http://c.example.com/'))), 'allow tight')
})

test('a rule hands on what it says, with addresses parsed', () => {
  const decision = policyOf({ rules: [{ id: 'r', host: 'r.example.com', upgrade: 'https', addresses: ['10.1.0.0/16'] }] }).decide(
    factsOf('GET http://r.example.com/'),
  )
  assert.deepEqual(decision, {
    action: 'allow',
    rule: {
      id: 'r',
      tls: 'intercept',
      upgrade: true,
      plaintext: false,
      addresses: [{ text: '10.1.0.0/16', family: 4, first: 0x0a01_0000n, last: 0x0a01_ffffn }],
      plane: 'agent',
      scrub: 'replace',
      ownCredentials: undefined,
    },
  })
})

test('a rule hands on what becomes of echoed secrets and of what the agent sends itself, also where it asks', () => {
  for (const action of ['allow', 'ask']) {
    const decision = policyOf({ rules: [{ id: 'r', host: 'r.example.com', action, scrub: 'block', own_credentials: 'deny' }] }).decide(
      factsOf('GET https://r.example.com/'),
    )
    assert.equal(decision.action, action)
    assert.deepEqual(decision.action === 'deny' ? undefined : [decision.rule.scrub, decision.rule.ownCredentials], ['block', 'deny'])
  }
})

for (const { key, order } of [
  { key: 'scrub', order: ['block', 'replace', 'off'] },
  { key: 'own_credentials', order: ['deny', 'drop', undefined, 'pass'] },
]) {
  test(`of rules that are as specific as each other the stricter ${key} holds, wherever it is written`, () => {
    const rules = order.map((value, index) => ({ id: `r${index}`, host: 'r.example.com', methods: ['GET', `M${index}`], [key]: value }))
    for (const [index] of order.entries())
      for (const chosen of [rules.slice(index), rules.slice(index).toReversed()])
        assert.equal(verdict(policyOf({ rules: chosen }).decide(factsOf('GET https://r.example.com/'))), `allow r${index}`)
  })
}

test('what leaves on port 443 by an upgrade is as strict as what a rule says of that port', () => {
  const policy = policyOf({
    rules: [
      { id: 'wide', host: '*.example.com', upgrade: 'https' },
      { id: 'exact', host: 'r.example.com', ports: [443], scrub: 'block', own_credentials: 'deny' },
    ],
  })
  const decision = policy.decide(factsOf('GET http://r.example.com/'))
  assert.deepEqual(decision.action === 'allow' ? [decision.rule.id, decision.rule.scrub, decision.rule.ownCredentials] : decision, [
    'wide',
    'block',
    'deny',
  ])
  const other = policy.decide(factsOf('GET http://s.example.com/'))
  assert.deepEqual(other.action === 'allow' ? [other.rule.scrub, other.rule.ownCredentials] : other, ['replace', undefined])
})

test('a route is as strict as the rule that asks about its request', () => {
  const policy = policyOf({
    rules: [{ id: 'ask', host: 'r.example.com', action: 'ask', scrub: 'block', own_credentials: 'drop' }],
    routes: [{ name: 'r', upstream: 'https://r.example.com' }],
  })
  const [route] = policy.routes
  assert.ok(route)
  const decision = policy.decideRoute(route, factsOf('GET https://r.example.com/'))
  assert.equal(decision.action, 'ask')
  assert.deepEqual(decision.action === 'ask' && [decision.rule.scrub, decision.rule.ownCredentials], ['block', 'drop'])
})

test('refusals name the host, the rule and a way out, and no control character of the request', () => {
  const policy = policyOf({ rules: [{ id: 'r', host: 'r.example.com', ports: [8443], methods: ['GET'] }] })
  const denied = (request: string): string => {
    const decision = policy.decide(factsOf(request))
    return decision.action === 'deny' ? `${decision.refusal.message} | ${decision.refusal.hint}` : 'allowed'
  }
  assert.match(denied('GET https://evil.example.com/'), /no rule allows evil\.example\.com \| the operator can add/)
  assert.match(denied('GET https://r.example.com/'), /on port 443 \| rules name port 8443/)
  assert.match(denied('POST https://r.example.com:8443/a\u001b[2K'), /allows POST \/a\?\[2K/)
})

const TUNNELS: readonly { title: string; rules: readonly object[]; expected: string; tls?: string }[] = [
  { title: 'no rule: refused', rules: [], expected: 'host_not_allowed' },
  { title: 'another port: refused', rules: [{ id: 'a', host: 't.example.com', ports: [8443] }], expected: 'host_not_allowed' },
  { title: 'an allowance: intercepted', rules: [{ id: 'a', host: 't.example.com' }], expected: 'allow a', tls: 'intercept' },
  {
    title: 'passthrough alone: passed through',
    rules: [{ id: 'p', host: 't.example.com', tls: 'passthrough' }],
    expected: 'allow p',
    tls: 'passthrough',
  },
  {
    title: 'passthrough, and another allowance that intercepts: intercepted',
    rules: [
      { id: 'p', host: 't.example.com', tls: 'passthrough' },
      { id: 'a', host: '*.example.com', methods: ['GET'] },
    ],
    expected: 'allow a',
    tls: 'intercept',
  },
  {
    title: 'passthrough, and a denial of some paths: intercepted',
    rules: [
      { id: 'p', host: 't.example.com', tls: 'passthrough' },
      { id: 'no', host: '*.example.com', paths: ['/x'], action: 'deny' },
    ],
    expected: 'allow p',
    tls: 'intercept',
  },
  {
    title: 'passthrough, and a question about some methods: intercepted',
    rules: [
      { id: 'p', host: 't.example.com', tls: 'passthrough' },
      { id: 'q', host: '*.example.com', methods: ['POST'], action: 'ask' },
    ],
    expected: 'allow p',
    tls: 'intercept',
  },
  {
    title: 'an allowance, and a denial without conditions on the port: refused',
    rules: [
      { id: 'a', host: 't.example.com' },
      { id: 'no', host: '*.example.com', ports: [443], action: 'deny' },
    ],
    expected: 'denied_by_rule no',
  },
  {
    title: 'an allowance, and a question without conditions: opened, and each request inside asks',
    rules: [
      { id: 'a', host: 't.example.com' },
      { id: 'q', host: '*.example.com', action: 'ask' },
    ],
    expected: 'allow a',
    tls: 'intercept',
  },
  {
    title: 'conditional denials alone: refused',
    rules: [{ id: 'no', host: 't.example.com', methods: ['GET'], action: 'deny' }],
    expected: 'denied_by_rule no',
  },
  {
    title: 'conditional questions alone: a question',
    rules: [{ id: 'q', host: 't.example.com', methods: ['GET'], action: 'ask' }],
    expected: 'ask q',
    tls: 'intercept',
  },
]

for (const { title, rules, expected, tls } of TUNNELS) {
  test(`CONNECT with ${title}`, () => {
    const decision = policyOf({ rules }).decideTunnel(hostname('t.example.com'), 443)
    assert.equal(verdict(decision), expected)
    assert.equal(decision.action === 'deny' ? undefined : decision.rule.tls, tls)
  })
}

test('a tunnel that is looked into may lead wherever one of its rules may', () => {
  const policy = policyOf({
    rules: [
      { id: 'a', host: 't.example.com', methods: ['GET'] },
      { id: 'b', host: 't.example.com', methods: ['POST'], addresses: ['10.0.0.0/8'] },
    ],
  })
  const tunnel = policy.decideTunnel(hostname('t.example.com'), 443)
  assert.equal(tunnel.action === 'allow' && policy.judgeAddresses(hostname('t.example.com'), tunnel.rule, ['10.0.0.9'], []), undefined)
  const inside = policy.decide(factsOf('GET https://t.example.com/'))
  assert.equal(
    inside.action === 'allow' && policy.judgeAddresses(hostname('t.example.com'), inside.rule, ['10.0.0.9'], [])?.code,
    'address_refused',
  )
})

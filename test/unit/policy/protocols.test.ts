import assert from 'node:assert/strict'
import { test } from 'node:test'
import { factsOf, hostname, policyOf, problemsOf, verdict } from '../../support/policy.ts'

const tcp = (id: string, more: object = {}): object => ({ id, host: 'db.example.com', ports: [5432, 9999], protocol: 'tcp', ...more })
const any = (id: string, more: object = {}): object => ({ id, host: 'db.example.com', ports: [5432, 9999], ...more })
/** Leaves port 9999 open, so that no rule is unreachable as a whole. */
const denial = (more: object = {}): object => ({ id: 'no', host: 'db.example.com', ports: [5432], action: 'deny', ...more })

const TUNNELS: readonly { title: string; rules: readonly object[]; expected: string; carries?: string }[] = [
  { title: 'a tcp rule: bytes as they are', rules: [tcp('t')], expected: 'allow t', carries: 'tcp' },
  { title: 'a tcp rule on another port: refused', rules: [tcp('t', { ports: [5433] })], expected: 'host_not_allowed' },
  { title: 'a tcp rule for another host: refused', rules: [tcp('t', { host: '*.db.example.com' })], expected: 'host_not_allowed' },
  { title: 'a question about tcp: asked', rules: [tcp('q', { action: 'ask' })], expected: 'ask q', carries: 'tcp' },
  {
    title: 'a tcp rule and a question about tcp: asked, as the stricter one holds',
    rules: [tcp('t'), tcp('q', { host: '*.example.com', action: 'ask' })],
    expected: 'ask q',
    carries: 'tcp',
  },
  {
    title: 'a tcp rule and a question about any protocol: asked, and still tcp',
    rules: [tcp('t'), any('q', { action: 'ask' })],
    expected: 'ask q',
    carries: 'tcp',
  },
  { title: 'a question about any protocol alone: recognised', rules: [any('q', { action: 'ask' })], expected: 'ask q', carries: 'http' },
  {
    title: 'a tcp rule and an http rule: looked into',
    rules: [tcp('t'), any('h', { methods: ['GET'] })],
    expected: 'allow h',
    carries: 'http',
  },
  {
    title: 'a tcp rule and a question about some requests: looked into',
    rules: [tcp('t'), any('q', { action: 'ask', methods: ['POST'] })],
    expected: 'ask q',
    carries: 'http',
  },
  {
    title: 'a question about tcp and an http rule: looked into, and not asked',
    rules: [tcp('q', { action: 'ask' }), any('h')],
    expected: 'allow h',
    carries: 'http',
  },
  { title: 'a tcp rule and a denial of tcp: refused', rules: [tcp('t'), denial({ protocol: 'tcp' })], expected: 'denied_by_rule no' },
  {
    title: 'an http rule and a denial of tcp: looked into, as the denial is about tcp',
    rules: [any('h'), denial({ protocol: 'tcp' })],
    expected: 'allow h',
    carries: 'http',
  },
  { title: 'a denial of tcp alone: refused', rules: [denial({ protocol: 'tcp' })], expected: 'host_not_allowed' },
  {
    title: 'tcp and http rules and a denial of any protocol: refused',
    rules: [tcp('t', { host: '*.example.com' }), any('h'), denial()],
    expected: 'denied_by_rule no',
  },
]

for (const { title, rules, expected, carries } of TUNNELS) {
  test(`a connection with ${title}`, () => {
    const policy = policyOf({ rules })
    const tunnel = policy.decideTunnel(hostname('db.example.com'), 5432)
    assert.equal(verdict(tunnel), expected)
    assert.equal(tunnel.action === 'deny' ? undefined : tunnel.carries, carries)
  })
}

test('a tcp connection is refused where some requests are denied: nobody can see what it carries', () => {
  const rules = [tcp('t'), denial({ paths: ['/admin/**'] })]
  const tunnel = policyOf({ rules }).decideTunnel(hostname('db.example.com'), 5432)
  assert.equal(verdict(tunnel), 'denied_by_rule no')
  assert.match(tunnel.action === 'deny' ? tunnel.refusal.message : '', /nobody can see what a tcp connection carries/)
})

test('requests are decided by http rules alone, and a refusal names the tcp rule that a connection would pass by', () => {
  const policy = policyOf({
    rules: [tcp('t'), tcp('no', { host: 'web.example.com', ports: [443], action: 'deny' }), { id: 'w', host: 'web.example.com' }],
  })
  const decision = policy.decide(factsOf('GET http://db.example.com:5432/'))
  assert.equal(verdict(decision), 'host_not_allowed')
  assert.match(decision.action === 'deny' ? (decision.refusal.hint ?? '') : '', /rule "t" is about tcp connections there/)
  assert.equal(verdict(policy.decide(factsOf('GET https://web.example.com/'))), 'allow w')
})

test('what a question that is approved may do is what its rule says', () => {
  const policy = policyOf({
    rules: [
      { id: 'all', host: 'a.example.com' },
      { id: 'q', host: 'a.example.com', action: 'ask', addresses: ['10.0.0.0/8'], upgrade: 'https' },
      { id: 'plain', host: 'b.example.com', action: 'ask', plaintext: 'accept' },
    ],
  })
  const asked = policy.decide(factsOf('GET http://a.example.com/'))
  assert.equal(verdict(asked), 'ask q')
  assert.ok(asked.action === 'ask')
  assert.deepEqual([asked.rule.upgrade, asked.rule.plaintext, asked.rule.tls], [true, false, 'intercept'])
  assert.equal(policy.judgeAddresses(hostname('a.example.com'), asked.rule, ['10.1.2.3'], []), undefined)
  const plain = policy.decide(factsOf('GET http://b.example.com/'))
  assert.equal(plain.action === 'ask' && plain.rule.plaintext, true)
  const tunnel = policy.decideTunnel(hostname('a.example.com'), 443)
  assert.ok(tunnel.action === 'allow')
  assert.equal(policy.judgeAddresses(hostname('a.example.com'), tunnel.rule, ['10.1.2.3'], []), undefined)
})

test('what is asked about on port 443 is asked about for plain http that would leave there, and still leaves there', () => {
  const policy = policyOf({
    rules: [
      { id: 'up', host: 'api.example.com', upgrade: 'https' },
      { id: 'q', host: 'api.example.com', ports: [443], methods: ['POST'], action: 'ask' },
      { id: 'ask-up', host: 'b.example.com', upgrade: 'https', action: 'ask' },
      { id: 'no', host: 'b.example.com', ports: [443], methods: ['POST'], action: 'deny' },
    ],
  })
  const asked = policy.decide(factsOf('POST http://api.example.com/'))
  assert.equal(verdict(asked), 'ask q')
  assert.equal(asked.action === 'ask' && asked.rule.upgrade, true)
  assert.equal(verdict(policy.decide(factsOf('GET http://api.example.com/'))), 'allow up')
  assert.equal(verdict(policy.decide(factsOf('POST http://b.example.com/'))), 'denied_by_rule no')
  assert.equal(verdict(policy.decide(factsOf('GET http://b.example.com/'))), 'ask ask-up')
})

for (const { field, value } of [
  { field: 'methods', value: ['GET'] },
  { field: 'paths', value: ['/x'] },
  { field: 'tls', value: 'passthrough' },
  { field: 'upgrade', value: 'https' },
  { field: 'plaintext', value: 'accept' },
]) {
  for (const action of ['allow', 'ask', 'deny']) {
    test(`a tcp rule that would ${action} with ${field} is refused: nothing could enforce it`, () => {
      const { errors } = problemsOf({ rules: [tcp('t', { action, [field]: value })] })
      assert.deepEqual(errors.length, 1, errors.join('\n'))
      assert.match(errors[0] ?? '', new RegExp(`:2: rule "t": ${field} is about HTTP, and nothing looks into a tcp connection`))
    })
  }
}

test('a tcp rule without ports is refused, and nothing else is said of it', () => {
  const { errors, warnings } = problemsOf({
    rules: [
      { id: 't', host: 'a.example.com', protocol: 'tcp' },
      { id: 'no', host: 'a.example.com', action: 'deny' },
      { id: 'w', host: '*.example.com', methods: ['GET'] },
    ],
  })
  assert.deepEqual(errors, ['policy.yaml:2: rule "t": protocol: tcp needs ports: name those that are meant'])
  assert.deepEqual(warnings, [])
})

test('a tcp rule whose port http rules are about as well is warned about, and one beside them is not', () => {
  const { errors, warnings } = problemsOf({
    rules: [
      tcp('t'),
      { id: 'h', host: '*.example.com', ports: [443, 9999], methods: ['GET'] },
      tcp('beside', { ports: [5433] }),
      tcp('elsewhere', { host: 'db.example.net' }),
    ],
  })
  assert.deepEqual(errors, [])
  assert.deepEqual(
    warnings.filter((warning) => warning.includes('taken for HTTP')),
    [
      'policy.yaml:2: rule "t": connections are taken for HTTP where rule "h" (policy.yaml:3) is about the same host and port: name other ports',
    ],
  )
})

test('tcp on a port of the web is warned about: requests pass unseen', () => {
  const { warnings } = problemsOf({ rules: [tcp('t', { ports: [443] })] })
  assert.match(warnings.join(), /rule "t": protocol: tcp lets web requests pass unseen on this port/)
})

test('a tcp rule that a denial of requests closes is unreachable', () => {
  const { errors } = problemsOf({ rules: [tcp('t', { ports: [5432] }), denial({ methods: ['POST'] })] })
  assert.match(errors.join(), /:2: rule "t" is unreachable: rule "no" \(policy\.yaml:3\) denies some requests there, and nobody can see/)
})

test('a passthrough rule keeps its effect beside a tcp rule, which looks at nothing', () => {
  const { warnings } = problemsOf({
    rules: [{ id: 'p', host: 'db.example.com', tls: 'passthrough', ports: [443] }, tcp('t', { ports: [5432] })],
  })
  assert.deepEqual(warnings, [])
})

test('a credential for a host that only tcp reaches is refused: it could never be written', () => {
  const credential = {
    id: 'c',
    secret: 'T',
    inject: { domains: ['db.example.com'], methods: ['GET'], header: 'Authorization', prefix: 'Bearer ' },
  }
  const secrets = [{ name: 'T', source: 'env:T' }]
  assert.match(
    problemsOf({ rules: [tcp('t')], credentials: [credential], secrets }).errors.join(),
    /credential "c": db\.example\.com is reached through rule "t" \(policy\.yaml:2\) only, and nothing can be written into a tcp connection/,
  )
  const beside = problemsOf({ rules: [tcp('t'), { id: 'q', host: 'db.example.com', action: 'ask' }], credentials: [credential], secrets })
  assert.deepEqual(beside.errors, [])
  assert.doesNotMatch(beside.warnings.join(), /no rule allows/)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { factsOf, hostname, policyOf, problemsOf, verdict, type Parts } from '../../support/policy.ts'

const open = (parts: Parts = {}): Parts => ({ ...parts, network: { mode: 'open' } })

const OPEN_TABLE: readonly { title: string; rules?: readonly object[]; table: Readonly<Record<string, string>> }[] = [
  {
    title: 'lets every public host through on ports 80 and 443',
    table: {
      'GET https://a.example.com/': 'allow open',
      'POST http://deep.b.example.com/x?y': 'allow open',
      'GET https://1.1.1.1/': 'allow open',
      'GET https://a.example.com:8443/': 'host_not_allowed',
      'GET http://a.example.com:22/': 'host_not_allowed',
    },
  },
  {
    title: 'lets no name through that is set aside, no neighbour and no private address',
    table: {
      'GET https://localhost/': 'name_refused open',
      'GET https://metadata.google.internal/': 'name_refused open',
      'GET http://10.0.0.1.nip.io/': 'name_refused open',
      'GET http://db/': 'name_refused open',
      'GET http://10.0.0.1/': 'address_refused open',
      'GET http://169.254.169.254/latest/': 'address_refused open',
    },
  },
  {
    title: 'holds to denials and questions, with and without conditions',
    rules: [
      { id: 'no', host: '*.evil.example.com', action: 'deny' },
      { id: 'no-write', host: 'b.example.com', methods: ['POST'], action: 'deny' },
      { id: 'q', host: 'c.example.com', action: 'ask' },
      { id: 'q-admin', host: 'd.example.com', paths: ['/admin/**'], action: 'ask' },
    ],
    table: {
      'GET https://x.evil.example.com/': 'denied_by_rule no',
      'GET https://b.example.com/': 'allow open',
      'POST https://b.example.com/': 'denied_by_rule no-write',
      'GET https://c.example.com/': 'ask q',
      'GET https://d.example.com/x': 'allow open',
      'GET https://d.example.com/admin;x/y': 'ask q-admin',
      'GET https://d.example.com/x/../admin': 'path_not_canonical',
    },
  },
  {
    title: 'allows what conditional allowances of the host leave out, and other ports only by a rule',
    rules: [{ id: 'api', host: 'a.example.com', ports: [443, 8443], methods: ['GET'], paths: ['/v1/**'] }],
    table: {
      'GET https://a.example.com/v1/x': 'allow api',
      'POST https://a.example.com/v1/x': 'allow open',
      'GET https://a.example.com/v2': 'allow open',
      'GET https://a.example.com:8443/v1/x': 'allow api',
      'GET https://a.example.com:8443/v2': 'denied_by_rule',
    },
  },
  {
    title: 'lets private names and addresses through where a rule opens them',
    rules: [{ id: 'in', host: 'db.internal', addresses: ['10.0.0.0/8'] }],
    table: { 'GET https://db.internal/': 'allow in', 'GET https://other.internal/': 'name_refused open' },
  },
]

test('a port that a rule gives to tcp is none of mode open, and a denial of tcp leaves it alone', () => {
  const policy = policyOf(
    open({
      rules: [
        { id: 't', host: 'a.example.com', ports: [443], protocol: 'tcp' },
        { id: 'no', host: 'b.example.com', ports: [443], protocol: 'tcp', action: 'deny' },
      ],
    }),
  )
  assert.equal(verdict(policy.decide(factsOf('GET https://a.example.com/'))), 'host_not_allowed')
  assert.equal(verdict(policy.decide(factsOf('GET http://a.example.com/'))), 'allow open')
  assert.equal(verdict(policy.decideTunnel(hostname('a.example.com'), 443)), 'allow t')
  assert.equal(verdict(policy.decide(factsOf('GET https://b.example.com/'))), 'allow open')
  assert.equal(verdict(policy.decideTunnel(hostname('b.example.com'), 443)), 'allow open')
})

for (const { title, rules = [], table } of OPEN_TABLE) {
  test(`mode open ${title}`, () => {
    const policy = policyOf(open({ rules }))
    for (const [request, expected] of Object.entries(table)) assert.equal(verdict(policy.decide(factsOf(request))), expected, request)
  })
}

for (const { title, rules, expected, tls } of [
  { title: 'no rule: intercepted', rules: [], expected: 'allow open', tls: 'intercept' },
  {
    title: 'passthrough: passed through',
    rules: [{ id: 'p', host: 't.example.com', tls: 'passthrough' }],
    expected: 'allow p',
    tls: 'passthrough',
  },
  {
    title: 'a denial of some requests: open to the others',
    rules: [{ id: 'n', host: 't.example.com', methods: ['GET'], action: 'deny' }],
    expected: 'allow open',
    tls: 'intercept',
  },
  {
    title: 'a question about some requests: open to the others',
    rules: [{ id: 'q', host: 't.example.com', methods: ['GET'], action: 'ask' }],
    expected: 'allow open',
    tls: 'intercept',
  },
  { title: 'a question about all: asked', rules: [{ id: 'q', host: 't.example.com', action: 'ask' }], expected: 'ask q', tls: 'intercept' },
  {
    title: 'a denial of all: refused',
    rules: [{ id: 'n', host: '*.example.com', action: 'deny' }],
    expected: 'denied_by_rule n',
    tls: undefined,
  },
]) {
  test(`mode open, CONNECT with ${title}`, () => {
    const tunnel = policyOf(open({ rules })).decideTunnel(hostname('t.example.com'), 443)
    assert.equal(verdict(tunnel), expected)
    assert.equal(tunnel.action === 'deny' ? undefined : tunnel.rule.tls, tls)
  })
}

test('mode open opens no tunnel to another port, a name that is set aside or a private address', () => {
  const policy = policyOf(open())
  for (const [host, port, expected] of [
    ['a.example.com', 22, 'host_not_allowed'],
    ['localhost', 443, 'name_refused open'],
    ['127.0.0.1', 80, 'address_refused open'],
  ] as const)
    assert.equal(verdict(policy.decideTunnel(hostname(host), port)), expected)
})

test('mode open writes a credential only where it is bound, and never by a path with two readings', () => {
  const policy = policyOf(
    open({
      credentials: [
        { id: 'c', secret: 'T', inject: { domains: ['a.example.com'], methods: ['GET'], paths: ['/v1/**'], header: 'X-Api-Key' } },
      ],
      secrets: [{ name: 'T', source: 'env:T' }],
    }),
  )
  assert.equal(policy.credentialFor(factsOf('GET https://a.example.com/v1/x'))?.id, 'c')
  assert.equal(policy.credentialFor(factsOf('GET https://b.example.com/v1/x')), undefined)
  assert.equal(verdict(policy.decide(factsOf('GET https://a.example.com/x/../v1/y'))), 'path_not_canonical')
  assert.doesNotMatch(policy.warnings.map(({ message }) => message).join(), /no rule allows/)
})

test('mode open is warned about, and refuses a rule whose id it uses itself', () => {
  const { errors, warnings } = problemsOf(open({ rules: [{ id: 'open', host: 'a.example.com' }] }))
  assert.match(errors.join(), /policy\.yaml:2: rule "open": with network\.mode: open this id/)
  assert.match(warnings.join(), /policy\.yaml:1: network\.mode: open lets every public host through/)
  assert.deepEqual(problemsOf({ rules: [{ id: 'open', host: 'a.example.com' }] }).errors, [])
})

test('the later layer says the mode and whether a lease is required; without a word it is restricted and optional', () => {
  const plain = policyOf({})
  assert.equal(plain.isLeaseRequired, false)
  assert.equal(plain.effective.mode.value, 'restricted')
  assert.equal(policyOf({ network: { lease: 'required' } }).isLeaseRequired, true)
  assert.equal(policyOf({ network: { lease: 'optional' } }).isLeaseRequired, false)
})

for (const { title, parts, host, known } of [
  { title: 'an allowed host', parts: { rules: [{ id: 'a', host: 'a.example.com' }] }, host: 'a.example.com', known: true },
  { title: 'a host beside it', parts: { rules: [{ id: 'a', host: 'a.example.com' }] }, host: 'b.example.com', known: false },
  { title: 'the apex of a wildcard', parts: { rules: [{ id: 'a', host: '*.example.com' }] }, host: 'example.com', known: false },
  {
    title: 'a host that is asked about',
    parts: { rules: [{ id: 'q', host: 'a.example.com', action: 'ask' }] },
    host: 'a.example.com',
    known: true,
  },
  {
    title: 'a host of tcp on one port',
    parts: { rules: [{ id: 't', host: 'a.example.com', ports: [5432], protocol: 'tcp' }] },
    host: 'a.example.com',
    known: true,
  },
  {
    title: 'a host that is denied',
    parts: { rules: [{ id: 'n', host: 'a.example.com', action: 'deny' }] },
    host: 'a.example.com',
    known: false,
  },
  {
    title: 'a host denied below an allowed wildcard',
    parts: {
      rules: [
        { id: 'w', host: '*.example.com' },
        { id: 'n', host: 'a.example.com', action: 'deny' },
      ],
    },
    host: 'a.example.com',
    known: false,
  },
  {
    title: 'its neighbour below that wildcard',
    parts: {
      rules: [
        { id: 'w', host: '*.example.com' },
        { id: 'n', host: 'a.example.com', action: 'deny' },
      ],
    },
    host: 'b.example.com',
    known: true,
  },
  {
    title: 'a host denied on one of its ports',
    parts: {
      rules: [
        { id: 'w', host: '*.example.com' },
        { id: 'n', host: 'a.example.com', ports: [443], action: 'deny' },
      ],
    },
    host: 'a.example.com',
    known: true,
  },
  { title: 'any public name in mode open', parts: open(), host: 'x.example.net', known: true },
  { title: 'a name without a dot in mode open', parts: open(), host: 'db', known: false },
  { title: 'a name that is set aside in mode open', parts: open(), host: 'x.internal', known: false },
  {
    title: 'a denied name in mode open',
    parts: open({ rules: [{ id: 'n', host: 'a.example.com', action: 'deny' }] }),
    host: 'a.example.com',
    known: false,
  },
  {
    title: 'a name denied on 443 in mode open',
    parts: open({ rules: [{ id: 'n', host: 'a.example.com', ports: [443], action: 'deny' }] }),
    host: 'a.example.com',
    known: true,
  },
]) {
  test(`${title} is ${known ? 'a' : 'no'} known name`, () => assert.equal(policyOf(parts).knowsName(hostname(host)), known))
}

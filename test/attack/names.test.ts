import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import type { Facts, Policy } from '../../src/policy/policy.ts'
import { HOSTILE_NAMES } from '../support/hostile-names.ts'
import { factsOf, hostname, policyOf, problemsOf, verdict } from '../support/policy.ts'

const policy = policyOf({
  rules: [
    { id: 'exact', host: 'api.example.com' },
    { id: 'below', host: '*.example.com' },
  ],
})

for (const { text, why } of HOSTILE_NAMES) {
  test(`I2 host ${JSON.stringify(text).slice(0, 60)} is refused: ${why}`, () => assert.equal(isHostname(parseHostname(text)), false))
}

for (const { host, expected, why } of [
  { host: 'evilexample.com', expected: 'host_not_allowed', why: 'a look-alike suffix' },
  { host: 'example.com.evil.net', expected: 'host_not_allowed', why: 'the allowed name as a prefix' },
  { host: 'example.com', expected: 'host_not_allowed', why: 'the apex needs a rule of its own' },
  { host: 'api-example.com', expected: 'host_not_allowed', why: 'a hyphen is no dot' },
  { host: 'xn--pi-6kc.example.com', expected: 'allow below', why: 'a homoglyph below the owner of the name is the owner' },
  { host: 'api_x.example.com', expected: 'allow below', why: 'an underscore is a name that the DNS has' },
  { host: `${'a'.repeat(63)}.example.com`, expected: 'allow below', why: 'a label of 63 characters' },
]) {
  test(`${host.slice(0, 40)} is decided ${expected}: ${why}`, () =>
    assert.equal(verdict(policy.decide(factsOf(`GET https://${host}/`))), expected))
}

test('the case of a host makes no difference to the decision, and only lower case gets that far', () => {
  const host = hostname('API.Example.COM')
  assert.equal(host, 'api.example.com')
  assert.equal(verdict(policy.decide(factsOf('GET https://API.Example.COM/'))), 'allow exact')
})

test('text that is not canonical matches no rule even if it got past the door', () => {
  for (const text of ['api.example.com.', 'API.EXAMPLE.COM', 'evil.test\0.api.example.com.', 'example.com']) {
    const facts = { ...factsOf('GET https://x.test/'), host: text as Facts['host'] }
    assert.equal(policy.decide(facts).action, 'deny', JSON.stringify(text))
  }
})

/** Names that lead to this machine, to a neighbour or to credentials of a cloud. */
const SPECIAL = [
  'localhost',
  'x.localhost',
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
  'metadata.tencentyun.com',
  'metadata.platformequinix.com',
  'api.metadata.cloud.ibm.com',
  'host.docker.internal',
  'gateway.docker.internal',
  'host.containers.internal',
  'host.lima.internal',
  'host.orb.internal',
  '_api.internal',
  'anything.internal',
  'internal',
  'printer.local',
  'nas.lan',
  'x.home.arpa',
  'kubernetes.default.svc',
  'db.ns.svc.cluster.local',
  'x.onion',
  'x.test',
  'x.invalid',
  'x.example',
  '1.0.0.127.in-addr.arpa',
  'x.ip6.arpa',
  '127.0.0.1.nip.io',
  '10-0-0-1.sslip.io',
  '127.0.0.1.xip.io',
  'lvh.me',
  'x.lvh.me',
  'x.localtest.me',
]

function judged(source: Policy, host: string): string | undefined {
  const decision = source.decide(factsOf(`GET https://${host}/`))
  assert.equal(decision.action, 'allow', host)
  return decision.action === 'allow' ? source.judgeName(hostname(host), decision.rule)?.code : undefined
}

test('I4 special-use and metadata names are refused before any look-up, unless their rule lists addresses', () => {
  const plain = policyOf({ rules: SPECIAL.map((host, index) => ({ id: `r${index}`, host })) })
  const opened = policyOf({ rules: SPECIAL.map((host, index) => ({ id: `r${index}`, host, addresses: ['10.0.0.0/8'] })) })
  for (const host of SPECIAL) {
    assert.equal(judged(plain, host), 'name_refused', host)
    assert.equal(judged(opened, host), undefined, host)
  }
})

test('a metadata name whose rule opens private ranges still does not reach a metadata address', () => {
  const opened = policyOf({ rules: [{ id: 'r', host: 'metadata.google.internal', addresses: ['169.254.0.0/16'] }] })
  const decision = opened.decide(factsOf('GET http://metadata.google.internal/computeMetadata/v1/'))
  assert.ok(decision.action === 'allow')
  assert.equal(opened.judgeAddresses(hostname('metadata.google.internal'), decision.rule, ['169.254.169.254'], [])?.code, 'address_refused')
})

test('names that only look like special ones, and addresses as hosts, are not judged by name', () => {
  const hosts = [
    'mylocalhost.example.com',
    'localhost.example.com',
    'internal.example.com',
    'examplelocal.com',
    'metadata.example.com',
    '127.0.0.1',
    '::1',
  ]
  const source = policyOf({ rules: hosts.map((host, index) => ({ id: `r${index}`, host })) })
  for (const host of hosts) {
    const facts = { ...factsOf('GET https://x.test/'), host: hostname(host) }
    const decision = source.decide(facts)
    assert.ok(decision.action === 'allow', host)
    assert.equal(source.judgeName(hostname(host), decision.rule), undefined, host)
  }
})

for (const host of [
  '*',
  '*.com',
  '*.co.uk',
  '*.github.io',
  '*.s3.amazonaws.com',
  '*.herokuapp.com',
  '*.internal',
  '*.localhost',
  '**.example.com',
  '*.*.example.com',
  'api.*',
  '*example.com',
  '*.',
]) {
  test(`a policy with host ${host} does not load: it would let in names of strangers`, () => {
    assert.equal(problemsOf({ rules: [{ id: 'r', host }] }).errors.length, 1)
  })
}

test('a name in punycode that is no valid name does not load', () => {
  for (const host of ['xn--a.example.com', 'xn--zzzzzz99999.example.com', 'a.xn--abc-.example.com', 'xn--a-ecp.ru']) {
    assert.equal(problemsOf({ rules: [{ id: 'r', host }] }).errors.length, 1, host)
  }
  assert.deepEqual(problemsOf({ rules: [{ id: 'r', host: 'xn--bcher-kva.example.com' }] }).errors, [])
})

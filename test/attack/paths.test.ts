import assert from 'node:assert/strict'
import { test } from 'node:test'
import { factsOf, policyOf, verdict } from '../support/policy.ts'

const secrets = [{ name: 'T', source: 'env:T' }]
const policy = policyOf({
  rules: [
    { id: 'api', host: 'api.example.com', paths: ['/repos/acme/**', '/@scope%2Fname', '/x/*'] },
    { id: 'free', host: 'free.example.com' },
    { id: 'bound', host: 'bound.example.com' },
  ],
  credentials: [
    { id: 'c', secret: 'T', inject: { domains: ['*.example.com', 'bound.example.com'].slice(1), header: 'X', paths: ['/v1/**'] } },
  ],
  secrets,
})

/** Paths that a rule reads as inside `/repos/acme/` and some server as outside, or as another name for what is outside. */
const CONFUSED = [
  '/repos/acme/../other',
  '/repos/acme/..',
  '/repos/acme/./x',
  '/repos/acme/.',
  '/repos/acme/../../etc/passwd',
  '/repos/acme/...//x',
  '/repos/acme/%2e%2e/other',
  '/repos/acme/%2E%2E/other',
  '/repos/acme/.%2e/other',
  '/repos/acme/%2e./other',
  '/repos/acme/%2e/x',
  '/repos/acme//x',
  '//repos/acme/x',
  '/repos//acme/x',
  '/repos/acme/x//',
  '/repos/acme/..\\other',
  '/repos/acme\\..\\other',
  '/repos/acme/%5c..%5cother',
  '/repos/acme/..%5Cother',
  '/repos/acme/..%2fother',
  '/repos/acme/..%2Fother',
  '/repos/acme/%2e%2e%2fother',
  '/repos/acme/x%2f..%2f..%2fother',
  '/repos/acme/x%2f..',
  '/repos/acme/..;/other',
  '/repos/acme/..;x=1/other',
  '/repos/acme/.;/x',
  '/repos/acme/..%3b/other',
  '/repos/acme/..%3Bx/other',
  '/repos/acme/%252e%252e/other',
  '/repos/acme/%25252e%25252e/other',
  '/repos/acme/..%252fother',
  '/repos/acme/%255c..',
  '/repos/acme/x%2500',
  '/repos/acme/%00',
  '/repos/acme/x%00.png',
  '/repos/acme/%0a',
  '/repos/acme/%0d%0aHost:%20evil',
  '/repos/acme/%7f',
  '/repos/acme/%09',
  '/repos/acme/%c0%ae%c0%ae/other',
  '/repos/acme/%c0%af',
  '/repos/acme/%e0%80%af',
  '/repos/acme/%f0%80%80%af',
  '/repos/acme/%ff',
  '/repos/acme/%80',
  '/repos/acme/%ed%a0%80',
  '/repos/acme/%',
  '/repos/acme/%2',
  '/repos/acme/%zz',
  '/repos/acme/%u002e',
  '/repos/acme/%%32e',
  '/repos/acme/%+2',
  '/repos/%61cme/x',
  '/%72epos/acme/x',
  '/repos/acme/%7Euser',
  '/repos/acme/%2D',
  '/repos/acme/%30',
  '/repos/acme/\u0000',
  '/repos/acme/a b',
  '/repos/acme/é',
  '/repos/acme/\u2024\u2024/x',
  '/repos/acme/．．/x',
  '/repos/acme/<x>',
  '/repos/acme/"',
  '/repos/acme/{x}',
  'repos/acme/x',
  '*',
  '',
  '?x',
  'http://evil.test/repos/acme/x',
]

for (const path of CONFUSED) {
  test(`I2 path ${JSON.stringify(path)} is refused where rules look at paths`, () => {
    const facts = { ...factsOf('GET https://api.example.com/'), path }
    assert.equal(verdict(policy.decide(facts)), 'path_not_canonical')
    assert.equal(
      verdict(policy.decide({ ...facts, host: factsOf('GET https://bound.example.com/').host })),
      'path_not_canonical',
      'where a credential does',
    )
    assert.equal(policy.credentialFor({ ...facts, host: factsOf('GET https://bound.example.com/').host }), undefined)
  })
}

test('the same paths go as they came where neither rule nor credential looks at paths', () => {
  for (const path of CONFUSED)
    assert.equal(verdict(policy.decide({ ...factsOf('GET https://free.example.com/'), path })), 'allow free', path)
})

for (const { path, expected, why } of [
  { path: '/repos/acme/x?next=/../%2e%2e//\\', expected: 'allow api', why: 'the query is not part of the path' },
  { path: '/repos/acme/x%2fy', expected: 'allow api', why: '%2f is a character of its segment' },
  { path: '/repos/acme%2fx', expected: 'denied_by_rule', why: '%2f is no separator' },
  { path: '/repos%2facme/x', expected: 'denied_by_rule', why: '%2f is no separator' },
  { path: '/@scope%2fname', expected: 'allow api', why: 'the case of hex digits makes no difference' },
  { path: '/@scope%2Fname', expected: 'allow api', why: 'as it is written' },
  { path: '/@scope/name', expected: 'denied_by_rule', why: '%2f is not decoded' },
  { path: '/x/a%2Fb', expected: 'allow api', why: '* matches a segment with %2f in it' },
  { path: '/x/a/b', expected: 'denied_by_rule', why: '* matches one segment' },
  { path: '/x/', expected: 'denied_by_rule', why: '* matches no empty segment' },
  { path: '/repos/acme/...', expected: 'allow api', why: 'three dots are a name' },
  { path: '/repos/acme/..x/.y', expected: 'allow api', why: 'dots within a name' },
  { path: '/repos/acme/%C3%A9%20%E2%82%AC', expected: 'allow api', why: 'valid UTF-8' },
  { path: '/repos/acme/100%25', expected: 'allow api', why: 'an encoded percent sign' },
  { path: '/repos/acme/a%2520b', expected: 'allow api', why: 'a space encoded twice is no separator and no dot' },
  { path: '/repos/acme/a;v=1', expected: 'allow api', why: 'parameters' },
  { path: '/repos/acme/[id]-x.js', expected: 'allow api', why: 'brackets, as URL parsers leave them' },
  { path: '/REPOS/acme/x', expected: 'denied_by_rule', why: 'paths have case' },
  { path: '/repos/acmeevil/x', expected: 'denied_by_rule', why: 'a segment is whole' },
]) {
  test(`path ${path} is ${expected}: ${why}`, () =>
    assert.equal(verdict(policy.decide({ ...factsOf('GET https://api.example.com/'), path })), expected))
}

test('a denial by path on a wildcard holds for requests that an exact rule without paths allows', () => {
  const source = policyOf({
    rules: [
      { id: 'all', host: 'api.example.com' },
      { id: 'no', host: '*.example.com', paths: ['/admin/**'], action: 'deny' },
    ],
  })
  for (const [path, expected] of Object.entries({
    '/admin/x': 'denied_by_rule no',
    '/x/../admin/x': 'path_not_canonical',
    '/%61dmin/x': 'path_not_canonical',
    '/admin;a=b/x': 'denied_by_rule no',
    '/admin%3ba/x': 'denied_by_rule no',
    '//admin/x': 'path_not_canonical',
    '/public': 'allow all',
  })) {
    assert.equal(verdict(source.decide({ ...factsOf('GET https://api.example.com/'), path })), expected, path)
  }
})

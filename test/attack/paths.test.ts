import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CONFUSED_PATHS } from '../support/confused-paths.ts'
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

for (const path of CONFUSED_PATHS) {
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
  for (const path of CONFUSED_PATHS)
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

/** Spellings that some server takes for what `denied` is about. `bytes`: the pattern matches them as they stand. */
for (const { denied, path, why, bytes = false } of [
  { denied: '/caf%C3%A9', bytes: true, path: '/caf%c3%a9', why: 'hex digits have no case' },
  { denied: '/caf%C3%A9', path: '/caf%C3%A9;x', why: 'parameters are cut off' },
  { denied: '/caf%C3%A9', path: '/caf%c3%a9;x', why: 'parameters are cut off, and hex digits have no case' },
  { denied: '/caf%c3%a9', path: '/caf%C3%A9;x', why: 'hex digits have no case in a rule either' },
  { denied: '/admin/**', path: '/admin%2Fusers', why: '%2F is decoded into a separator' },
  { denied: '/admin/**', path: '/admin%2fusers', why: '%2f is decoded into a separator' },
  { denied: '/admin/**', path: '/admin;x%2Fusers', why: '%2F is decoded before parameters are cut off' },
  { denied: '/admin', path: '/admin;x%2Fusers', why: 'parameters are cut off before %2F is decoded' },
  { denied: '/x/*/secret', path: '/x/y%2Fsecret', why: '%2F ends the segment of a star' },
  { denied: '/x/*/secret', bytes: true, path: '/x/y%2Fz/secret', why: '%2F is a character of the segment of a star' },
  { denied: '/x/*/@secret', path: '/x/y%2Fz/%40secret', why: '%2F is a character where others are decoded' },
  { denied: '/x/*/secret', bytes: true, path: '/x/y;/secret', why: 'a parameter without a name is cut off' },
  { denied: '/@scope%2Fname', path: '/@scope/name', why: 'the rule has the encoded spelling of a separator' },
  { denied: '/@scope%2F*', path: '/@scope/name', why: 'the rule has an encoded separator before a star' },
  { denied: '/@scope/name', path: '/@scope%2fname', why: 'the request has the encoded spelling of a separator' },
  { denied: '/admin', path: '/admin/', why: 'a slash at the end is dropped' },
  { denied: '/admin', path: '/admin;/', why: 'an empty parameter and a slash at the end' },
  { denied: '/admin', path: '/admin/;x', why: 'a last segment of parameters alone is dropped' },
  { denied: '/admin', path: '/admin%2F', why: 'an encoded slash at the end is dropped' },
  { denied: '/admin', path: '/%2Fadmin', why: 'an encoded slash at the beginning is dropped' },
  { denied: '/admin', path: '/;x/admin', why: 'a first segment of parameters alone is dropped' },
  { denied: '/admin', path: '/;/admin', why: 'a first segment of an empty parameter is dropped' },
  { denied: '/admin', path: '/%3B/%3badmin%2F/admin', why: 'encoded semicolons begin parameters' },
  { denied: '/admin/x', path: '/admin%2F%2Fx', why: 'encoded slashes in a row are one' },
  { denied: '/admin/', path: '/admin', why: 'the rule has a slash at the end' },
  { denied: '/admin;v=1', path: '/admin;v=2', why: 'the rule has parameters' },
  { denied: '/a*;v=1', path: '/ab%3Bv=1', why: 'the rule has parameters after a star' },
  { denied: '/a*@', path: '/a;b%40', why: 'a star matches parameters where others are decoded' },
  { denied: '/a%2Fb;v=1', path: '/a/b;v=2', why: 'the rule has an encoded separator and parameters' },
  { denied: '/a*%2Fz;v=1', path: '/a%2Fb%2Fz;v=2', why: 'a star matches %2F in a rule that has parameters' },
  { denied: '/a%2Fb*z;v', path: '/a/b;z;v', why: 'a star matches parameters in a rule that has an encoded separator' },
  { denied: '/%40*%2Fz;v', path: '/@;%2Fq%2Fz;v', why: 'a star matches parameters and %2F' },
  { denied: '/', path: '/;x', why: 'nothing is left of it' },
  { denied: '/', path: '/%2F', why: 'an encoded slash is all of it' },
]) {
  const rules = [
    { id: 'all', host: 'api.example.com' },
    { id: 'no', host: 'api.example.com', paths: [denied], action: 'deny' },
  ]
  test(`I9 a rule that denies ${denied} denies ${path}: ${why}`, () => {
    const facts = { ...factsOf('GET https://api.example.com/'), path }
    assert.equal(verdict(policyOf({ rules }).decide(facts)), 'denied_by_rule no')
    const asking = rules.map((rule) => (rule.id === 'no' ? { ...rule, action: 'ask' } : rule))
    assert.equal(verdict(policyOf({ rules: asking }).decide(facts)), 'ask no')
  })

  if (bytes) continue
  test(`I9 a rule that allows ${denied} does not allow ${path}: an allowance is never widened`, () => {
    const only = policyOf({ rules: [{ id: 'only', host: 'api.example.com', paths: [denied] }] })
    assert.equal(verdict(only.decide({ ...factsOf('GET https://api.example.com/'), path })), 'denied_by_rule')
  })
}

for (const { denied, path, why } of [
  { denied: '/admin', path: '/admin/users', why: 'what is below is another path' },
  { denied: '/admin', path: '/admin%2Fusers', why: 'what is below is another path, with %2F too' },
  { denied: '/admin/*', path: '/admin/', why: 'a star matches no empty segment' },
  { denied: '/admin', path: '/administrator;x', why: 'a segment is whole' },
  { denied: '/%2A', path: '/x', why: 'an encoded star is no wildcard' },
  { denied: '/%2A%2Fx', path: '/y/x', why: 'an encoded star before an encoded slash is no wildcard' },
  { denied: '/admin', path: '/ADMIN', why: 'paths have case' },
  { denied: '/admin/x', path: '/admin%252Fx', why: '%2F that is encoded twice is none' },
]) {
  test(`a rule that denies ${denied} leaves ${path} alone: ${why}`, () => {
    const source = policyOf({
      rules: [
        { id: 'all', host: 'api.example.com' },
        { id: 'no', host: 'api.example.com', paths: [denied], action: 'deny' },
      ],
    })
    assert.equal(verdict(source.decide({ ...factsOf('GET https://api.example.com/'), path })), 'allow all')
  })
}

test('%2F is no reason to refuse a path as not canonical, and a credential for /v1/** is not written for /v1%2Fx', () => {
  const facts = { ...factsOf('GET https://bound.example.com/'), path: '/v1%2Fx' }
  assert.equal(verdict(policy.decide(facts)), 'allow bound')
  assert.equal(policy.credentialFor(facts), undefined)
  assert.equal(policy.credentialFor({ ...facts, path: '/v1/x%2Fy' })?.id, 'c')
})

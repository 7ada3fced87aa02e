import assert from 'node:assert/strict'
import { test } from 'node:test'
import { factsOf, policyOf, problemsOf } from '../../support/policy.ts'

const secrets = [{ name: 'T', source: 'env:T' }]
const header = { header: 'Authorization', prefix: 'Bearer ' }
const rules = [
  { id: 'all', host: '*.example.com' },
  { id: 'apex', host: 'example.com' },
]
const credential = (id: string, inject: object): object => ({ id, secret: 'T', inject: { ...header, ...inject } })

test('the most specific credential is written: exact host, longer wildcard, longer path, methods', () => {
  const policy = policyOf({
    rules,
    secrets,
    credentials: [
      credential('wide', { domains: ['*.example.com'] }),
      credential('longer', { domains: ['*.eu.example.com'] }),
      credential('host', { domains: ['api.example.com'] }),
      credential('path', { domains: ['api.example.com'], paths: ['/v1/**'] }),
      credential('longer-path', { domains: ['api.example.com'], paths: ['/v1/admin/**'] }),
      credential('literal', { domains: ['api.example.com'], paths: ['/v1/admin/me'] }),
      credential('write', { domains: ['api.example.com'], methods: ['POST', 'PUT'] }),
      credential('below-path', { domains: ['*.example.com'], paths: ['/v1/admin/me'] }),
    ],
  })
  for (const [request, expected] of Object.entries({
    'GET https://a.example.com/': 'wide',
    'GET https://a.eu.example.com/': 'longer',
    'GET https://eu.example.com/v1/admin/me': 'below-path',
    'GET https://api.example.com/': 'host',
    'GET https://api.example.com/v1/x?q': 'path',
    'POST https://api.example.com/v1/x': 'path',
    'GET https://api.example.com/v1/admin/x': 'longer-path',
    'GET https://api.example.com/v1/admin/me': 'literal',
    'POST https://api.example.com/v2': 'write',
    'GET https://example.com/': undefined,
    'GET https://api.example.net/': undefined,
    'GET https://api.example.com/v1/../x': undefined,
  })) {
    assert.equal(policy.credentialFor(factsOf(request))?.id, expected, request)
  }
})

test('a binding says where the secret goes, and its name only', () => {
  const policy = policyOf({
    rules,
    secrets,
    credentials: [
      { id: 'key', secret: 'T', inject: { domains: ['a.example.com'], header: 'X-Api-Key' } },
      { id: 'git', secret: 'T', inject: { domains: ['b.example.com'], basic: { username: 'x-access-token' } } },
    ],
  })
  assert.deepEqual(policy.credentials, [
    { id: 'key', secret: 'T', place: { kind: 'header', header: 'X-Api-Key', prefix: '' }, also: [] },
    { id: 'git', secret: 'T', place: { kind: 'basic', username: 'x-access-token' }, also: [] },
  ])
})

const CONFLICTS: readonly { why: string; credentials: readonly object[]; error: RegExp | undefined }[] = [
  {
    why: 'the same domain',
    credentials: [credential('a', { domains: ['x.example.com'] }), credential('b', { domains: ['x.example.com'] })],
    error: /credential "b" and credential "a" \(policy\.yaml:\d+\) are both for x\.example\.com/,
  },
  {
    why: 'paths that meet',
    credentials: [
      credential('a', { domains: ['x.example.com'], paths: ['/v1/*/b'] }),
      credential('b', { domains: ['x.example.com'], paths: ['/v1/a/*', '/v1/**'] }),
    ],
    error: /are both for x\.example\.com\/v1\/\*\*/,
  },
  {
    why: 'paths that never meet',
    credentials: [
      credential('a', { domains: ['x.example.com'], paths: ['/aa/**'] }),
      credential('b', { domains: ['x.example.com'], paths: ['/bb/**'] }),
    ],
    error: undefined,
  },
  {
    why: 'methods that never meet',
    credentials: [
      credential('a', { domains: ['x.example.com'], methods: ['GET'] }),
      credential('b', { domains: ['x.example.com'], methods: ['PUT'] }),
    ],
    error: undefined,
  },
  {
    why: 'methods that meet',
    credentials: [
      credential('a', { domains: ['x.example.com'], methods: ['GET', 'PUT'] }),
      credential('b', { domains: ['x.example.com'], methods: ['PUT'] }),
    ],
    error: /neither is more specific/,
  },
  {
    why: 'a secret that is not declared',
    credentials: [{ id: 'a', secret: 'TT', inject: { ...header, domains: ['x.example.com'] } }],
    error: /secret "TT" is not declared under secrets: did you mean "T"\?/,
  },
]

for (const { why, credentials, error } of CONFLICTS) {
  test(`credentials with ${why} are ${error === undefined ? 'accepted' : 'refused at load'}`, () => {
    const { errors } = problemsOf({ rules, secrets, credentials })
    if (error === undefined) assert.deepEqual(errors, [])
    else assert.match(errors.join('\n'), error)
  })
}

test('a resource that there is none of is refused, and says what there is', () => {
  const text = `version: 1
network: {rules: [{id: r, host: a.example.com, action: allow}]}
credentials: [{id: c, secret: T, inject: {domains: [a.example.com], header: Authorization}}]
secrets: [{name: T, source: "env:T", resources: [proxy]}]
`
  assert.match(problemsOf(text).errors.join('\n'), /policy\.yaml:4: resource "proxy" must be inject, route:NAME, method:NAME or tool:NAME/)
})

test('a credential for a host that only passthrough reaches is refused: it could never be written', () => {
  const { errors } = problemsOf({
    rules: [{ id: 'pin', host: 'a.example.com', tls: 'passthrough' }],
    secrets,
    credentials: [credential('c', { domains: ['a.example.com'] })],
  })
  assert.match(
    errors.join('\n'),
    /credential "c": a\.example\.com is reached through rule "pin" \(policy\.yaml:2\) only.*use tls: intercept/,
  )
})

for (const { inject, error } of [
  { inject: { header: 'Host' }, error: /header "Host" belongs to the connection/ },
  { inject: { header: 'content-length' }, error: /header "content-length" belongs/ },
  { inject: { header: 'Transfer-Encoding' }, error: /belongs/ },
  { inject: { header: 'Proxy-Authorization' }, error: /belongs/ },
  { inject: { header: 'X Y' }, error: /"X Y" is not the name of a header field/ },
  { inject: { header: 'X:' }, error: /not the name/ },
  { inject: { header: 'Authorization', prefix: 'a\r\nb' }, error: /prefix must be printable ASCII/ },
  { inject: { basic: { username: 'a:b' } }, error: /without ":"/ },
  { inject: { header: 'X', basic: { username: 'a' } }, error: /inject has both header and basic: write 2 credentials/ },
  { inject: { header: 'X', query: 'k', body: 'b' }, error: /inject has header and query and body: write 3 credentials/ },
  { inject: {}, error: /inject needs a header, basic, query, body, placeholder or aws/ },
  { inject: { basic: { username: 'a' }, prefix: 'x' }, error: /prefix goes with header, not with basic/ },
]) {
  test(`inject ${JSON.stringify(inject)} is refused`, () => {
    const { errors } = problemsOf({
      rules,
      secrets,
      credentials: [{ id: 'c', secret: 'T', inject: { domains: ['a.example.com'], ...inject } }],
    })
    assert.match(errors.join('\n'), error)
    assert.equal(errors.length, 1, errors.join('\n'))
  })
}

test('a cookie may carry a credential', () => {
  const { errors } = problemsOf({
    rules,
    secrets,
    credentials: [{ id: 'c', secret: 'T', inject: { domains: ['a.example.com'], header: 'Cookie', prefix: 'session=' } }],
  })
  assert.deepEqual(errors, [])
})

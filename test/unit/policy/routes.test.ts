import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainRequest, type Facts, type Policy } from '../../../src/policy/policy.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { parseUpstream } from '../../../src/policy/routes.ts'
import { factsOf, policyOf, problemsOf, verdict, type Parts } from '../../support/policy.ts'

for (const { upstream, read } of [
  { upstream: 'https://api.openai.com/v1', read: { scheme: 'https', host: 'api.openai.com', port: 443, basePath: '/v1' } },
  { upstream: 'https://api.openai.com', read: { scheme: 'https', host: 'api.openai.com', port: 443, basePath: '' } },
  { upstream: 'http://mcp.internal:8080/a/b', read: { scheme: 'http', host: 'mcp.internal', port: 8080, basePath: '/a/b' } },
  { upstream: 'http://10.1.2.3', read: { scheme: 'http', host: '10.1.2.3', port: 80, basePath: '' } },
  { upstream: 'https://[2606:4700::1]:8443/x', read: { scheme: 'https', host: '2606:4700::1', port: 8443, basePath: '/x' } },
]) {
  test(`the upstream ${upstream} is read`, () => assert.deepEqual({ ...(parseUpstream(upstream) as object) }, read))
}

for (const { upstream, error } of [
  { upstream: 'api.openai.com', error: /is not an absolute URL: write it whole/ },
  { upstream: '//api.openai.com', error: /is not an absolute URL/ },
  { upstream: 'ftp://api.openai.com', error: /must begin with https:\/\/ or http:\/\// },
  { upstream: 'HTTPS://api.openai.com', error: /write "https:\/\/api\.openai\.com"/ },
  { upstream: 'https://API.openai.com', error: /host "API\.openai\.com" is not canonical; write "api\.openai\.com"/ },
  { upstream: 'https://api.openai.com./v1', error: /ends with a dot; write "api\.openai\.com"/ },
  { upstream: 'https://127.1/', error: /write "127\.0\.0\.1"/ },
  { upstream: 'https://*.example.com', error: /a route leads to one host/ },
  { upstream: 'https://*', error: /would match every host/ },
  { upstream: 'https:///v1', error: /"" is not a host or host:port/ },
  { upstream: 'https://a.example.com:0/', error: /is not a host or host:port/ },
  { upstream: 'https://a.example.com:0443', error: /the port is not canonical; write ":443"/ },
  { upstream: 'https://[10.0.0.1]', error: /is not an IPv6 address/ },
  { upstream: 'https://[2606:4700:0:0::1]', error: /write "2606:4700::1"/ },
  { upstream: 'https://a.example.com/', error: /it ends with a slash; write "https:\/\/a\.example\.com"/ },
  { upstream: 'https://a.example.com/v1/', error: /it ends with a slash; write "https:\/\/a\.example\.com\/v1"/ },
  { upstream: 'https://a.example.com/x/../v1', error: /it has a dot segment; write "https:\/\/a\.example\.com\/v1"/ },
  { upstream: 'https://a.example.com//v1', error: /empty segment.*write "https:\/\/a\.example\.com\/v1"/ },
  { upstream: 'https://a.example.com/%76', error: /which is "v"; write "https:\/\/a\.example\.com\/v"/ },
  { upstream: 'https://a.example.com\\v1', error: /it does not start with "\/"; write "https:\/\/a\.example\.com\/v1"/ },
  { upstream: 'https://a.example.com/v*', error: /it is one URL, not a pattern/ },
  { upstream: 'https://a.example.com/v1?key=hunter2', error: /has a query or fragment behind it/ },
  { upstream: 'https://a.example.com/v1#hunter2', error: /has a query or fragment behind it/ },
  { upstream: 'https://me:hunter2@a.example.com/v1', error: /upstream has an "@"/ },
  { upstream: 'me:hunter2@a.example.com', error: /upstream has an "@"/ },
]) {
  test(`I1 the upstream ${upstream.replace('hunter2', '…')} is refused at its line, with the right spelling and no secret`, () => {
    const { errors } = problemsOf(`version: 1\nroutes:\n  - name: r\n    upstream: ${JSON.stringify(upstream)}\n`)
    assert.equal(errors.length, 1, errors.join('\n'))
    assert.match(errors[0] ?? '', /^policy\.yaml:4: /)
    assert.match(errors[0] ?? '', error)
    assert.doesNotMatch(errors[0] ?? '', /hunter2/)
  })
}

const credentials = [{ id: 'key', secret: 'T', inject: { domains: ['api.example.com'], methods: ['GET', 'POST'], header: 'X-Api-Key' } }]
const secrets = [{ name: 'T', source: 'env:T' }]
const route = (more: object): object => ({ name: 'api', upstream: 'https://api.example.com/v1', ...more })

for (const { title, parts, error } of [
  { title: 'a name with a capital', parts: { routes: [route({ name: 'Api' })] }, error: /route name "Api" may have lower-case letters/ },
  { title: 'a name with a slash', parts: { routes: [route({ name: 'a/b' })] }, error: /route name "a\/b" may have/ },
  { title: 'an empty name', parts: { routes: [route({ name: '' })] }, error: /route name "" may have/ },
  {
    title: 'the same name twice',
    parts: { routes: [route({}), route({ upstream: 'https://b.example.com' })] },
    error: /route "api" stands at policy\.yaml:\d+ already/,
  },
  { title: 'a misspelled key', parts: { routes: [route({ upstraem: 'x' })] }, error: /unknown key "upstraem": did you mean "upstream"\?/ },
  {
    title: 'a credential that is not there',
    parts: { routes: [route({ credential: 'kay' })], credentials, secrets },
    error: /route "api": credential "kay" is not declared under credentials: did you mean "key"\?/,
  },
  {
    title: 'a credential for other hosts',
    parts: { routes: [route({ upstream: 'https://other.example.com', credential: 'key' })], credentials, secrets },
    error: /route "api": credential "key" is for api\.example\.com, not for other\.example\.com: add it to inject\.domains/,
  },
  {
    title: 'a credential over plain http',
    parts: { routes: [route({ upstream: 'http://api.example.com', credential: 'key' })], credentials, secrets },
    error: /route "api": credential "key" is not written over plain http: use an https upstream, or add plaintext: accept/,
  },
  {
    title: 'plaintext and an https upstream',
    parts: { routes: [route({ plaintext: 'accept' })] },
    error: /route "api": plaintext has no effect on an https upstream/,
  },
  {
    title: 'a denial of all that it leads to',
    parts: { rules: [{ id: 'no', host: '*.example.com', action: 'deny' }], routes: [route({})] },
    error: /route "api" is unreachable: rule "no" \(policy\.yaml:2\) denies all that it leads to/,
  },
] satisfies { title: string; parts: Parts; error: RegExp }[]) {
  test(`a route with ${title} is refused at load`, () => {
    const { errors } = problemsOf(parts)
    assert.equal(errors.length, 1, errors.join('\n'))
    assert.match(errors[0] ?? '', error)
  })
}

test('a credential and a secret that only a route uses are used, and a route needs no rule', () => {
  const parts = { routes: [route({ credential: 'key' })], credentials, secrets }
  assert.deepEqual(problemsOf(parts), { errors: [], warnings: [] })
  const policy = policyOf(parts)
  assert.deepEqual(policy.routes, [
    {
      name: 'api',
      scheme: 'https',
      host: 'api.example.com',
      port: 443,
      basePath: '/v1',
      credential: 'key',
      rule: {
        id: 'route:api',
        tls: 'intercept',
        upgrade: false,
        plaintext: false,
        addresses: [],
        plane: 'agent',
        scrub: 'replace',
        ownCredentials: undefined,
      },
    },
  ])
  assert.equal(policy.knowsName(factsOf('GET https://api.example.com/').host), false)
})

test('what a route opens unwisely is warned about', () => {
  const { warnings } = problemsOf({
    routes: [
      route({ upstream: 'http://mcp.internal' }),
      route({ name: 'wide', upstream: 'http://api.example.com', plaintext: 'accept', addresses: ['0.0.0.0/0'], credential: 'key' }),
      route({ name: 'never', upstream: 'https://b.example.com/v2', credential: 'narrow' }),
    ],
    credentials: [
      ...credentials,
      { id: 'narrow', secret: 'T', inject: { domains: ['b.example.com'], methods: ['GET'], paths: ['/v1/**'], header: 'X-Api-Key' } },
    ],
    secrets,
  })
  const found = warnings.join('\n')
  for (const expected of [
    /route "api": names under "internal" are refused unless the route lists addresses/,
    /route "wide": plaintext: accept lets credentials cross/,
    /route "wide": addresses "0\.0\.0\.0\/0" opens every private network/,
    /route "never": credential "narrow" is never written: none of its paths is below \/v2/,
  ])
    assert.match(found, expected)
})

function through(policy: Policy, request: string, more: Partial<Facts> = {}): string {
  const [named] = policy.routes
  assert.ok(named)
  return verdict(policy.decideRoute(named, { ...factsOf(request), ...more }))
}

test('a route allows what no rule does, and what rules deny or ask about holds', () => {
  const policy = policyOf({
    rules: [
      { id: 'get', host: 'api.example.com', methods: ['GET'], paths: ['/v1/x'] },
      { id: 'no', host: '*.example.com', paths: ['/v1/admin/**'], action: 'deny' },
      { id: 'q', host: 'api.example.com', methods: ['DELETE'], action: 'ask' },
      { id: 'tcp', host: 'api.example.com', ports: [443, 5432], protocol: 'tcp', action: 'deny' },
    ],
    routes: [route({ addresses: ['10.0.0.0/8'] })],
  })
  for (const [request, expected] of Object.entries({
    'GET https://api.example.com/v1/x': 'allow route:api',
    'POST https://api.example.com/v1/y?q=/../': 'allow route:api',
    'GET https://api.example.com/v1': 'allow route:api',
    'GET https://api.example.com/v1/admin/keys': 'denied_by_rule no',
    'GET https://api.example.com/v1/admin%2Fkeys;x': 'denied_by_rule no',
    'DELETE https://api.example.com/v1/x': 'ask q',
    'DELETE https://api.example.com/v1/admin': 'denied_by_rule no',
  }))
    assert.equal(through(policy, request), expected, request)
  const [named] = policy.routes
  assert.ok(named)
  const asked = policy.decideRoute(named, factsOf('DELETE https://api.example.com/v1/x'))
  assert.deepEqual(asked.action === 'ask' && asked.rule, { ...named.rule, id: 'q' })
})

for (const request of [
  'GET https://api.example.com/',
  'GET https://api.example.com/v2/x',
  'GET https://api.example.com/v1x',
  'GET https://api.example.com/v1/../admin',
  'GET https://api.example.com/v1/..%2fadmin',
  'GET https://api.example.com/v1/%2e%2e/admin',
  'GET https://api.example.com/v1/..;/admin',
  'GET https://api.example.com/v1/.',
  'GET https://api.example.com/v1//admin',
  'GET https://api.example.com/v1/%5c..%5cadmin',
  'GET https://api.example.com/v1/%252e%252e/admin',
  'GET https://api.example.com/v1%2f..%2fadmin',
  'GET https://other.example.com/v1/x',
  'GET http://api.example.com/v1/x',
  'GET https://api.example.com:8443/v1/x',
]) {
  test(`a route never leaves its base path, host, scheme or port: ${request} is refused`, () => {
    const policy = policyOf({ rules: [{ id: 'all', host: '*.example.com', ports: [80, 443, 8443] }], routes: [route({})] })
    assert.match(through(policy, request), /^(?:denied_by_rule route:api|path_not_canonical)$/)
  })
}

test('in mode none a route leads only where the harness may go', () => {
  const policy = policyOf({ network: { mode: 'none' }, routes: [route({})] })
  assert.equal(through(policy, 'GET https://api.example.com/v1/x'), 'host_not_allowed')
  assert.match(policy.warnings.map(({ message }) => message).join(), /route "api": it leads nowhere: network\.mode is none/)
})

test('the credential that a route names is the only one, and only where it is bound', () => {
  const policy = policyOf({
    rules: [{ id: 'all', host: 'api.example.com' }],
    credentials: [
      ...credentials,
      { id: 'finer', secret: 'T', inject: { domains: ['api.example.com'], methods: ['GET'], paths: ['/v1/**'], header: 'Authorization' } },
    ],
    secrets,
  })
  const get = factsOf('GET https://api.example.com/v1/x')
  assert.equal(policy.credentialFor(get)?.id, 'finer')
  assert.equal(policy.credentialFor(get, 'key')?.id, 'key')
  assert.equal(policy.credentialFor(factsOf('PUT https://api.example.com/v1/x'), 'key'), undefined)
  assert.equal(policy.credentialFor(factsOf('GET https://b.example.com/v1/x'), 'key'), undefined)
  assert.equal(policy.credentialFor(get, 'nobody'), undefined)
})

test('a URL of the gateway is explained by where its route leads, and one without a route is a usage error', () => {
  const policy = policyOf({
    rules: [{ id: 'q', host: 'api.example.com', methods: ['DELETE'], action: 'ask' }],
    routes: [route({ credential: 'key' })],
    credentials,
    secrets,
  })
  const explained = explainRequest(policy, 'http://sallyport:7070/route/api/models?x=1', 'GET')
  assert.equal(explained.decision, 'allow')
  assert.equal(explained.upstream, 'https://api.example.com/v1/models?x=1')
  assert.equal(explained.rule?.id, 'route:api')
  assert.match(explained.rule?.at ?? '', /policy\.yaml:\d+$/)
  assert.equal(explained.credential?.id, 'key')
  assert.equal(explainRequest(policy, 'http://sallyport:7070/route/api', 'GET').upstream, 'https://api.example.com/v1')
  assert.equal(explainRequest(policy, 'http://sallyport:7070/route/api/x', 'DELETE').decision, 'ask')
  assert.equal(explainRequest(policy, 'http://sallyport:7070/route/api/../x', 'GET').code, 'path_not_canonical')
  assert.throws(
    () => explainRequest(policy, 'http://sallyport:7070/route/apii/x', 'GET'),
    (error: unknown) => error instanceof SallyportError && error.code === 'usage' && /did you mean "api"\?/.test(error.message),
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseResource } from '../../../src/policy/resources.ts'
import { factsOf, policyOf, problemsOf, type Parts } from '../../support/policy.ts'

const rules = [{ id: 'api', host: 'api.example.com' }]
const bearer = { domains: ['api.example.com'], header: 'Authorization', prefix: 'Bearer ' }
const credentials = [{ id: 'c', secret: 'T', inject: bearer }]
const routes = [{ name: 'api', upstream: 'https://api.example.com', credential: 'c' }]
const secret = (more: object = {}): object => ({ name: 'T', source: 'env:T', ...more })

for (const text of ['inject', 'route:openai', 'method:secret.request', 'method:secret.use_in', 'method:host.run', 'tool:github']) {
  test(`resource ${text} is read`, () => assert.notEqual(typeof parseResource(text), 'string'))
}

for (const { text, why } of [
  { text: 'injects', why: /did you mean "inject"\?/ },
  { text: '*', why: /must be inject, route:NAME, method:NAME or tool:NAME/ },
  { text: 'secret.use_in', why: /did you mean "method:secret\.use_in"\?/ },
  { text: 'method:*', why: /there are secret\.request, secret\.use_in, host\.run/ },
  { text: 'method:secret_use_in', why: /did you mean "method:secret\.use_in"\?/ },
  { text: 'method:policy.explain', why: /names no method that uses secrets/ },
  { text: 'route:', why: /must name a route/ },
  { text: 'route:*', why: /must name a route/ },
  { text: 'tool:a b', why: /must name a tool/ },
  { text: 'tool:', why: /must name a tool/ },
]) {
  test(`resource ${JSON.stringify(text)} is refused with what was meant`, () =>
    assert.match(JSON.stringify(parseResource(text)).replaceAll('\\"', '"'), why))
}

type Case = Parts & { readonly is?: readonly string[] }

for (const { why, parts, uses } of [
  { why: 'that nothing refers to is for nothing', parts: {}, uses: [] },
  { why: 'that a credential refers to is for injection', parts: { rules, credentials }, uses: ['inject'] },
  { why: 'of a credential that a route names is for that route too', parts: { credentials, routes }, uses: ['inject', 'route:api'] },
  {
    why: 'with inject among its resources is for the routes of its credential',
    parts: { credentials, routes, is: ['inject'] },
    uses: ['inject', 'route:api'],
  },
  {
    why: 'with a route among its resources is for that route alone',
    parts: { credentials, routes, is: ['route:api'] },
    uses: ['route:api'],
  },
  { why: 'with a method is for that method alone', parts: { is: ['method:host.run'] }, uses: ['method:host.run'] },
  { why: 'with a tool is for that tool alone', parts: { is: ['tool:github'] }, uses: ['tool:github'] },
] as const) {
  test(`a secret ${why}`, () => {
    const { is, ...rest }: Case = parts
    assert.deepEqual(policyOf({ ...rest, secrets: [secret(is && { resources: is })] }).secrets[0]?.uses, uses)
  })
}

test('every secret of a credential is granted: of fields beside it, of AWS and of token servers', () => {
  const policy = policyOf({
    rules: [
      { id: 'a', host: 'a.example.com' },
      { id: 'b', host: 's3.eu-west-1.amazonaws.com' },
      { id: 'c', host: 'c.example.com' },
    ],
    secrets: ['A', 'B', 'C', 'D', 'E', 'F', 'G'].map((name) => ({ name, source: `env:${name}` })),
    credentials: [
      { id: 'a', secret: 'A', inject: { domains: ['a.example.com'], header: 'X-A', also: [{ header: 'X-B', secret: 'B' }] } },
      {
        id: 'b',
        secret: 'C',
        inject: {
          domains: ['s3.eu-west-1.amazonaws.com'],
          aws: { region: 'eu-west-1', service: 's3', access_key_id: 'D', session_token: 'E' },
        },
      },
      {
        id: 'c',
        secret: 'F',
        inject: { domains: ['c.example.com'], header: 'X-C' },
        oauth2: { grant: 'refresh_token', token_url: 'https://t.example.com/token', client_id: 'x', client_secret: 'G' },
      },
    ],
  })
  assert.deepEqual(
    policy.secrets.map(({ name, uses }) => [name, ...uses]),
    ['A', 'B', 'C', 'D', 'E', 'F', 'G'].map((name) => [name, 'inject']),
  )
})

test('a credential whose secret is for its route alone is not written into any other request to the same host', () => {
  const policy = policyOf({ rules, credentials, routes, secrets: [secret({ resources: ['route:api'] })] })
  const facts = factsOf('GET https://api.example.com/v1')
  assert.equal(policy.credentialFor(facts), undefined)
  assert.equal(policy.credentialFor(facts, 'c')?.id, 'c', 'the route carries it')
  assert.equal(policy.credentialsOf(facts.host).length, 1, 'answers are searched for it all the same')
})

test('a placeholder whose secret is for its route alone is not swapped in any other request', () => {
  const swapped = [{ id: 'c', secret: 'T', inject: { domains: ['api.example.com'], placeholder: 'TOKEN' } }]
  const policy = policyOf({ rules, credentials: swapped, routes, secrets: [secret({ resources: ['route:api'] })] })
  const facts = factsOf('GET https://api.example.com/v1')
  assert.deepEqual(policy.placeholdersFor(facts), [])
  assert.equal(policy.placeholdersFor(facts, 'c').length, 1)
})

for (const { why, parts, error } of [
  {
    why: 'a method only, written by a credential',
    parts: { rules, credentials, is: ['method:host.run'] },
    error: /policy\.yaml:\d+: credential "c": the resources of secret "T" \(policy\.yaml:\d+\) leave out inject: add it there/,
  },
  {
    why: 'one route, carried by another as well',
    parts: {
      credentials,
      routes: [...routes, { name: 'other', upstream: 'https://api.example.com/v2', credential: 'c' }],
      is: ['route:api'],
    },
    error: /route "other": the resources of secret "T" .*leave it out: add route:other there/,
  },
  {
    why: 'a route that does not exist',
    parts: { rules, credentials, routes, is: ['inject', 'route:apis'] },
    error: /secret "T": there is no route "apis": did you mean "api"\?/,
  },
  { why: 'the same twice', parts: { is: ['tool:a', 'tool:a'] }, error: /"tool:a" stands in the list twice/ },
] as const) {
  test(`resources for ${why}: refused at load with file and line`, () => {
    const { is, ...rest } = parts
    const { errors } = problemsOf({ ...rest, secrets: [secret({ resources: is })] })
    assert.match(errors.join('\n'), error)
    assert.equal(errors.length, 1, errors.join('\n'))
  })
}

test('nothing is said of routes that a secret names where a route could not be read', () => {
  const { errors } = problemsOf({ secrets: [secret({ resources: ['route:api'] })], routes: [{ name: 'api', upstream: 'nonsense' }] })
  assert.equal(errors.length, 1, errors.join('\n'))
  assert.match(errors[0] ?? '', /not an absolute URL/)
})

test('a secret that no credential uses is warned of, but not where a method or a tool may use it', () => {
  const warnings = (more: object): number => problemsOf({ rules, secrets: [secret(more)] }).warnings.length
  assert.equal(warnings({}), 1)
  assert.equal(warnings({ resources: ['inject'] }), 1)
  assert.equal(warnings({ resources: ['method:secret.request'] }), 0)
  assert.equal(warnings({ resources: ['tool:github'] }), 0)
})

test('ttl is in seconds, an hour at most, and refused where nothing is asked for the value', () => {
  assert.equal(policyOf({ secrets: [{ name: 'T', source: 'op:a/b/c', ttl: 90 }] }).secrets[0]?.ttlMs, 90_000)
  for (const ttl of [0, -1, 1.5, 3_601, '60'])
    assert.equal(problemsOf({ secrets: [{ name: 'T', source: 'op:a/b/c', ttl }] }).errors.length >= 1, true, String(ttl))
  for (const source of ['env:T', 'file:/t', 'vault:T'])
    assert.match(problemsOf({ secrets: [{ name: 'T', source, ttl: 60 }] }).errors.join(), /ttl has no effect on "\w+:"/)
})

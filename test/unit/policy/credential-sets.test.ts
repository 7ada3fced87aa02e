import assert from 'node:assert/strict'
import { test } from 'node:test'
import { factsOf, hostname, policyOf, problemsOf } from '../../support/policy.ts'

const rules = [
  { id: 'all', host: '*.example.com', ports: [443], methods: ['GET', 'POST'] },
  { id: 'auth', host: 'other.example.net', ports: [443], methods: ['GET'] },
]
const secrets = ['T', 'U', 'ID'].map((name) => ({ name, source: `env:${name}` }))
const AWS = { region: 'eu-west-1', service: 's3', access_key_id: 'ID' }
const credential = (id: string, inject: object, secret = 'T'): object => ({ id, secret, inject })
/** The findings about credentials that name every secret that is declared. */
const found = (credentials: readonly object[], more: object = {}) =>
  problemsOf({ rules, credentials, secrets: secrets.filter(({ name }) => JSON.stringify(credentials).includes(`"${name}"`)), ...more })

const policy = policyOf({
  rules,
  secrets,
  credentials: [
    credential('key', { domains: ['api.example.com'], header: 'X-Key' }),
    credential('wide', { domains: ['*.example.com'], placeholder: 'GH_TOKEN' }),
    credential('api', { domains: ['api.example.com'], placeholder: 'GH_TOKEN' }, 'U'),
    credential('narrow', { domains: ['api.example.com'], paths: ['/v1/**'], placeholder: 'GH_TOKEN' }),
    credential('write', { domains: ['api.example.com'], methods: ['POST'], placeholder: 'NPM_TOKEN', shape: 'npm_<alnum:36>' }),
    credential('s3', { domains: ['s3.example.com'], aws: AWS }),
  ],
})
const idsFor = (request: string, only?: string): string[] =>
  policy
    .placeholdersFor(factsOf(request), only)
    .map(({ id }) => id)
    .toSorted()

test('of each placeholder the most specific credential is swapped in: by host, then path, then methods', () => {
  for (const [request, ids] of Object.entries({
    'GET https://www.example.com/': ['wide'],
    'GET https://api.example.com/': ['api'],
    'GET https://api.example.com/v1/x': ['narrow'],
    'POST https://api.example.com/': ['api', 'write'],
    'POST https://api.example.com/v1/x': ['narrow', 'write'],
    'GET https://s3.example.com/': ['wide'],
    'GET https://example.com/': [],
    'GET https://other.example.net/': [],
    'GET https://api.example.com/v1/../x': [],
  }))
    assert.deepEqual(idsFor(request), ids, request)
})

test('of a route the named credential alone is swapped in, where it is bound, also behind a more specific one', () => {
  assert.deepEqual(idsFor('GET https://api.example.com/v1/x', 'wide'), ['wide'])
  assert.deepEqual(idsFor('GET https://api.example.com/v2', 'narrow'), [])
  assert.deepEqual(idsFor('GET https://api.example.com/', 'key'), [])
})

test('a placeholder is never written, and stands in the way of none that is', () => {
  assert.equal(policy.credentialFor(factsOf('GET https://api.example.com/v1/x'))?.id, 'key')
  assert.equal(policy.credentialFor(factsOf('GET https://www.example.com/')), undefined)
  assert.equal(policy.credentialFor(factsOf('GET https://api.example.com/'), 'api'), undefined)
  assert.equal(policy.credentialFor(factsOf('GET https://s3.example.com/'))?.id, 's3')
})

test('all that is bound to some request to a host is found by the host, each once', () => {
  const idsOf = (host: string): string[] =>
    policy
      .credentialsOf(hostname(host))
      .map(({ id }) => id)
      .toSorted()
  assert.deepEqual(idsOf('api.example.com'), ['api', 'key', 'narrow', 'wide', 'write'])
  assert.deepEqual(idsOf('www.example.com'), ['wide'])
  assert.deepEqual(idsOf('s3.example.com'), ['s3', 'wide'])
  assert.deepEqual(idsOf('example.com'), [])
})

test('every placeholder is listed once, with those that the programs of AWS sign with', () => {
  assert.deepEqual(policy.placeholders, [
    { name: 'GH_TOKEN', shape: '<alnum:40>' },
    { name: 'NPM_TOKEN', shape: 'npm_<alnum:36>' },
    { name: 'AWS_ACCESS_KEY_ID', shape: 'AKIA<upper:16>' },
    { name: 'AWS_SECRET_ACCESS_KEY', shape: '<alnum:40>' },
  ])
  assert.deepEqual(policyOf({ rules }).placeholders, [])
})

const at = { domains: ['api.example.com'], methods: ['GET'] }
const ERRORS: readonly { why: string; credentials: readonly object[]; error: RegExp | undefined }[] = [
  {
    why: 'a header and a query for one request',
    credentials: [credential('a', { ...at, header: 'X' }), credential('b', { ...at, query: 'k' })],
    error: /credential "b" and credential "a" \(policy\.yaml:\d+\) are both for api\.example\.com, and neither is more specific/,
  },
  {
    why: 'AWS keys and a body for one request',
    credentials: [credential('a', { ...at, aws: AWS }), credential('b', { ...at, body: '/k' })],
    error: /are both for api\.example\.com/,
  },
  {
    why: 'two for one placeholder and request',
    credentials: [credential('a', { ...at, placeholder: 'P' }), credential('b', { ...at, placeholder: 'P' }, 'U')],
    error: /credential "b" and credential "a" .* are both for placeholder P at api\.example\.com/,
  },
  {
    why: 'two placeholders and a header for one request',
    credentials: [
      credential('a', { ...at, placeholder: 'P' }),
      credential('b', { ...at, placeholder: 'Q' }),
      credential('c', { ...at, header: 'X' }),
    ],
    error: undefined,
  },
  {
    why: 'one placeholder with two shapes',
    credentials: [
      credential('a', { ...at, placeholder: 'P' }),
      credential('b', { ...at, paths: ['/x'], placeholder: 'P', shape: 'p_<alnum:36>' }),
    ],
    error:
      /credential "b": placeholder P has shape "p_<alnum:36>" here and "<alnum:40>" in credential "a" \(policy\.yaml:\d+\): a variable has one value/,
  },
  {
    why: 'one file and server for two placeholders',
    credentials: ['P', 'Q'].map((placeholder) =>
      credential(placeholder, { ...at, placeholder, file: { npmrc: { server: 'api.example.com' } } }),
    ),
    error: /credential "Q": npmrc has "api\.example\.com" from credential "P" \(policy\.yaml:\d+\) already/,
  },
  {
    why: 'one file and server for one placeholder at two paths',
    credentials: ['/x', '/y'].map((path) =>
      credential(path.slice(1), { ...at, paths: [path], placeholder: 'P', file: { npmrc: { server: 'api.example.com' } } }),
    ),
    error: undefined,
  },
]

for (const { why, credentials, error } of ERRORS) {
  test(`${why}: ${error === undefined ? 'accepted' : 'refused at load'}`, () => {
    const { errors } = found(credentials)
    if (error === undefined) assert.deepEqual(errors, [])
    else assert.match(errors.join('\n'), error)
    assert.ok(errors.length <= 1, errors.join('\n'))
  })
}

test('a placeholder for a host that only passthrough reaches is refused: it could never be swapped', () => {
  const { errors } = problemsOf({
    rules: [{ id: 'pin', host: 'a.example.com', tls: 'passthrough' }],
    secrets: [{ name: 'T', source: 'env:T' }],
    credentials: [credential('c', { domains: ['a.example.com'], placeholder: 'P' })],
  })
  assert.match(errors.join('\n'), /credential "c": a\.example\.com is reached through rule "pin" .* use tls: intercept/)
})

for (const { names, inject, rest } of [
  { names: ['KEY_ID', 'SESSION'], inject: { aws: { ...AWS, access_key_id: 'KEY_ID', session_token: 'SESSION' } }, rest: {} },
  { names: ['APP.KEY'], inject: { header: 'X', also: [{ header: 'Y', secret: 'APP.KEY' }] }, rest: {} },
  {
    names: ['CLIENT'],
    inject: { header: 'X' },
    rest: { oauth2: { grant: 'refresh_token', token_url: 'https://auth.example.com/t', client_id: 'me', client_secret: 'CLIENT' } },
  },
]) {
  const credentials = [{ id: 'c', secret: 'T', inject: { ...at, ...inject }, ...rest }]
  test(`${names.join(' and ')} must be declared, and the way is shown`, () => {
    const { errors } = problemsOf({ rules, secrets: [{ name: 'T', source: 'env:T' }], credentials })
    assert.equal(errors.length, names.length, errors.join('\n'))
    for (const [index, name] of names.entries())
      assert.ok(
        errors[index]?.endsWith(
          `credential "c": secret "${name}" is not declared under secrets: say in your policy where it comes from, as {name: ${name}, source: "file:/run/secrets/${name}"} in containers, or source: "env:${name.replace('.', '_')}" without`,
        ),
        errors[index],
      )
  })
  test(`${names.join(' and ')}, once declared, is used`, () => {
    const declared = ['T', ...names].map((name) => ({ name, source: 'env:X' }))
    assert.deepEqual(problemsOf({ rules, secrets: declared, credentials }), { errors: [], warnings: [] })
    assert.match(
      problemsOf({ rules, secrets: [...declared, { name: 'Z', source: 'env:Z' }], credentials }).warnings.join(),
      /secret "Z" is used/,
    )
  })
}

test('a secret is not called unused where an error may hide its name', () => {
  for (const inject of [{ aws: { ...AWS, acces_key_id: 'U', access_key_id: 7 } }, { header: 'X', also: [{ header: 'Y', secrt: 'U' }] }]) {
    const { errors, warnings } = problemsOf({ rules, secrets: secrets.slice(0, 2), credentials: [credential('c', { ...at, ...inject })] })
    assert.notDeepEqual(errors, [])
    assert.doesNotMatch(warnings.join('\n'), /is used by no credential/)
  }
})

const LINTS: readonly { why: string; inject: object; rest?: object; warning: RegExp | undefined }[] = [
  {
    why: 'a placeholder in any path',
    inject: { ...at, placeholder: 'P', in: ['path'] },
    warning: /placeholder P may stand in any path there, and servers log URLs: narrow it by paths/,
  },
  { why: 'a placeholder in any query', inject: { ...at, placeholder: 'P', in: ['header', 'query:k'] }, warning: /servers log URLs/ },
  {
    why: 'a placeholder in the query of some paths',
    inject: { ...at, paths: ['/x'], placeholder: 'P', in: ['query:k'] },
    warning: undefined,
  },
  { why: 'a placeholder in headers', inject: { ...at, placeholder: 'P' }, warning: undefined },
  {
    why: 'a token server on a private address',
    inject: { ...at, header: 'X' },
    rest: { oauth2: { grant: 'client_credentials', token_url: 'https://10.0.0.1/t', client_id: 'me' } },
    warning: /token_url: 10\.0\.0\.1 is refused \(private\) unless the oauth2 lists it in addresses/,
  },
  {
    why: 'a token server on a private address that is listed',
    inject: { ...at, header: 'X' },
    rest: { oauth2: { grant: 'client_credentials', token_url: 'https://10.0.0.1/t', client_id: 'me', addresses: ['10.0.0.1/32'] } },
    warning: undefined,
  },
  {
    why: 'a token server that may be on any private address',
    inject: { ...at, header: 'X' },
    rest: { oauth2: { grant: 'client_credentials', token_url: 'https://auth.example.com/t', client_id: 'me', addresses: ['0.0.0.0/0'] } },
    warning: /addresses "0\.0\.0\.0\/0" opens every private network/,
  },
  {
    why: 'a further field without the space of its scheme',
    inject: { ...at, header: 'X', also: [{ header: 'Authorization', prefix: 'Bearer' }] },
    warning: /prefix "Bearer" would send "Bearer<secret>"/,
  },
  {
    why: 'a file for a host of its own',
    inject: { ...at, placeholder: 'P', file: { npmrc: { server: 'api.example.com' } } },
    warning: undefined,
  },
  {
    why: 'a file for another host',
    inject: { ...at, placeholder: 'P', file: { netrc: { server: 'git.example.com', login: 'x' } } },
    warning: /netrc is for "git\.example\.com", where no credential swaps P: what its program sends there is refused/,
  },
  {
    why: "docker's file for a registry whose login is elsewhere",
    inject: { ...at, placeholder: 'P', file: { docker: { server: 'https://registry.example.net/v1/', login: 'x' } } },
    warning: undefined,
  },
]

for (const { why, inject, rest, warning } of LINTS) {
  test(`${why} is ${warning === undefined ? 'no finding' : 'warned about'}`, () => {
    const { errors, warnings } = found([{ id: 'c', secret: 'T', inject, ...rest }])
    assert.deepEqual(errors, [])
    if (warning === undefined) assert.deepEqual(warnings, [])
    else assert.match(warnings.join('\n'), warning)
    assert.ok(warnings.length <= 1, warnings.join('\n'))
  })
}

for (const { domain, shared } of [
  { domain: '*.amazonaws.com', shared: 'amazonaws.com' },
  { domain: '*.dualstack.eu-west-1.amazonaws.com', shared: 'amazonaws.com' },
  { domain: '*.googleapis.com', shared: 'storage.googleapis.com' },
  { domain: '*.githubusercontent.com', shared: 'githubusercontent.com' },
  { domain: '*.core.windows.net', shared: 'core.windows.net' },
  { domain: '*.d1.cloudfront.net', shared: 'cloudfront.net' },
  { domain: '*.acme.r2.cloudflarestorage.com', shared: 'cloudflarestorage.com' },
  { domain: '*.corp.example.com', shared: undefined },
  { domain: 's3.amazonaws.com', shared: undefined },
]) {
  test(`a credential for ${domain} is ${shared === undefined ? 'no finding' : `warned about: ${shared} has hosts of strangers`}`, () => {
    const more = { rules: [{ id: 'r', host: domain, ports: [443], methods: ['GET'] }] }
    const about = (inject: object): string[] =>
      found([credential('c', { domains: [domain], methods: ['GET'], ...inject })], more).warnings.filter((line) =>
        line.includes('credential "c"'),
      )
    const warnings = about({ header: 'X' })
    assert.equal(warnings.length, shared === undefined ? 0 : 1)
    if (shared !== undefined)
      assert.ok(warnings[0]?.includes(`domain "${domain}" covers hosts of every customer of ${shared}: name the hosts`), warnings[0])
    assert.deepEqual(about({ aws: AWS }), [], 'a signature is no secret')
  })
}

test('scrub: off is warned about where a credential is bound, and nowhere else', () => {
  const off = (host: string): string[] =>
    found([credential('c', { ...at, header: 'X' })], {
      rules: [...rules, { id: 'off', host, ports: [443], methods: ['GET'], scrub: 'off' }],
    }).warnings
  assert.match(
    off('api.example.com').join('\n'),
    /rule "off": scrub: off where credential "c" is bound: a secret that the server echoes reaches the agent/,
  )
  assert.deepEqual(off('www.example.com'), [])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CredentialBinding } from '../../../src/policy/policy.ts'
import { policyOf, problemsOf } from '../../support/policy.ts'

const rules = [{ id: 'a', host: 'a.example.com', ports: [443], methods: ['GET'] }]
const secrets = ['T', 'ID', 'SESSION', 'CLIENT', 'OTHER'].map((name) => ({ name, source: `env:${name}` }))
const partsOf = (inject: object, rest: object = {}): Parameters<typeof policyOf>[0] => ({
  rules,
  secrets,
  credentials: [{ id: 'c', secret: 'T', inject: { domains: ['a.example.com'], ...inject }, ...rest }],
})

const HEADER = { header: 'Authorization', prefix: 'Bearer ' }
const OAUTH2 = { grant: 'client_credentials', token_url: 'https://auth.example.com/token', client_id: 'me' }

const KINDS: readonly { title: string; inject: object; rest?: object; binding: Partial<CredentialBinding> }[] = [
  { title: 'a query parameter', inject: { query: 'key' }, binding: { place: { kind: 'query', name: 'key' } } },
  {
    title: 'a member of a JSON body, its pointer unescaped into segments',
    inject: { body: '/auth/a~1b/~01/0/' },
    binding: { place: { kind: 'body', at: { kind: 'json', pointer: ['auth', 'a/b', '~1', '0', ''] } } },
  },
  {
    title: 'a form field',
    inject: { body: 'user[token]' },
    binding: { place: { kind: 'body', at: { kind: 'form', field: 'user[token]' } } },
  },
  {
    title: 'a placeholder, of 40 letters and digits in header and basic',
    inject: { placeholder: 'GH_TOKEN' },
    binding: { place: { kind: 'placeholder', name: 'GH_TOKEN', shape: '<alnum:40>', places: [{ kind: 'header' }, { kind: 'basic' }] } },
  },
  {
    title: 'a placeholder with its shape, places and file',
    inject: {
      placeholder: 'NPM_TOKEN',
      shape: 'npm_<alnum:36>',
      paths: ['/x/**'],
      in: ['header:X-Npm-Token', 'basic', 'query:t:1', 'path', 'body:/a~1b', 'body:token'],
      file: { npmrc: { server: 'a.example.com/npm' } },
    },
    binding: {
      place: {
        kind: 'placeholder',
        name: 'NPM_TOKEN',
        shape: 'npm_<alnum:36>',
        places: [
          { kind: 'header', header: 'X-Npm-Token' },
          { kind: 'basic' },
          { kind: 'query', name: 't:1' },
          { kind: 'path' },
          { kind: 'body', at: { kind: 'json', pointer: ['a/b'] } },
          { kind: 'body', at: { kind: 'form', field: 'token' } },
        ],
      },
      file: { kind: 'npmrc', server: 'a.example.com/npm' },
    },
  },
  {
    title: 'a placeholder in the usual fields and one that is none of them',
    inject: { placeholder: 'P', in: ['header', 'header:X-Acme'] },
    binding: {
      place: { kind: 'placeholder', name: 'P', shape: '<alnum:40>', places: [{ kind: 'header' }, { kind: 'header', header: 'X-Acme' }] },
    },
  },
  {
    title: 'AWS keys, temporary ones as well',
    inject: { aws: { region: 'eu-west-1', service: 's3', access_key_id: 'ID', session_token: 'SESSION' } },
    binding: { place: { kind: 'aws', region: 'eu-west-1', service: 's3', accessKeyId: 'ID', sessionToken: 'SESSION' } },
  },
  {
    title: 'further fields, of the same secret and of another',
    inject: {
      header: 'DD-API-KEY',
      also: [
        { header: 'DD-APPLICATION-KEY', secret: 'OTHER' },
        { header: 'X-Copy', prefix: 'k ' },
      ],
    },
    binding: {
      place: { kind: 'header', header: 'DD-API-KEY', prefix: '' },
      also: [
        { secret: 'OTHER', place: { kind: 'header', header: 'DD-APPLICATION-KEY', prefix: '' } },
        { secret: 'T', place: { kind: 'header', header: 'X-Copy', prefix: 'k ' } },
      ],
    },
  },
  {
    title: 'an access token of the client',
    inject: HEADER,
    rest: { oauth2: { ...OAUTH2, scope: 'a b', parameters: { audience: 'https://api' }, addresses: ['10.0.0.0/8'] } },
    binding: {
      place: { kind: 'header', header: 'Authorization', prefix: 'Bearer ' },
      exchange: {
        grant: 'client_credentials',
        tokenUrl: 'https://auth.example.com/token',
        clientId: 'me',
        scope: 'a b',
        parameters: { audience: 'https://api' },
        authentication: 'basic',
        addresses: ['10.0.0.0/8'],
      },
    },
  },
  {
    title: 'an access token by a refresh token, of a client with a password',
    inject: { query: 'access' },
    rest: { oauth2: { ...OAUTH2, grant: 'refresh_token', client_secret: 'CLIENT', authentication: 'body' } },
    binding: {
      place: { kind: 'query', name: 'access' },
      exchange: {
        grant: 'refresh_token',
        tokenUrl: 'https://auth.example.com/token',
        clientId: 'me',
        clientSecret: 'CLIENT',
        parameters: {},
        authentication: 'body',
        addresses: [],
      },
    },
  },
  {
    title: 'a budget in numbers and units',
    inject: HEADER,
    rest: {
      budget: {
        requests: 5,
        requests_per_minute: 2,
        bytes_up: '100MB',
        bytes_up_per_minute: 7,
        bytes_down: '2GiB',
        bytes_down_per_minute: '3KB',
      },
    },
    binding: {
      budget: {
        requests: 5,
        requestsPerMinute: 2,
        bytesUp: 100_000_000,
        bytesUpPerMinute: 7,
        bytesDown: 2 * 1024 ** 3,
        bytesDownPerMinute: 3_000,
      },
    },
  },
  ...[
    { kind: 'netrc', server: 'a.example.com', login: 'x-access-token' },
    { kind: 'pypirc', server: 'https://a.example.com/legacy/' },
    { kind: 'docker', server: 'https://registry.example.net/v1/', login: 'oauth2accesstoken' },
  ].map(({ kind, ...file }) => ({
    title: `a file for ${kind}`,
    inject: { placeholder: 'TOKEN', file: { [kind]: file } },
    binding: { file: { kind, ...file } } as Partial<CredentialBinding>,
  })),
]

for (const { title, inject, rest, binding } of KINDS) {
  test(`a credential can be ${title}, and is handed on without a finding`, () => {
    // A secret that no credential of the test names is no finding about the credential.
    const { errors, warnings } = problemsOf(partsOf(inject, rest))
    assert.deepEqual([errors, warnings.filter((warning) => !warning.endsWith('is used by no credential'))], [[], []])
    const [found] = policyOf(partsOf(inject, rest)).credentials
    assert.ok(found)
    assert.deepEqual({ ...found, ...binding }, found)
    assert.equal('exchange' in found, 'exchange' in binding)
    assert.equal('budget' in found, 'budget' in binding)
    assert.equal('file' in found, 'file' in binding)
  })
}

test('a client without a password names itself in the form', () => {
  const [found] = policyOf(partsOf(HEADER, { oauth2: { ...OAUTH2, grant: 'refresh_token' } })).credentials
  assert.equal(found?.exchange?.authentication, 'body')
})

const BAD: readonly { inject: object; rest?: object; error: RegExp }[] = [
  { inject: { query: '?key=' }, error: /query "\?key=" is not the name of a parameter.*: write "key"$/ },
  { inject: { query: 'a b' }, error: /query "a b" is not the name of a parameter/ },
  { inject: { body: '/a/~2' }, error: /body "\/a\/~2" has a "~" .*write "~0" for "~" and "~1" for "\/"/ },
  { inject: { body: '/a~' }, error: /has a "~"/ },
  { inject: { body: `/${'a/'.repeat(40)}` }, error: /more than 32 levels deep/ },
  { inject: { body: 'a b' }, error: /neither a JSON pointer like "\/auth\/token" nor the name of a form field/ },
  { inject: { body: 'Authorization' }, error: /body "Authorization" is the name of a header field: use header: Authorization/ },
  { inject: { body: 'X-Api-Key' }, error: /use header: X-Api-Key/ },
  { inject: { query: 'k', prefix: 'x' }, error: /prefix goes with header, not with query/ },
  { inject: { placeholder: 'P', prefix: 'x' }, error: /prefix goes with header, not with placeholder/ },
  { inject: { query: 'k', also: [{ header: 'X' }] }, error: /also goes with header or basic, not with query/ },
  { inject: { placeholder: 'P', also: [{ header: 'X' }] }, error: /also goes with header or basic, not with placeholder/ },
  { inject: { header: 'X', also: [{ header: 'x' }] }, error: /also writes header "x" a second time: remove it/ },
  { inject: { header: 'X-Key', also: [{ header: 'x_key' }] }, error: /a second time/ },
  { inject: { basic: { username: 'a' }, also: [{ header: 'authorization' }] }, error: /a second time/ },
  { inject: { header: 'X', also: [{ header: 'Host' }] }, error: /header "Host" belongs to the connection/ },
  { inject: { header: 'X', also: [] }, error: /inject\.also must not be empty/ },
  { inject: { header: 'X', also: [{ header: 'Y', prefx: 'a' }] }, error: /unknown key "prefx": did you mean "prefix"\?/ },
  { inject: { header: 'X', in: ['header'] }, error: /in goes with placeholder, not with header/ },
  { inject: { header: 'X', shape: 'jwt' }, error: /shape goes with placeholder, not with header/ },
  { inject: { query: 'k', file: { netrc: { server: 'a', login: 'b' } } }, error: /file goes with placeholder, not with query/ },
  { inject: { placeholder: 'GH-TOKEN' }, error: /placeholder "GH-TOKEN" is not the name of an environment variable/ },
  { inject: { placeholder: '1A' }, error: /is not the name of an environment variable/ },
  { inject: { placeholder: 'PATH' }, error: /placeholder "PATH" is a variable that programs use for something else/ },
  { inject: { placeholder: 'LD_PRELOAD' }, error: /use for something else/ },
  { inject: { placeholder: 'https_proxy' }, error: /use for something else/ },
  { inject: { placeholder: 'SALLYPORT_LEASE' }, error: /use for something else/ },
  { inject: { placeholder: 'AWS_SECRET_ACCESS_KEY' }, error: /is never sent but signed with: use aws: \{region, service, access_key_id\}/ },
  { inject: { placeholder: 'P', shape: 'ghp_<alnum:3>' }, error: /shape "ghp_<alnum:3>": its slots have 3 characters in all/ },
  { inject: { placeholder: 'P', shape: '<letters:40>' }, error: /shape "<letters:40>": "letters" is not one of the alphabets/ },
  { inject: { placeholder: 'P', in: [] }, error: /inject\.in must not be empty/ },
  { inject: { placeholder: 'P', in: ['basic', 'basic'] }, error: /"basic" stands in the list twice/ },
  { inject: { placeholder: 'P', in: ['Header:X'] }, error: /"Header:X" in in is none of header, .*; write "header:X"$/ },
  { inject: { placeholder: 'P', in: ['cookie'] }, error: /"cookie" in in is none of header, header:NAME, basic, query:NAME, path/ },
  { inject: { placeholder: 'P', in: ['query'] }, error: /"query" in in needs the name of the parameter/ },
  { inject: { placeholder: 'P', in: ['body'] }, error: /"body" in in needs a JSON pointer or form field/ },
  { inject: { placeholder: 'P', in: ['body:Cookie'] }, error: /use header: Cookie/ },
  { inject: { placeholder: 'P', in: ['path:/x'] }, error: /"path" stands alone/ },
  { inject: { placeholder: 'P', in: ['header:Host'] }, error: /header "Host" belongs to the connection/ },
  { inject: { placeholder: 'P', in: ['header', 'header:X-Api-Key'] }, error: /in has both "header" and "header:X-Api-Key"/ },
  { inject: { placeholder: 'P', file: {} }, error: /file names no program: one of npmrc, netrc, pypirc, docker is expected/ },
  {
    inject: { placeholder: 'P', file: { npmrc: { server: 'a' }, netrc: { server: 'a', login: 'b' } } },
    error: /file names 2 programs/,
  },
  {
    inject: { placeholder: 'P', file: { npmrc: { server: '//a.example.com/' } } },
    error: /not what npmrc calls one.*here "a\.example\.com\/"/,
  },
  { inject: { placeholder: 'P', file: { npmrc: { server: 'a', login: 'b' } } }, error: /unknown key "login"/ },
  { inject: { placeholder: 'P', file: { netrc: { server: 'a.example.com' } } }, error: /file\.netrc\.login is missing/ },
  { inject: { placeholder: 'P', file: { netrc: { server: 'a', login: 'b c' } } }, error: /login "b c" may have letters/ },
  { inject: { placeholder: 'P', file: { pypirc: { server: 'upload.example.com' } } }, error: /write the URL that is uploaded to/ },
  { inject: { placeholder: 'P', file: { npmr: { server: 'a' } } }, error: /unknown key "npmr": did you mean "npmrc"\?/ },
  { inject: { aws: { region: 'EU', service: 's3', access_key_id: 'ID' } }, error: /region "EU" must be one name like "eu-west-1"/ },
  { inject: { aws: { region: 'eu-west-1', service: '*', access_key_id: 'ID' } }, error: /service "\*" must be one name like "s3"/ },
  { inject: { aws: { region: 'eu-west-1', service: 's3' } }, error: /inject\.aws\.access_key_id is missing/ },
  { inject: HEADER, rest: { budget: {} }, error: /budget is empty: name a limit/ },
  { inject: HEADER, rest: { budget: { requests: 0 } }, error: /budget\.requests must be 1 at least/ },
  {
    inject: HEADER,
    rest: { budget: { requests_per_min: 1 } },
    error: /unknown key "requests_per_min": did you mean "requests_per_minute"\?/,
  },
  { inject: HEADER, rest: { budget: { bytes_up: '100 mb' } }, error: /"100 mb" is not an amount of data: .*as "100MB"/ },
  { inject: HEADER, rest: { budget: { bytes_up: '5m' } }, error: /as "5MB"/ },
  {
    inject: HEADER,
    rest: { budget: { bytes_up: '1.5GB' } },
    error: /"1\.5GB" is not an amount of data: write bytes as a number, or one of KB/,
  },
  { inject: HEADER, rest: { budget: { bytes_up: '9999999999GiB' } }, error: /more than can be counted/ },
  { inject: HEADER, rest: { budget: { bytes_up: true } }, error: /write bytes as a number, or with a unit/ },
  { inject: HEADER, rest: { budget: { bytes_down: 0 } }, error: /budget\.bytes_down must be 1 at least/ },
  ...(['basic', 'body', 'aws'] as const).map((kind) => ({
    inject: { basic: { basic: { username: 'a' } }, body: { body: '/a' }, aws: { aws: { region: 'a', service: 's', access_key_id: 'ID' } } }[
      kind
    ],
    rest: { oauth2: OAUTH2 },
    error: new RegExp(`use header, query or placeholder, not ${kind}`),
  })),
  {
    inject: HEADER,
    rest: { oauth2: { ...OAUTH2, grant: 'password' } },
    error: /grant must be client_credentials or refresh_token, not "password"/,
  },
  { inject: HEADER, rest: { oauth2: { ...OAUTH2, client_secret: 'CLIENT' } }, error: /client_secret goes with grant refresh_token/ },
  {
    inject: HEADER,
    rest: { oauth2: { ...OAUTH2, grant: 'refresh_token', authentication: 'basic' } },
    error: /authentication: basic needs client_secret/,
  },
  { inject: HEADER, rest: { oauth2: { ...OAUTH2, scope: 'a  b' } }, error: /scope "a {2}b" must be words with one space/ },
  {
    inject: HEADER,
    rest: { oauth2: { ...OAUTH2, parameters: { grant_type: 'x' } } },
    error: /parameter "grant_type" is set by oauth2 itself/,
  },
  { inject: HEADER, rest: { oauth2: { ...OAUTH2, parameters: { 'a&b': 'x' } } }, error: /parameter "a&b" may have letters/ },
  {
    inject: { header: 'X', also: [{ header: 'Y' }] },
    rest: { oauth2: OAUTH2 },
    error: /also would send what the access token is made from: name another secret/,
  },
  {
    inject: { header: 'X', also: [{ header: 'Y', secret: 'CLIENT' }] },
    rest: { oauth2: { ...OAUTH2, grant: 'refresh_token', client_secret: 'CLIENT' } },
    error: /also would send what the access token is made from/,
  },
  ...[
    { token_url: 'http://auth.example.com/token', error: /must begin with https:\/\/: the secret is sent there/ },
    { token_url: 'HTTPS://auth.example.com/token', error: /not canonical; write "https:\/\/auth\.example\.com\/token"/ },
    { token_url: 'auth.example.com/token', error: /not an absolute URL/ },
    { token_url: 'https://me:pw-canary@auth.example.com/token', error: /token_url has an "@": leave out/ },
    { token_url: 'https://auth.example.com/token#x', error: /has a "#" behind it/ },
    { token_url: 'https://Auth.Example.com/token', error: /write "auth\.example\.com"/ },
    { token_url: 'https://*.example.com/token', error: /has a "\*": it is one URL/ },
    { token_url: 'https://auth.example.com:0443/token', error: /the port is not canonical; write ":443"/ },
    { token_url: 'https://auth.example.com/a/../token', error: /not canonical: it has a dot segment/ },
    { token_url: 'https://auth.example.com/token?a b', error: /a query with a character that must be percent-encoded/ },
  ].map(({ token_url, error }) => ({ inject: HEADER, rest: { oauth2: { ...OAUTH2, token_url } }, error })),
]

for (const { inject, rest, error } of BAD) {
  test(`${JSON.stringify({ ...inject, ...rest })} is refused with one line that says what to write`, () => {
    const { errors } = problemsOf(partsOf(inject, rest))
    assert.match(errors.join('\n'), error)
    assert.equal(errors.length, 1, errors.join('\n'))
    assert.match(errors[0] ?? '', /^policy\.yaml:\d+: /)
    assert.doesNotMatch(errors.join('\n'), /pw-canary/)
  })
}

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { credentialFiles } from '../../../src/credential/files.ts'
import type { CredentialFile, CredentialPlace } from '../../../src/wire/credential.ts'

const VALUES = { NPM_TOKEN: 'npm_SALLYPORTaaaaaaaaaaaaaaaaaaaaaaaaaaaa', GH_TOKEN: 'ghp_SALLYPORTbbbbbbbbbbbbbbbbbbbbbbbbbbbb' }

function placeholder(name: string): CredentialPlace {
  return { kind: 'placeholder', name, shape: '<alnum:40>', places: [{ kind: 'header' }] }
}

function bound(file: CredentialFile, name = 'NPM_TOKEN') {
  return { place: placeholder(name), file }
}

function contentOf(file: CredentialFile): string | undefined {
  return credentialFiles([bound(file)], VALUES)[0]?.content
}

test('two credentials of a kind stand in one file, and credentials without a file in none', () => {
  const files = credentialFiles(
    [
      bound({ kind: 'npmrc', server: 'registry.example.com' }),
      { place: placeholder('GH_TOKEN') },
      bound({ kind: 'npmrc', server: 'npm.pkg.github.com' }, 'GH_TOKEN'),
      bound({ kind: 'netrc', server: 'github.com', login: 'x-access-token' }, 'GH_TOKEN'),
    ],
    VALUES,
  )
  assert.deepEqual(files, [
    {
      name: 'npmrc',
      path: '.npmrc',
      content: `//registry.example.com/:_authToken=${VALUES.NPM_TOKEN}\n//npm.pkg.github.com/:_authToken=${VALUES.GH_TOKEN}\n`,
    },
    { name: 'netrc', path: '.netrc', content: `machine github.com login x-access-token password ${VALUES.GH_TOKEN}\n` },
  ])
})

test('without a credential that has a file there is no file', () => {
  assert.deepEqual(credentialFiles([{ place: placeholder('GH_TOKEN') }], VALUES), [])
})

for (const server of ['git.example.com/api/v4/packages/npm', 'git.example.com/api/v4/packages/npm/']) {
  test(`npm’s key of ${server} ends with one slash`, () => {
    const key = '//git.example.com/api/v4/packages/npm/:_authToken='
    assert.equal(contentOf({ kind: 'npmrc', server }), `${key}${VALUES.NPM_TOKEN}\n`)
  })
}

test('a docker file has the login and the placeholder in base64', () => {
  const content = contentOf({ kind: 'docker', server: 'https://registry.example.com/v1/', login: 'acme' })
  assert.deepEqual(JSON.parse(content ?? ''), {
    auths: { 'https://registry.example.com/v1/': { auth: Buffer.from(`acme:${VALUES.NPM_TOKEN}`).toString('base64') } },
  })
})

test('a pypirc has a section for each index, called as programs call it, and no two of one name', () => {
  const servers = [
    'https://upload.pypi.example.com/legacy/',
    'https://test.pypi.example.com/legacy/',
    'https://pkg.example.com/a/',
    'https://pkg.example.com/b/',
    'https://distutils/',
  ]
  const [file] = credentialFiles(
    servers.map((server) => bound({ kind: 'pypirc', server })),
    VALUES,
  )
  assert.deepEqual(
    [...(file?.content ?? '').matchAll(/^\[(.*)\]$/gm)].map(([, name]) => name),
    ['distutils', 'pypi', 'testpypi', 'pkg.example.com', 'pkg.example.com-2', 'distutils-2'],
  )
})

test('one file that two credentials of one placeholder name is written once', () => {
  const file: CredentialFile = { kind: 'netrc', server: 'github.com', login: 'x-access-token' }
  const [netrc] = credentialFiles([bound(file), bound(file)], VALUES)
  assert.equal(netrc?.content.split('\n').length, 2)
})

for (const second of [
  bound({ kind: 'netrc', server: 'github.com', login: 'a' }, 'GH_TOKEN'),
  bound({ kind: 'netrc', server: 'github.com', login: 'b' }),
]) {
  test(`two credentials for one server of a file are refused: ${JSON.stringify(second.file)} ${JSON.stringify(second.place)}`, () => {
    const first = bound({ kind: 'netrc', server: 'github.com', login: 'a' })
    assert.throws(() => credentialFiles([first, second], VALUES), { code: 'policy_invalid', message: /netrc for "github\.com" has two/ })
  })
}

for (const { why, file } of [
  { why: 'a netrc without a login', file: { kind: 'netrc', server: 'github.com' } },
  { why: 'a docker file without a login', file: { kind: 'docker', server: 'registry.example.com' } },
  { why: 'an npmrc with a login', file: { kind: 'npmrc', server: 'registry.example.com', login: 'me' } },
  { why: 'a netrc with a port', file: { kind: 'netrc', server: 'github.com:443', login: 'me' } },
  { why: 'a netrc with a second machine in its name', file: { kind: 'netrc', server: 'a.example.com login x\nmachine b', login: 'me' } },
  { why: 'a pypirc without a scheme', file: { kind: 'pypirc', server: 'upload.pypi.example.com' } },
  { why: 'a pypirc with a section in its URL', file: { kind: 'pypirc', server: 'https://a.example.com/\n[b]' } },
  { why: 'a pypirc with an interpolation', file: { kind: 'pypirc', server: 'https://a.example.com/%(x)s' } },
  { why: 'a pypirc with a login in its URL', file: { kind: 'pypirc', server: 'https://me:you@a.example.com/' } },
  { why: 'an npmrc with a variable of the environment', file: { kind: 'npmrc', server: '${HOME}' } },
  { why: 'an npmrc with a key of its own', file: { kind: 'npmrc', server: 'a.example.com/:registry=http://evil.example.com/' } },
  { why: 'an npmrc with a scheme', file: { kind: 'npmrc', server: 'https://registry.example.com/' } },
  { why: 'an empty server', file: { kind: 'npmrc', server: '' } },
  { why: 'a docker file of __proto__', file: { kind: 'docker', server: '__proto__', login: 'me' } },
] satisfies { why: string; file: CredentialFile }[]) {
  test(`${why} is refused`, () => assert.throws(() => contentOf(file), { code: 'policy_invalid' }))
}

for (const login of ['', 'a b', 'a\tb', 'a\nb', 'a:b', 'a"b', "a'b", 'a#b', 'a;b', 'a\\b', 'a%b', '#', '-n', 'ä', 'a\0', '\ufeffa']) {
  test(`the login ${JSON.stringify(login)} is refused in every file that has one`, () => {
    for (const [kind, server] of [
      ['netrc', 'a.example.com'],
      ['pypirc', 'https://a.example.com/'],
      ['docker', 'a.example.com'],
    ] as const)
      assert.throws(() => contentOf({ kind, server, login }), { code: 'policy_invalid' }, kind)
  })
}

for (const value of [undefined, '', 'a b', 'a\nb', 'a"b', '${HOME}', 'a#b', 'a%b', 'a/b', 'a=b', 'a;b']) {
  test(`a placeholder ${JSON.stringify(value)} is refused, and is not in the error`, () => {
    const file: CredentialFile = { kind: 'npmrc', server: 'registry.example.com' }
    assert.throws(
      () => credentialFiles([bound(file)], value === undefined ? {} : { NPM_TOKEN: value }),
      (error: Error) => !value || !error.message.includes(value),
    )
  })
}

test('a name that objects have of themselves is no placeholder', () => {
  assert.throws(() => credentialFiles([bound({ kind: 'npmrc', server: 'a.example.com' }, 'constructor')], {}), { code: 'policy_invalid' })
})

test('a file for a credential that is written into requests is refused: its value would have to be the secret', () => {
  const place: CredentialPlace = { kind: 'header', header: 'Authorization', prefix: 'Bearer ' }
  assert.throws(() => credentialFiles([{ place, file: { kind: 'npmrc', server: 'a.example.com' } }], VALUES), { code: 'policy_invalid' })
})

test('whatever the server and the login are, they are refused or stand in the file with no line added', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('npmrc', 'netrc', 'pypirc', 'docker'),
      fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[a-z.]{1,4}(?::[0-9]{1,3})?[/ -~]?$/)),
      fc.option(fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[ -~]{1,3}$/)), { nil: undefined }),
      fc.constantFrom('', 'https://', 'a'),
      (kind, server, login, before) => {
        let content: string | undefined
        try {
          content = contentOf({ kind, server: before + server, ...(login !== undefined && { login }) })
        } catch (error) {
          assert.equal((error as { code?: string }).code, 'policy_invalid')
          return
        }
        assert.equal(content?.split('\n').length, { npmrc: 2, netrc: 2, pypirc: 9, docker: 8 }[kind])
        assert.match(content ?? '', /^[\x20-\x7e\n]*$/)
      },
    ),
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ERRORS } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { SPECIAL_NAMES, TABLE } from '../../src/policy/address-table.ts'
import { KINDS } from '../../src/policy/credential-problems.ts'
import { Also, Aws, Budget, Credential, Inject, OAuth2 } from '../../src/policy/schema-credentials.ts'
import { FILE_KINDS } from '../../src/policy/schema-files.ts'
import { Filesystem, Session } from '../../src/policy/schema-session.ts'
import { Network, NOT_YET, PolicyFile, RouteEntry, Rule, SecretEntry } from '../../src/policy/schema.ts'
import { SHAPE_ALPHABETS } from '../../src/wire/placeholder-shape.ts'
import { problemsOf } from '../support/policy.ts'
import { readProject } from '../support/tree.ts'

const REFERENCE = readProject('docs/POLICY.md')
const CREDENTIALS = readProject('docs/CREDENTIALS.md')

/** The YAML blocks of a document that are whole policies, with the line they begin on. Blocks in lists are indented. */
function policiesIn(document: string): { line: number; text: string }[] {
  const text = readProject(document)
  return [...text.matchAll(/^( *)```yaml\n([^]*?)^\1```$/gm)]
    .map((match) => ({
      line: text.slice(0, match.index).split('\n').length,
      text: (match[2] ?? '').replaceAll(new RegExp(`^${match[1] ?? ''}`, 'gm'), ''),
    }))
    .filter((block) => /^(?:#.*\n|\n)*version: 1$/m.test(block.text))
}

for (const { document, least } of [
  { document: 'docs/POLICY.md', least: 4 },
  { document: 'docs/CREDENTIALS.md', least: 4 },
  { document: 'README.md', least: 1 },
]) {
  const policies = policiesIn(document)
  test(`${document} shows ${least} whole policies at least`, () => assert.ok(policies.length >= least))
  for (const { line, text } of policies) {
    test(`the policy on line ${line} of ${document} loads without an error`, () =>
      assert.deepEqual(problemsOf(text, ['policies']).errors, []))
  }
}

for (const document of ['docs/POLICY.md', 'docs/CREDENTIALS.md']) {
  test(`the policies of ${document} have no warning either: what is shown is copied`, () => {
    for (const { line, text } of policiesIn(document)) assert.deepEqual(problemsOf(text).warnings, [], `line ${line}`)
  })
}

/** The fields that the tables with this heading have rows for. */
function rowsOf(document: string, heading = '\\| field \\|'): Set<string | undefined> {
  const tables = document.match(new RegExp(`^${heading}.*\\n(?:\\|.*\\n)*`, 'gm')) ?? []
  return new Set(
    [...tables.join('').matchAll(/^\| (`[^|]+) \|/gm)].flatMap((row) =>
      [...(row[1] ?? '').matchAll(/`([a-z0-9._]+)`/g)].map((name) => name[1]),
    ),
  )
}

test('the tables of fields have a row for every field that a policy file accepts, and no row for another', () => {
  const fields = [
    ...Object.keys(PolicyFile.shape).filter((key) => key !== 'network'),
    ...Object.keys(Network.shape).map((key) => `network.${key}`),
    ...Object.keys(Rule.shape),
    ...Object.keys(SecretEntry.shape),
    ...Object.keys(RouteEntry.shape),
  ]
  assert.deepEqual(rowsOf(REFERENCE), new Set(fields))
  const ofCredentials = [
    ...Object.keys(Credential.shape).filter((key) => key !== 'inject'),
    ...Object.keys(Inject.shape).map((key) => (key === 'basic' ? 'inject.basic.username' : `inject.${key}`)),
  ]
  assert.deepEqual(rowsOf(CREDENTIALS), new Set(ofCredentials))
  assert.deepEqual(
    rowsOf(CREDENTIALS, '\\| `oauth2` \\| means'),
    new Set(['oauth2', ...Object.keys(OAuth2.shape).filter((key) => key !== 'addresses')]),
  )
  assert.deepEqual(rowsOf(CREDENTIALS, '\\| `file` \\| `server`'), new Set(['file', ...FILE_KINDS]))
  assert.ok(CREDENTIALS.includes(`aws: {${Object.keys(Aws.shape).join(', ')}}`))
  assert.ok(CREDENTIALS.includes(`{${Object.keys(Also.shape).join(', ')}}`))
  for (const key of Object.keys(Budget.shape)) assert.ok(CREDENTIALS.includes(`\`${key.replace('_per_minute', '')}\``), key)
  for (const kind of KINDS) assert.match(CREDENTIALS, new RegExp(`^\\| \`${kind}\` \\|`, 'm'))
  for (const alphabet of Object.keys(SHAPE_ALPHABETS)) assert.ok(CREDENTIALS.includes(`\`${alphabet}\``), alphabet)
})

test('docs/POLICY.md names every field of filesystem and session', () => {
  const section = REFERENCE.split('## Sessions')[1]?.split('\n## ')[0] ?? ''
  for (const key of [...Object.keys(Filesystem.shape), ...Object.keys(Session.shape)]) assert.ok(section.includes(`\`${key}\``), key)
})

test('docs/POLICY.md names all that is known and not enforced yet', () => {
  const section = REFERENCE.split('## Known and not enforced yet')[1]?.split('\n## ')[0] ?? ''
  for (const [place, keys] of Object.entries(NOT_YET))
    for (const key of keys) assert.match(section, new RegExp(`\`(?:network\\.)?${key}\``), `${place} ${key}`)
  for (const kind of section.matchAll(/`([a-z-]+):`/g)) {
    const { errors } = problemsOf({ secrets: [{ name: 'T', source: `${kind[1]}:x` }] })
    assert.match(errors.join(), /known but not enforced/, kind[1])
  }
})

test('numbers and names in docs/POLICY.md and docs/CREDENTIALS.md are those of the code', () => {
  assert.equal(LIMITS.policyFileBytesMax, 1024 * 1024)
  assert.equal(LIMITS.policyFilesMax, 64)
  assert.equal(LIMITS.workspacePolicyBytesMax, 256 * 1024)
  assert.equal(LIMITS.secretExecTtlMs, 60_000)
  assert.equal(LIMITS.secretExecMs, 15_000)
  assert.equal(LIMITS.secretBytesMax, 64 * 1024)
  assert.equal(LIMITS.secretCharsMin, 6)
  assert.equal(LIMITS.heldBodyBytesMax, 4 * 1024 * 1024)
  assert.equal(LIMITS.scrubHitsMax, 10_000)
  for (const name of ['localhost', 'internal', 'local', 'lan', 'test', 'svc', 'onion', 'nip.io']) assert.ok(SPECIAL_NAMES.has(name), name)
  const classes = new Set<string>(TABLE.map(([name]) => name))
  for (const name of ['private', 'loopback', 'link-local', 'cgnat', 'documentation', 'benchmark', 'multicast', 'reserved'])
    assert.ok(classes.has(name), name)
  const headers = readProject('src/wire/credential-fields.ts').split('new Set([')[1]?.split('])')[0] ?? ''
  const removed = [...headers.matchAll(/'([a-z-]+)'/g)].map((match) => match[1] ?? '')
  assert.ok(removed.length >= 8)
  for (const name of removed) assert.match(CREDENTIALS, new RegExp(`\`${name}\``, 'i'))
  const environment = readProject('src/credential/run-command.ts').split('EXEC_ENVIRONMENT = [')[1]?.split(']')[0] ?? ''
  for (const [, name] of environment.matchAll(/'([A-Z_]+)'/g)) assert.ok(REFERENCE.includes(`\`${name}\``), name)
})

for (const { document, most } of [
  { document: 'docs/POLICY.md', most: 250 },
  { document: 'docs/CREDENTIALS.md', most: 200 },
]) {
  test(`${document} stays a reference that is read in one sitting: ${most} lines at most`, () => {
    assert.ok(readProject(document).trimEnd().split('\n').length <= most)
  })
}

test('every code that docs/CREDENTIALS.md names is one that an agent may get', () => {
  const codes = [...CREDENTIALS.matchAll(/\(?`([a-z]+(?:_[a-z]+)+)`\)?/g)].map((match) => match[1] ?? '').filter((name) => name in ERRORS)
  assert.deepEqual(
    new Set(codes),
    new Set([
      'body_too_large',
      'body_unfit',
      'placeholder_misplaced',
      'aws_signature_refused',
      'token_exchange_failed',
      'own_credentials_refused',
      'secret_echoed',
      'answer_not_scrubbable',
      'budget_exhausted',
    ]),
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { SPECIAL_NAMES, TABLE } from '../../src/policy/address-table.ts'
import { Credential, Network, NOT_YET, PolicyFile, RouteEntry, Rule, SecretEntry } from '../../src/policy/schema.ts'
import { problemsOf } from '../support/policy.ts'
import { readProject } from '../support/tree.ts'

const REFERENCE = readProject('docs/POLICY.md')

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
  { document: 'README.md', least: 1 },
]) {
  const policies = policiesIn(document)
  test(`${document} shows ${least} whole policies at least`, () => assert.ok(policies.length >= least))
  for (const { line, text } of policies) {
    test(`the policy on line ${line} of ${document} loads without an error`, () =>
      assert.deepEqual(problemsOf(text, ['policies']).errors, []))
  }
}

test('the policies of docs/POLICY.md have no warning either: what is shown is copied', () => {
  for (const { line, text } of policiesIn('docs/POLICY.md')) assert.deepEqual(problemsOf(text).warnings, [], `line ${line}`)
})

test('docs/POLICY.md has a row for every field that a policy file accepts, and no row for another', () => {
  const inject = Credential.shape.inject.shape
  const fields = [
    ...Object.keys(PolicyFile.shape).filter((key) => key !== 'network'),
    ...Object.keys(Network.shape).map((key) => `network.${key}`),
    ...Object.keys(Rule.shape),
    ...Object.keys(Credential.shape).filter((key) => key !== 'inject'),
    ...Object.keys(inject).map((key) => (key === 'basic' ? 'inject.basic.username' : `inject.${key}`)),
    ...Object.keys(SecretEntry.shape),
    ...Object.keys(RouteEntry.shape),
  ]
  const rows = [...REFERENCE.matchAll(/^\| (`[^|]+) \|/gm)].flatMap((row) =>
    [...(row[1] ?? '').matchAll(/`([a-z._]+)`/g)].map((name) => name[1]),
  )
  assert.deepEqual(new Set(rows), new Set(fields))
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

test('numbers and names in docs/POLICY.md are those of the code', () => {
  assert.equal(LIMITS.policyFileBytesMax, 1024 * 1024)
  assert.equal(LIMITS.policyFilesMax, 64)
  assert.equal(LIMITS.secretExecTtlMs, 60_000)
  assert.equal(LIMITS.secretExecMs, 15_000)
  assert.equal(LIMITS.secretBytesMax, 64 * 1024)
  for (const name of ['localhost', 'internal', 'local', 'lan', 'test', 'svc', 'onion', 'nip.io']) assert.ok(SPECIAL_NAMES.has(name), name)
  const classes = new Set<string>(TABLE.map(([name]) => name))
  for (const name of ['private', 'loopback', 'link-local', 'cgnat', 'documentation', 'benchmark', 'multicast', 'reserved'])
    assert.ok(classes.has(name), name)
  const headers = readProject('src/wire/credential-fields.ts').split('new Set([')[1]?.split('])')[0] ?? ''
  const removed = [...headers.matchAll(/'([a-z-]+)'/g)].map((match) => match[1] ?? '')
  assert.ok(removed.length >= 8)
  for (const name of removed) assert.match(REFERENCE, new RegExp(`\`${name}\``, 'i'))
  const environment = readProject('src/credential/secrets.ts').split('EXEC_ENVIRONMENT = [')[1]?.split(']')[0] ?? ''
  for (const [, name] of environment.matchAll(/'([A-Z_]+)'/g)) assert.ok(REFERENCE.includes(`\`${name}\``), name)
})

test('docs/POLICY.md stays a reference that is read in one sitting: 230 lines at most', () => {
  assert.ok(REFERENCE.trimEnd().split('\n').length <= 230)
})

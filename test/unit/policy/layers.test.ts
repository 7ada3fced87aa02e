import assert from 'node:assert/strict'
import { symlinkSync } from 'node:fs'
import { test } from 'node:test'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { checkPolicy, formatPlace, loadPolicy, showPolicy } from '../../../src/policy/policy.ts'
import { factsOf, verdict, writeFiles } from '../../support/policy.ts'

const file = (rules: string, more = ''): string => `version: 1\n${more}network:\n  rules:\n${rules}`

test('extends finds names in the first folder that has them, base before user, and shows where each part came from', () => {
  using files = writeFiles({
    'one/service/npm.yaml': file('    - {id: npm, host: packages.example.com, action: allow}\n'),
    'two/service/npm.yaml': file('    - {id: wrong, host: wrong.example.com, action: allow}\n'),
    'two/base.yaml': file('    - {id: base, host: base.example.com, action: allow}\n', 'extends: [service/npm]\n'),
    'mine.yaml': file('    - {id: mine, host: mine.example.com, action: allow}\n', 'extends: [base, service/npm]\n'),
  })
  const policy = loadPolicy([files.at('mine.yaml')], { policyDirs: [files.at('one'), files.at('two')] })
  const { rules, files: read } = showPolicy(policy)
  assert.deepEqual(
    rules.map((rule) => `${rule.id} ${formatPlace(rule.from)}`),
    [`npm ${files.at('one/service/npm.yaml')}:4`, `base ${files.at('two/base.yaml')}:5`, `mine ${files.at('mine.yaml')}:5`],
  )
  assert.equal(read.length, 3)
})

test('several paths are layers: rules add up and the strictest decides; a file named twice counts once', () => {
  using files = writeFiles({
    'a.yaml': file('    - {id: a, host: "*.example.com", action: allow}\n'),
    'b.yaml': file('    - {id: b, host: x.example.com, action: deny}\n'),
  })
  const policy = loadPolicy([files.at('a.yaml'), files.at('b.yaml'), files.at('a.yaml')], { policyDirs: [] })
  assert.equal(verdict(policy.decide(factsOf('GET https://x.example.com/'))), 'denied_by_rule b')
  assert.equal(verdict(policy.decide(factsOf('GET https://y.example.com/'))), 'allow a')
})

test('a later file may take back what an earlier one allows: a warning, not an error', () => {
  using files = writeFiles({
    'a.yaml': file('    - {id: a, host: x.example.com, action: allow}\n'),
    'b.yaml': file('    - {id: b, host: x.example.com, action: deny}\n'),
  })
  const { errors, warnings } = checkPolicy([files.at('a.yaml'), files.at('b.yaml')], { policyDirs: [] })
  assert.deepEqual(errors, [])
  assert.match(warnings[0]?.message ?? '', /rule "a" is unreachable: rule "b"/)
})

test('ids must differ over all files, and both places are named', () => {
  const more = 'credentials: [{id: c, secret: S, inject: {domains: [x.example.com], header: X}}]\nsecrets: [{name: S, source: "env:S"}]\n'
  using files = writeFiles({
    'a.yaml': file('    - {id: r, host: x.example.com, action: allow}\n', more),
    'b.yaml': file('    - {id: r, host: y.example.com, action: allow}\n', more),
  })
  const messages = checkPolicy([files.at('a.yaml'), files.at('b.yaml')], { policyDirs: [] }).errors.map((error) => error.message)
  for (const what of ['rule "r"', 'credential "c"', 'secret "S"']) {
    assert.ok(
      messages.some((message) => message.startsWith(`${what} stands at ${files.at('a.yaml')}:`)),
      what,
    )
  }
})

test('a circle of extends is refused, also through a symlink', () => {
  using files = writeFiles({
    'd/a.yaml': file('', 'extends: [b]\n').replace('rules:\n', 'rules: []\n'),
    'd/b.yaml': 'version: 1\nextends: [c]\n',
  })
  symlinkSync(files.at('d/a.yaml'), files.at('d/c.yaml'))
  const { errors } = checkPolicy([files.at('d/a.yaml')], { policyDirs: [files.at('d')] })
  assert.equal(errors.length, 1)
  assert.match(errors[0]?.message ?? '', /extends in a circle: .*a\.yaml → .*b\.yaml → .*a\.yaml/)
})

test('a name that is in no folder is policy_not_found, at the line that asks for it', () => {
  using files = writeFiles({ 'a.yaml': 'version: 1\nextends:\n  - service/none\n' })
  assert.throws(
    () => loadPolicy([files.at('a.yaml')], { policyDirs: [files.dir] }),
    (error: unknown) => {
      assert.ok(error instanceof SallyportError)
      assert.equal(error.code, 'policy_not_found')
      assert.match(error.message, /a\.yaml:3: extends "service\/none": there is no service\/none\.yaml in/)
      return true
    },
  )
})

test('a name with .. or a leading slash never reaches the file system', () => {
  using files = writeFiles({ 'secret.yaml': 'not: a policy', 'd/a.yaml': 'version: 1\nextends: ["../secret", "/etc/hostname"]\n' })
  const { errors } = checkPolicy([files.at('d/a.yaml')], { policyDirs: [files.at('d')] })
  assert.equal(errors.length, 2)
  for (const error of errors) assert.match(error.message, /must be a name like/)
})

test('the number of files is bounded', () => {
  const count = LIMITS.policyFilesMax + 10
  const chain = Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`p${index}.yaml`, `version: 1\n${index + 1 < count ? `extends: [p${index + 1}]\n` : ''}`]),
  )
  using files = writeFiles(chain)
  const { errors } = checkPolicy([files.at('p0.yaml')], { policyDirs: [files.dir] })
  assert.deepEqual(
    errors.map((error) => error.message),
    [`more than ${LIMITS.policyFilesMax} policy files`],
  )
})

test('the digest is of what is said, not of where it is written', () => {
  using files = writeFiles({
    'a.yaml': file('    - {id: r, host: x.example.com, action: allow}\n'),
    'b.yaml': file('\n    # a comment\n    - id: r\n      action: allow\n      host: x.example.com\n      ports: [80, 443]\n'),
    'c.yaml': file('    - {id: r, host: y.example.com, action: allow}\n'),
  })
  const digest = (name: string): string => loadPolicy([files.at(name)], { policyDirs: [] }).digest
  assert.match(digest('a.yaml'), /^[0-9a-f]{64}$/)
  assert.equal(digest('a.yaml'), digest('b.yaml'))
  assert.notEqual(digest('a.yaml'), digest('c.yaml'))
})

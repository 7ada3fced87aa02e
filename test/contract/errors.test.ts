import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ERRORS, type ErrorCode } from '../../src/kernel/errors.ts'
import { errorsDocument } from '../support/errors-document.ts'
import { projectFiles, readProject } from '../support/tree.ts'

const CODES = Object.keys(ERRORS) as ErrorCode[]

test('docs/ERRORS.md is what the table says (node test/support/errors-document.ts writes it)', () => {
  assert.equal(readProject('docs/ERRORS.md'), errorsDocument())
})

test('docs/ERRORS.md has each code of the table once, and no other', () => {
  const documented = [...readProject('docs/ERRORS.md').matchAll(/^\| `([a-z_]+)` \|/gm)].map((match) => match[1] ?? '')
  assert.deepEqual(documented.toSorted(), CODES.toSorted())
})

for (const code of CODES) {
  test(`the code ${code} is spelled in snake case, explained in a sentence, and used by the code`, () => {
    assert.match(code, /^[a-z]+(_[a-z0-9]+)*$/)
    assert.match(ERRORS[code].means, /^[A-Z].*\.$/)
    const users = projectFiles().filter(
      (file) => file.startsWith('src/') && file !== 'src/kernel/errors.ts' && readProject(file).includes(`'${code}'`),
    )
    assert.notDeepEqual(users, [])
  })
}

test('agent codes have a status of an error, operator codes an exit code', () => {
  for (const entry of Object.values(ERRORS)) {
    if (entry.to === 'agent') assert.ok(entry.status >= 400 && entry.status <= 504)
    else assert.ok(entry.exit === 1 || entry.exit === 2)
  }
})

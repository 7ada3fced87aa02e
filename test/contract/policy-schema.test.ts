import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { checkPolicy, policyJsonSchema } from '../../src/policy/policy.ts'

const folder = join(import.meta.dirname, '../../policies')
const examples = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'))

test('policies/schema.json is what the parser has (scripts/policy-schema.ts writes it)', () => {
  assert.deepEqual(JSON.parse(readFileSync(join(folder, 'schema.json'), 'utf8')), structuredClone(policyJsonSchema()))
})

test('the published schema is strict at every level and knows no field that is not enforced', () => {
  const text = JSON.stringify(policyJsonSchema())
  for (const word of ['scrub', 'own_credentials', 'budget', 'placeholder', 'host_commands', 'presence', 'filesystem']) {
    assert.equal(text.includes(word), false, word)
  }
  assert.equal(text.split('"properties"').length, text.split('"additionalProperties":false').length)
})

for (const name of examples) {
  test(`policies/${name} loads without an error and refers to the schema`, () => {
    const file = join(folder, name)
    assert.deepEqual(checkPolicy([file], { policyDirs: [folder] }).errors, [])
    const schema = /^# yaml-language-server: \$schema=(\S+)$/m.exec(readFileSync(file, 'utf8'))?.[1]
    assert.equal(relative(folder, resolve(dirname(file), schema ?? '')), 'schema.json')
  })
}

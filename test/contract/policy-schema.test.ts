import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { checkPolicy, policyJsonSchema } from '../../src/policy/policy.ts'
import { Inject } from '../../src/policy/schema-credentials.ts'
import { NOT_YET } from '../../src/policy/schema.ts'

const folder = join(import.meta.dirname, '../../policies')
const examples = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'))

test('policies/schema.json is what the parser has (scripts/policy-schema.ts writes it)', () => {
  assert.deepEqual(JSON.parse(readFileSync(join(folder, 'schema.json'), 'utf8')), structuredClone(policyJsonSchema()))
})

test('the published schema is strict at every level and knows no field that is not enforced', () => {
  const text = JSON.stringify(policyJsonSchema())
  for (const word of Object.values(NOT_YET).flat()) assert.equal(text.includes(`"${word}"`), false, word)
  assert.equal(text.split('"properties"').length, text.split('"additionalProperties":false').length)
})

type Condition = { readonly required: readonly string[]; readonly not?: { readonly anyOf: readonly Condition[] } }

const holds = (value: object, { required, not }: Condition): boolean =>
  required.every((key) => key in value) && !(not?.anyOf.some((condition) => holds(value, condition)) ?? false)

test('of any three keys of inject the published schema takes what the parser takes', () => {
  const schema = policyJsonSchema() as unknown as {
    properties: { credentials: { items: { properties: { inject: { oneOf: Condition[] } } } } }
  }
  const { oneOf } = schema.properties.credentials.items.properties.inject
  const values = {
    header: 'X-Key',
    prefix: 'Bearer ',
    basic: { username: 'a' },
    query: 'key',
    body: '/key',
    placeholder: 'TOKEN',
    shape: 'jwt',
    in: ['path'],
    file: { npmrc: { server: 'a.example.com' } },
    aws: { region: 'eu-west-1', service: 's3', access_key_id: 'ID' },
    also: [{ header: 'X-Other' }],
  }
  const keys = Object.entries(values)
  const optional = ['domains', 'methods', 'paths']
  assert.deepEqual(new Set([...Object.keys(values), ...optional]), new Set(Object.keys(Inject.shape)))
  let accepted = 0
  for (const a of keys)
    for (const b of keys)
      for (const c of keys) {
        const inject = Object.fromEntries([a, b, c])
        const isAccepted = Inject.safeParse({ domains: ['a.example.com'], ...inject }).success
        if (isAccepted) accepted += 1
        assert.equal(oneOf.filter((condition) => holds(inject, condition)).length === 1, isAccepted, JSON.stringify(inject))
      }
  assert.ok(accepted > 20)
})

for (const name of examples) {
  test(`policies/${name} loads without an error and refers to the schema`, () => {
    const file = join(folder, name)
    const { errors } = checkPolicy([file], { policyDirs: [folder] })
    // Where the value of a secret comes from is the user's to say.
    assert.deepEqual(
      errors.filter(({ message }) => !(name.startsWith('service/') && message.includes('is not declared under secrets'))),
      [],
    )
    const schema = /^# yaml-language-server: \$schema=(\S+)$/m.exec(readFileSync(file, 'utf8'))?.[1]
    assert.equal(relative(folder, resolve(dirname(file), schema ?? '')), 'schema.json')
  })
}

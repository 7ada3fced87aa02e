import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { test } from 'node:test'
import { createHeldSecrets } from '../../../src/credential/credential.ts'
import type { Refusal } from '../../../src/kernel/errors.ts'

const GONE: Refusal = { code: 'controller_unavailable', message: 'the controller is gone', hint: 'wait' }
const DECLARED = [{ name: 'A', source: { kind: 'env', variable: 'NOT_SET' } }, { name: 'B' }]
const VALUES = { A: 'canary-a-1', B: 'canary-b-1', C: 'canary-c-1' }

test('values are those of the controller, whatever the source says, and only of what is declared', async () => {
  const secrets = createHeldSecrets(VALUES).open(DECLARED)
  assert.equal((await secrets.get('A')).reveal(), 'canary-a-1')
  assert.equal(secrets.atHand('B')?.reveal(), 'canary-b-1')
  assert.deepEqual(secrets.known('A').map(String), ['[secret A]'])
  await assert.rejects(secrets.get('C'), { code: 'secret_unavailable' })
  await assert.rejects(secrets.get('__proto__'), { code: 'secret_unavailable' })
})

for (const [what, values, code] of [
  ['that is not there', { A: 'canary-a-1' }, 'secret_missing'],
  ['of the prototype', Object.assign(Object.create({ B: 'canary-b-1' }) as object, { A: 'canary-a-1' }), 'secret_missing'],
  ['with a line break', { A: 'canary-a-1', B: 'canary\r\nX: y' }, 'secret_invalid'],
  ['that is empty', { A: 'canary-a-1', B: '' }, 'secret_invalid'],
] as const) {
  test(`a value ${what} is ${code}, without a word of it, and those in force stay`, async () => {
    const held = createHeldSecrets(VALUES)
    const before = held.open(DECLARED)
    assert.throws(
      () => held.open(DECLARED, values),
      (error: Error & { code: string }) => error.code === code && !inspect(error).includes('canary'),
    )
    assert.equal(before.atHand('B')?.reveal(), 'canary-b-1')
    assert.equal(held.open(DECLARED).atHand('B')?.reveal(), 'canary-b-1')
  })
}

test('values that are only tried are not in force before they are said to be', () => {
  const held = createHeldSecrets(VALUES)
  assert.equal(held.open(DECLARED, { A: 'canary-a-2', B: 'canary-b-2' }).atHand('A')?.reveal(), 'canary-a-2')
  assert.equal(held.open(DECLARED).atHand('A')?.reveal(), 'canary-a-1')
  held.replace({ A: 'canary-a-2', B: 'canary-b-2' })
  assert.equal(held.open(DECLARED).atHand('A')?.reveal(), 'canary-a-2')
})

test('I1 taking them back empties all that was opened, of every version, until there are new ones', async () => {
  const held = createHeldSecrets(VALUES)
  const first = held.open(DECLARED)
  held.replace({ A: 'canary-a-2', B: 'canary-b-2' })
  const second = held.open(DECLARED)
  held.wipe(GONE)
  const third = held.open(DECLARED)
  for (const secrets of [first, second, third]) {
    await assert.rejects(secrets.get('A'), { code: 'controller_unavailable', hint: 'wait' })
    assert.equal(secrets.atHand('A'), undefined)
    assert.deepEqual(secrets.known('A'), [])
  }
  assert.equal(held.ended, GONE)
  held.replace(VALUES)
  assert.equal(held.ended, undefined)
  assert.equal(held.open(DECLARED).atHand('A')?.reveal(), 'canary-a-1')
  assert.equal(first.atHand('A'), undefined)
})

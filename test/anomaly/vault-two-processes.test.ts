import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { secret, valuesOf, vaultHome } from '../support/vault.ts'
import { runChild } from '../support/vault-child.ts'

const EACH = 60

test('I33 three processes that write at once, one of them new keys: every value is there, and each change counted', async () => {
  await using home = await vaultHome()
  await (await home.create())[Symbol.asyncDispose]()
  const files = [home.file, home.unlock.keyFile] as const
  const writer = (name: string): string => `
const vault = await openVault(file, unlockWith(keyFile), system)
for (let n = 0; n < ${EACH}; n++) { vault.set('${name}_' + n, secret('${name} ' + n)); vault.set('SHARED', secret('${name} ' + n)) }
say('done')`
  const rotator = `
const vault = await openVault(file, unlockWith(keyFile), system)
for (let n = 0; n < 15; n++) await vault.rotateKey()
say('done')`
  const ended = await Promise.all([runChild(writer('A'), files), runChild(writer('B'), files), runChild(rotator, files)])
  for (const { lines, code } of ended) assert.deepEqual([lines, code], [['done'], 0])
  await using vault = await home.open()
  const values = valuesOf(vault)
  for (const name of ['A', 'B']) for (let n = 0; n < EACH; n++) assert.equal(values[`${name}_${n}`], `${name} ${n}`)
  assert.match(values['SHARED'] ?? '', new RegExp(`^[AB] ${EACH - 1}$`))
  assert.deepEqual([vault.version, vault.problems()], [4 * EACH + 15, []])
  assert.equal(vault.list().find(({ key }) => key === 'SHARED')?.version, 2 * EACH)
})

test('a process that keeps the vault to itself: a change is vault_busy and changes nothing, reading goes on', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  vault.set('A', secret('value'))
  const other = new DatabaseSync(home.file)
  other.exec('BEGIN IMMEDIATE')
  assert.equal(vault.get('A').reveal(), 'value')
  assert.throws(() => vault.set('A', secret('other')), { code: 'vault_busy', hint: /try again/ })
  other.exec('ROLLBACK')
  other.close()
  assert.equal(vault.get('A').reveal(), 'value')
  vault.set('A', secret('other'))
  assert.equal(vault.get('A').reveal(), 'other')
})

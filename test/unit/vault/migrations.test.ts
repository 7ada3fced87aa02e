import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { system } from '../../../src/kernel/system.ts'
import { openDatabase } from '../../../src/vault/database.ts'
import { SCHEMA, type Migration } from '../../../src/vault/migrations.ts'
import { secret, valuesOf, vaultHome, type VaultHome } from '../../support/vault.ts'

const NEXT: readonly Migration[] = [...SCHEMA, { sql: `ALTER TABLE secrets ADD COLUMN owner TEXT NOT NULL DEFAULT 'me'` }]
const BROKEN: readonly Migration[] = [...SCHEMA, { sql: 'ALTER TABLE secrets ADD COLUMN owner TEXT; DROP TABLE no_such_table' }]

async function filled(home: VaultHome): Promise<void> {
  await using vault = await home.create()
  vault.set('A', secret('value'))
  vault.set('B', secret('other'))
}

function versionOf(file: string): unknown {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    return [db.prepare('PRAGMA user_version').get()?.['user_version'], db.prepare('SELECT count(*) AS rows FROM secrets').get()?.['rows']]
  } finally {
    db.close()
  }
}

test('a vault of an older schema is brought up, and a copy of what it was is beside it, 0600', async () => {
  await using home = await vaultHome()
  await filled(home)
  const database = await openDatabase(home.file, system, NEXT)
  assert.equal(
    database.read((db) => db.prepare('SELECT owner FROM secrets').get()?.['owner']),
    'me',
  )
  database.close()
  const copy = `${home.file}.before-v2`
  assert.deepEqual(
    [versionOf(home.file), versionOf(copy)],
    [
      [2, 2],
      [1, 2],
    ],
  )
  assert.equal(statSync(copy).mode & 0o777, 0o600)
})

test('the copy is a vault that opens, with what only the log had yet', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  vault.set('A', secret('in the log'))
  ;(await openDatabase(home.file, system, NEXT)).close()
  const { openVault } = await import('../../../src/vault/vault.ts')
  await using copied = await openVault(`${home.file}.before-v2`, home.unlock, system)
  assert.deepEqual(valuesOf(copied), { A: 'in the log' })
})

test('I33 a step that fails leaves the schema and all rows as they were, and the next try works', async () => {
  await using home = await vaultHome()
  await filled(home)
  await assert.rejects(openDatabase(home.file, system, BROKEN))
  assert.deepEqual(versionOf(home.file), [1, 2])
  {
    await using vault = await home.open()
    assert.deepEqual(valuesOf(vault), { A: 'value', B: 'other' })
  }
  ;(await openDatabase(home.file, system, NEXT)).close()
  assert.deepEqual(versionOf(home.file), [2, 2])
})

test('without a copy there is no migration: where it can be neither made nor replaced, nothing changes', async () => {
  await using home = await vaultHome()
  await filled(home)
  const { mkdir, writeFile } = await import('node:fs/promises')
  await mkdir(`${home.file}.before-v2`)
  await writeFile(`${home.file}.before-v2/x`, '')
  await assert.rejects(openDatabase(home.file, system, NEXT), { code: 'vault_write_failed' })
  assert.deepEqual(versionOf(home.file), [1, 2])
})

test('two that migrate at once both find it done', async () => {
  await using home = await vaultHome()
  await filled(home)
  const opened = await Promise.all([openDatabase(home.file, system, NEXT), openDatabase(home.file, system, NEXT)])
  for (const database of opened) database.close()
  assert.deepEqual(
    [versionOf(home.file), versionOf(`${home.file}.before-v2`)],
    [
      [2, 2],
      [1, 2],
    ],
  )
})

test('a vault of a newer schema is vault_newer, and no byte of it changes', async () => {
  await using home = await vaultHome()
  await filled(home)
  ;(await openDatabase(home.file, system, NEXT)).close()
  const before = await home.bytes()
  await assert.rejects(home.open(), { code: 'vault_newer', message: /schema 2/ })
  assert.deepEqual(await home.bytes(), before)
})

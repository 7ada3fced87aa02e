import assert from 'node:assert/strict'
import { readFile, truncate, unlink, writeFile } from 'node:fs/promises'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { secret, valuesOf, vaultHome, type VaultHome } from '../support/vault.ts'

const VALUES = { A: 'value of a', B: 'value of b', C: 'value of c' }

async function filled(home: VaultHome): Promise<void> {
  await using vault = await home.create()
  for (const [key, value] of Object.entries(VALUES)) vault.set(key, secret(value), { tags: ['x'] })
}

/** Refused with a code, by whoever opens or makes a vault, and not a byte is changed by that: what can be saved is still there. */
async function assertLeftAlone(home: VaultHome, code: string): Promise<void> {
  const before = await readFile(home.file)
  await assert.rejects(home.open(), { code })
  await assert.rejects(home.create(), { code: 'vault_exists' })
  assert.deepEqual(await readFile(home.file), before)
}

for (const length of [0, 1, 15, 16, 99, 100, 512, 4_095, 4_096, 8_192, 12_288]) {
  test(`a vault that was cut to ${length} bytes is vault_corrupt, and left as it is`, async () => {
    await using home = await vaultHome()
    await filled(home)
    assert.ok((await readFile(home.file)).length > length)
    await truncate(home.file, length)
    await assertLeftAlone(home, 'vault_corrupt')
  })
}

for (const { why, damage } of [
  { why: 'another header', damage: (bytes: Buffer) => bytes.write('SQLite format 4') },
  { why: 'a page size that is none', damage: (bytes: Buffer) => bytes.writeUInt16BE(0x0333, 16) },
  { why: 'the mark of another program', damage: (bytes: Buffer) => bytes.writeUInt32BE(0x47504b47, 68) },
  { why: 'zeros in place of its tables', damage: (bytes: Buffer) => bytes.fill(0, 4_096) },
  { why: 'nothing but zeros', damage: (bytes: Buffer) => bytes.fill(0) },
]) {
  test(`a vault with ${why} is vault_corrupt, and left as it is`, async () => {
    await using home = await vaultHome()
    await filled(home)
    const bytes = await readFile(home.file)
    damage(bytes)
    await writeFile(home.file, bytes)
    await assertLeftAlone(home, 'vault_corrupt')
  })
}

test('a file of text, and a database of another program, are vault_corrupt, and left as they are', async () => {
  await using home = await vaultHome()
  await writeFile(home.file, 'GITHUB_TOKEN=1\n'.repeat(1_000), { mode: 0o600 })
  await assertLeftAlone(home, 'vault_corrupt')
  await unlink(home.file)
  await writeFile(home.file, '', { mode: 0o600 })
  home.raw((db) => db.exec('CREATE TABLE secrets (id TEXT)'))
  await assertLeftAlone(home, 'vault_corrupt')
})

for (const { why, sql, code } of [
  { why: 'without the record of its key', sql: 'DELETE FROM vault', code: 'vault_corrupt' },
  { why: 'with a wrapped key that was altered', sql: 'UPDATE vault SET data_key = zeroblob(60)', code: 'vault_key_wrong' },
  { why: 'with the id of another', sql: `UPDATE vault SET id = '00'`, code: 'vault_key_wrong' },
  { why: 'with a list of secrets that was altered', sql: 'UPDATE vault SET manifest = zeroblob(60)', code: 'vault_corrupt' },
  { why: 'with a list of secrets that is too short', sql: `UPDATE vault SET manifest = x'00'`, code: 'vault_corrupt' },
  { why: 'without its table of secrets', sql: 'ALTER TABLE secrets RENAME TO gone', code: undefined },
]) {
  test(`a vault ${why} ${code === undefined ? 'gives no value' : `is ${code}`}, and is left as it is`, async () => {
    await using home = await vaultHome()
    await filled(home)
    home.raw((db) => db.exec(sql))
    if (code !== undefined) {
      await assertLeftAlone(home, code)
      return
    }
    await using vault = await home.open()
    assert.throws(() => vault.get('A'))
  })
}

for (const { why, sql, problem } of [
  { why: 'a value was altered', sql: `UPDATE secrets SET value = zeroblob(40) WHERE key = 'B'`, problem: /altered or damaged/ },
  { why: 'a value was cut', sql: `UPDATE secrets SET value = x'00' WHERE key = 'B'`, problem: /altered or damaged/ },
  { why: 'it was removed past the vault', sql: `DELETE FROM secrets WHERE key = 'B'`, problem: /its row is gone/ },
  { why: 'its scope was widened', sql: `UPDATE secrets SET scope = 'any' WHERE key = 'B'`, problem: /altered or damaged/ },
  { why: 'its tags are no JSON', sql: `UPDATE secrets SET tags = '[' WHERE key = 'B'`, problem: /altered or damaged/ },
  {
    why: 'it has the value of another',
    sql: `UPDATE secrets SET value = (SELECT value FROM secrets WHERE key = 'A') WHERE key = 'B'`,
    problem: /altered or damaged/,
  },
  {
    why: 'a row was added past the vault in its place',
    sql: `UPDATE secrets SET id = 'feed' WHERE key = 'B'`,
    problem: /not stored by this vault/,
  },
]) {
  test(`I32 ${why}: that one secret is vault_corrupt, the others are read, and setting it anew settles it`, async () => {
    await using home = await vaultHome()
    await filled(home)
    home.raw((db) => db.exec(sql))
    await using vault = await home.open()
    assert.throws(() => vault.get('B'), { code: 'vault_corrupt', message: problem, hint: /set B anew/ })
    assert.deepEqual(valuesOf(vault), { A: VALUES.A, C: VALUES.C })
    vault.set('A', secret('changed meanwhile'))
    assert.throws(() => vault.get('B'), { code: 'vault_corrupt' }, 'a change of another secret does not make it valid')
    vault.set('B', secret('anew'))
    assert.deepEqual([valuesOf(vault), vault.problems()], [{ A: 'changed meanwhile', B: 'anew', C: VALUES.C }, []])
  })
}

test('I32 an older row that is put back, whole and as it was, is found; removing it settles it', async () => {
  await using home = await vaultHome()
  await filled(home)
  const older = home.raw((db) => db.prepare(`SELECT * FROM secrets WHERE key = 'B'`).get()) ?? {}
  {
    await using vault = await home.open()
    vault.set('B', secret('revoked the old one'))
  }
  home.raw((db) => {
    db.exec(`DELETE FROM secrets WHERE key = 'B'`)
    const columns = Object.keys(older)
    db.prepare(`INSERT INTO secrets (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`).run(...Object.values(older))
  })
  await using vault = await home.open()
  assert.throws(() => vault.get('B'), { code: 'vault_corrupt', message: /version 1 was put back in place of 2/ })
  vault.remove('B')
  assert.throws(() => vault.get('B'), { code: 'secret_missing' })
  assert.deepEqual(vault.problems(), [])
})

test('I32 two rows that changed places are both found', async () => {
  await using home = await vaultHome()
  await filled(home)
  home.raw((db) =>
    db.exec(
      `UPDATE secrets SET key = 'X' WHERE key = 'A'; UPDATE secrets SET key = 'A' WHERE key = 'B'; UPDATE secrets SET key = 'B' WHERE key = 'X'`,
    ),
  )
  await using vault = await home.open()
  for (const key of ['A', 'B']) assert.throws(() => vault.get(key), { code: 'vault_corrupt' })
  assert.deepEqual(valuesOf(vault), { C: VALUES.C })
})

test('I32 a row of another vault with the same key file is not taken for one of this', async () => {
  await using home = await vaultHome()
  await using other = await vaultHome()
  await filled(home)
  await writeFile(other.unlock.keyFile, await readFile(home.unlock.keyFile), { mode: 0o600 })
  await filled(other)
  home.raw((db) => {
    db.exec(`ATTACH '${other.file}' AS other`)
    db.exec(`DELETE FROM secrets WHERE key = 'B'; INSERT INTO secrets SELECT * FROM other.secrets WHERE key = 'B'`)
  })
  await using vault = await home.open()
  assert.throws(() => vault.get('B'), { code: 'vault_corrupt' })
})

test('without its key file a vault is vault_locked and left as it is; with it back all is there', async () => {
  await using home = await vaultHome()
  await filled(home)
  const key = await readFile(home.unlock.keyFile)
  await unlink(home.unlock.keyFile)
  await assertLeftAlone(home, 'vault_locked')
  assert.equal((await home.bytes()).has('vault.key'), false, 'no other one is made in its place')
  await writeFile(home.unlock.keyFile, key, { mode: 0o600 })
  await using vault = await home.open()
  assert.deepEqual(valuesOf(vault), VALUES)
})

test('a log of another vault beside it does not change what it holds', async () => {
  await using home = await vaultHome()
  await using other = await vaultHome()
  await filled(home)
  await using open = await other.create()
  open.set('A', secret('foreign'))
  await writeFile(`${home.file}-wal`, await readFile(`${other.file}-wal`), { mode: 0o600 })
  try {
    await using vault = await home.open()
    assert.deepEqual(valuesOf(vault), VALUES)
  } catch (error) {
    assert.match((error as { code?: string }).code ?? '', /^vault_(corrupt|key_wrong)$/)
  }
})

test('SQLite itself reads a vault, and the names in it, without a key: that is what it is not made for', async () => {
  await using home = await vaultHome()
  await filled(home)
  const db = new DatabaseSync(home.file, { readOnly: true })
  assert.deepEqual(
    db
      .prepare('SELECT key FROM secrets ORDER BY key')
      .all()
      .map(({ key }) => key),
    ['A', 'B', 'C'],
  )
  db.close()
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Secret } from '../../../src/kernel/secret.ts'
import { system } from '../../../src/kernel/system.ts'
import { createVault, openVault } from '../../../src/vault/vault.ts'
import { memoryKeyring, PASSPHRASE, secret, unlockWith, valuesOf, vaultHome, type VaultHome } from '../../support/vault.ts'

const VALUES = { A: 'value of a', B: 'value of b', C: 'line\nline' }

async function filled(home: VaultHome, method: 'key-file' | 'passphrase' = 'key-file') {
  const vault = await home.create(method)
  for (const [key, value] of Object.entries(VALUES)) vault.set(key, secret(value))
  return vault
}

function sealedIn(home: VaultHome): Buffer[] {
  return home
    .raw((db) => [
      ...db.prepare('SELECT value AS sealed FROM secrets ORDER BY key').all(),
      db.prepare('SELECT data_key AS sealed FROM vault').get(),
    ])
    .map((row) => Buffer.from(row?.['sealed'] as Uint8Array))
}

test('after a rotation every value and the data key are other bytes, the old ones are in no file, and what they mean is the same', async () => {
  await using home = await vaultHome()
  await using vault = await filled(home)
  const rows = vault.list()
  const before = sealedIn(home)
  await vault.rotateKey()
  assert.deepEqual(valuesOf(vault), VALUES)
  assert.deepEqual(vault.list(), rows, 'versions and dates are those of the values')
  for (const [name, bytes] of await home.bytes()) {
    for (const old of before) assert.equal(bytes.includes(old), false, name)
  }
  await using again = await home.open()
  assert.deepEqual(valuesOf(again), VALUES)
})

test('a vault that is open elsewhere goes on after a rotation, reading and writing', async () => {
  await using home = await vaultHome()
  await using vault = await filled(home)
  await using other = await home.open()
  assert.equal(other.get('A').reveal(), VALUES.A)
  await vault.rotateKey()
  assert.equal(other.get('A').reveal(), VALUES.A)
  other.set('A', secret('changed'))
  assert.equal(vault.get('A').reveal(), 'changed')
})

for (const change of ['rewrap', 'rotateKey'] as const) {
  test(`${change} to a passphrase: the key file opens nothing any more, the passphrase does, and a vault open elsewhere is locked`, async () => {
    await using home = await vaultHome()
    await using vault = await filled(home)
    await using other = await home.open()
    await vault[change]('passphrase')
    assert.deepEqual([vault.method, valuesOf(vault)], ['passphrase', VALUES])
    assert.throws(() => other.get('A'), { code: 'vault_locked' })
    await using again = await home.open()
    assert.deepEqual([again.method, valuesOf(again)], ['passphrase', VALUES])
    await assert.rejects(home.open({ unlock: { method: 'key-file' } }), { code: 'vault_locked' })
  })
}

test('rewrap leaves the values as they are sealed', async () => {
  await using home = await vaultHome()
  await using vault = await filled(home)
  const [first] = sealedIn(home)
  await vault.rewrap('passphrase')
  assert.deepEqual(sealedIn(home)[0], first)
})

test('from passphrase to passphrase only the new one opens it', async () => {
  await using home = await vaultHome()
  const asked: string[] = []
  const unlock = {
    ...home.unlock,
    passphrase: (purpose: 'open' | 'new') => {
      asked.push(purpose)
      return Promise.resolve(new Secret('p', asked.length === 1 ? PASSPHRASE : `${PASSPHRASE} anew`))
    },
  }
  {
    await using vault = await createVault(home.file, 'passphrase', unlock, system)
    vault.set('A', secret('value'))
    await vault.rotateKey('passphrase')
  }
  assert.deepEqual(asked, ['new', 'new'])
  await assert.rejects(home.open(), { code: 'vault_key_wrong' })
  await using vault = await openVault(home.file, unlock, system)
  assert.deepEqual(valuesOf(vault), { A: 'value' })
})

test('a new lock by the keyring has an entry of its own, and the one before is removed when it is no longer needed', async () => {
  await using home = await vaultHome()
  const keyring = memoryKeyring()
  const unlock = unlockWith(home.unlock.keyFile, PASSPHRASE, keyring)
  await using vault = await createVault(home.file, 'keyring', unlock, system)
  const [first] = keyring.held.keys()
  await vault.rotateKey('keyring')
  const [second, ...more] = keyring.held.keys()
  assert.notEqual(second, first)
  assert.deepEqual(more, [])
  await vault.rotateKey('key-file')
  assert.equal(keyring.held.size, 0)
})

test('I33 a change of the lock that fails leaves the old lock, and no entry of the new one', async () => {
  await using home = await vaultHome()
  const keyring = memoryKeyring()
  const unlock = unlockWith(home.unlock.keyFile, PASSPHRASE, keyring)
  let isDeaf = false
  const onChange = (): void => {
    if (isDeaf) throw new Error('the audit cannot be written')
  }
  await using vault = await createVault(home.file, 'keyring', unlock, system, { onChange })
  vault.set('A', secret('value'))
  const before = [...keyring.held.keys()]
  isDeaf = true
  for (const to of ['keyring', 'passphrase'] as const) await assert.rejects(vault.rotateKey(to), /audit/)
  assert.deepEqual([...keyring.held.keys()], before)
  await using again = await openVault(home.file, unlock, system)
  assert.deepEqual([again.method, valuesOf(again)], ['keyring', { A: 'value' }])
})

test('a vault with a secret that has a problem is not rotated: the sound ones stay readable, and nothing changes', async () => {
  await using home = await vaultHome()
  await using vault = await filled(home)
  home.raw((db) => db.exec(`UPDATE secrets SET scope = 'other' WHERE key = 'B'`))
  const before = sealedIn(home)
  await assert.rejects(vault.rotateKey(), { code: 'vault_corrupt', message: /secret B/ })
  assert.deepEqual(sealedIn(home), before)
  assert.deepEqual(valuesOf(vault), { A: VALUES.A, C: VALUES.C })
})

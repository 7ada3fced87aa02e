import assert from 'node:assert/strict'
import { chmod, link, mkdir, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { system } from '../../../src/kernel/system.ts'
import { createVault, openKeyring, openVault, UNLOCK_METHODS } from '../../../src/vault/vault.ts'
import { memoryKeyring, PASSPHRASE, REAL_COST, secret, unlockWith, valuesOf, vaultHome } from '../../support/vault.ts'

const ELSE = { passphrase: () => Promise.resolve(new Secret('passphrase', 'another passphrase')) }

for (const method of UNLOCK_METHODS) {
  test(`${method}: what was stored is there again`, async () => {
    await using home = await vaultHome()
    {
      await using vault = await home.create(method)
      vault.set('A', secret('value'))
    }
    await using vault = await home.open()
    assert.deepEqual([vault.method, valuesOf(vault)], [method, { A: 'value' }])
  })
}

test('a wrong passphrase is vault_key_wrong, which changes nothing and does not repeat it', async () => {
  await using home = await vaultHome()
  await (await home.create('passphrase'))[Symbol.asyncDispose]()
  const before = await home.bytes()
  await assert.rejects(home.open({ unlock: ELSE }), (error: SallyportError) => {
    assert.equal(error.code, 'vault_key_wrong')
    assert.doesNotMatch(`${error.message} ${error.hint ?? ''}`, /another passphrase/)
    return true
  })
  assert.deepEqual(await home.bytes(), before)
})

test('a passphrase is the same however its characters are composed', async () => {
  await using home = await vaultHome()
  const composed = { ...home.unlock, passphrase: () => Promise.resolve(new Secret('p', 'sch\u00f6n und lang genug')) }
  const decomposed = { ...home.unlock, passphrase: () => Promise.resolve(new Secret('p', 'scho\u0308n und lang genug')) }
  await (await createVault(home.file, 'passphrase', composed, system))[Symbol.asyncDispose]()
  await using vault = await openVault(home.file, decomposed, system)
  assert.equal(vault.version, 0)
})

test('a new passphrase that is short is refused without being shown, and no vault is made', async () => {
  await using home = await vaultHome()
  const short = unlockWith(home.unlock.keyFile, 'short-one')
  await assert.rejects(createVault(home.file, 'passphrase', short, system), (error: SallyportError) => {
    assert.equal(error.code, 'config_invalid')
    assert.doesNotMatch(error.message, /short-one/)
    return true
  })
  assert.equal((await home.bytes()).size, 0)
})

test('another key file, another keyring entry: vault_key_wrong; none: vault_locked', async () => {
  await using home = await vaultHome()
  await using other = await vaultHome()
  for (const each of [home, other]) await (await each.create())[Symbol.asyncDispose]()
  await assert.rejects(home.open({ unlock: { keyFile: other.unlock.keyFile } }), { code: 'vault_key_wrong' })
  await assert.rejects(home.open({ unlock: { keyFile: join(home.path, 'none') } }), { code: 'vault_locked' })
  await using third = await vaultHome()
  const keyring = memoryKeyring()
  const unlock = unlockWith(third.unlock.keyFile, PASSPHRASE, keyring)
  await (await createVault(third.file, 'keyring', unlock, system))[Symbol.asyncDispose]()
  const [account = ''] = keyring.held.keys()
  keyring.held.set(account, Buffer.alloc(32))
  await assert.rejects(openVault(third.file, unlock, system), { code: 'vault_key_wrong' })
  keyring.held.clear()
  await assert.rejects(openVault(third.file, unlock, system), { code: 'vault_locked' })
})

test('a vault that is locked otherwise than was asked for is refused before anything is asked', async () => {
  await using home = await vaultHome()
  await (await home.create('key-file'))[Symbol.asyncDispose]()
  const passphrase = (): Promise<Secret> => assert.fail('it was asked for')
  await assert.rejects(home.open({ unlock: { method: 'passphrase', passphrase } }), {
    code: 'vault_locked',
    message: /key file.*passphrase/,
  })
})

for (const { why, lock } of [
  { why: 'scrypt with more memory than the limit', lock: { method: 'passphrase', n: 2 ** 30, r: 8, p: 1, salt: '0'.repeat(32) } },
  { why: 'scrypt that is worth nothing', lock: { method: 'passphrase', n: 2, r: 8, p: 1, salt: '0'.repeat(32) } },
  { why: 'no power of two', lock: { method: 'passphrase', n: 2 ** 17 + 1, r: 8, p: 1, salt: '0'.repeat(32) } },
  { why: 'a way that nobody knows', lock: { method: 'none' } },
  { why: 'a field more', lock: { method: 'key-file', path: '/dev/zero' } },
]) {
  test(`a record of the lock that says ${why} is vault_corrupt, and nothing is asked`, async () => {
    await using home = await vaultHome()
    await (await home.create('passphrase'))[Symbol.asyncDispose]()
    home.raw((db) => db.prepare('UPDATE vault SET lock = ?').run(JSON.stringify(lock)))
    const passphrase = (): Promise<Secret> => assert.fail('it was asked for')
    await assert.rejects(home.open({ unlock: { passphrase } }), { code: 'vault_corrupt' })
  })
}

test('cheaper scrypt written into the record opens nothing', async (t) => {
  const { scryptBytes } = LIMITS
  t.after(() => Object.assign(LIMITS, { scryptBytes }))
  Object.assign(LIMITS, { scryptBytes: REAL_COST })
  await using home = await vaultHome()
  await (await home.create('passphrase'))[Symbol.asyncDispose]()
  home.raw((db) => db.exec(`UPDATE vault SET lock = replace(lock, '131072', '16384')`))
  await assert.rejects(home.open(), { code: 'vault_key_wrong' })
})

for (const { why, spoil, code } of [
  { why: 'readable by others', spoil: (file: string) => chmod(file, 0o644), code: 'vault_unsafe' },
  { why: 'readable by its group', spoil: (file: string) => chmod(file, 0o640), code: 'vault_unsafe' },
  {
    why: 'a link to one that is right',
    spoil: async (file: string) => {
      await rename(file, `${file}.real`)
      await symlink(`${file}.real`, file)
    },
    code: 'vault_unsafe',
  },
  {
    why: 'a folder',
    spoil: async (file: string) => {
      await rename(file, `${file}.real`)
      await mkdir(file, { mode: 0o700 })
    },
    code: 'vault_unsafe',
  },
  { why: 'something else', spoil: (file: string) => writeFile(file, 'ssh-ed25519 AAAA'), code: 'vault_locked' },
  { why: 'cut', spoil: async (file: string) => writeFile(file, (await readFile(file, 'utf8')).slice(0, 40)), code: 'vault_locked' },
  { why: 'endless', spoil: (file: string) => writeFile(file, 'a'.repeat(100_000)), code: 'vault_locked' },
]) {
  test(`a key file that is ${why}: ${code}, and not a word of it`, async () => {
    await using home = await vaultHome()
    await (await home.create())[Symbol.asyncDispose]()
    const key = await readFile(home.unlock.keyFile, 'utf8')
    await spoil(home.unlock.keyFile)
    await assert.rejects(home.open(), (error: SallyportError) => {
      assert.equal(error.code, code)
      assert.equal(`${error.message} ${error.hint ?? ''}`.includes(key.slice(0, 8)), false)
      return true
    })
  })
}

for (const { why, spoil } of [
  { why: 'a vault readable by others', spoil: (file: string) => chmod(file, 0o644) },
  { why: 'a folder that others may enter', spoil: (file: string) => chmod(join(file, '..'), 0o755) },
  {
    why: 'a vault that is a link',
    spoil: async (file: string) => {
      await rename(file, `${file}.real`)
      await symlink(`${file}.real`, file)
    },
  },
  { why: 'a log that is a link', spoil: (file: string) => symlink('/etc/hostname', `${file}-wal`) },
]) {
  test(`${why} is vault_unsafe`, async () => {
    await using home = await vaultHome()
    await (await home.create())[Symbol.asyncDispose]()
    await spoil(home.file)
    await assert.rejects(home.open(), { code: 'vault_unsafe' })
  })
}

test('a key file that exists is used as it is, so that one may be brought along', async () => {
  await using home = await vaultHome()
  await writeFile(home.unlock.keyFile, 'AB'.repeat(32), { mode: 0o600 })
  await (await home.create())[Symbol.asyncDispose]()
  assert.equal(await readFile(home.unlock.keyFile, 'utf8'), 'AB'.repeat(32))
  await link(home.unlock.keyFile, join(home.path, 'second-name'))
  await using vault = await home.open({ unlock: { keyFile: join(home.path, 'second-name') } })
  assert.equal(vault.method, 'key-file')
})

test('without the package of the keyring, or a service behind it, the answer is keyring_unavailable', async () => {
  await assert.rejects(
    openKeyring(() => Promise.reject(new Error('Cannot find module'))),
    { code: 'keyring_unavailable', message: /not installed/ },
  )
  await using home = await vaultHome()
  const none = { keyring: () => openKeyring(() => Promise.reject(new Error('Cannot find module'))) }
  await assert.rejects(createVault(home.file, 'keyring', { ...home.unlock, ...none }, system), { code: 'keyring_unavailable' })
  assert.equal((await home.bytes()).size, 0)
})

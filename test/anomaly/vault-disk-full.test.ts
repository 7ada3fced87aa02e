import assert from 'node:assert/strict'
import { chmod } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { Secret } from '../../src/kernel/secret.ts'
import { system } from '../../src/kernel/system.ts'
import { createVault, openVault } from '../../src/vault/vault.ts'
import { smallDisk, type Disk } from '../support/full-disk.ts'
import { secret, unlockWith, valuesOf } from '../support/vault.ts'

const LARGE = 'x'.repeat(30_000)

async function onSmallDisk(t: { skip(message: string): void }, body: (disk: Disk) => Promise<void>): Promise<void> {
  const disk = await smallDisk('vault.db', 512)
  if ('missing' in disk) return t.skip(disk.missing)
  await using held = disk
  await chmod(dirname(held.file), 0o700)
  await body(held)
}

const unlockOn = (disk: Disk) => unlockWith(join(dirname(disk.file), 'vault.key'))

test('I33 on a full disk a change is vault_write_failed, all that was stored is still read, and with space again the same works', async (t) => {
  await onSmallDisk(t, async (disk) => {
    await using vault = await createVault(disk.file, 'key-file', unlockOn(disk), system)
    vault.set('A', secret('value of a'))
    await disk.fill(8_192)
    assert.throws(() => vault.set('B', secret(LARGE)), { code: 'vault_write_failed', hint: /space/ })
    assert.throws(() => vault.set('A', secret(LARGE)), { code: 'vault_write_failed' })
    assert.deepEqual([valuesOf(vault), vault.version, vault.problems()], [{ A: 'value of a' }, 1, []])
    await disk.free()
    vault.set('B', secret(LARGE))
    assert.deepEqual(valuesOf(vault), { A: 'value of a', B: LARGE })
  })
})

test('I33 a rotation that the disk has no room for leaves the old key, and works when there is room', async (t) => {
  await onSmallDisk(t, async (disk) => {
    {
      await using vault = await createVault(disk.file, 'key-file', unlockOn(disk), system)
      for (const key of ['A', 'B', 'C', 'D']) vault.set(key, secret(key + LARGE))
    }
    await using vault = await openVault(disk.file, unlockOn(disk), system)
    vault.get('A')
    await disk.fill(40_000)
    await assert.rejects(vault.rotateKey(), { code: 'vault_write_failed' })
    assert.deepEqual(Object.keys(valuesOf(vault)), ['A', 'B', 'C', 'D'])
    await assert.rejects(
      vault.importSealed(await vault.exportSealed(new Secret('p', 'a long passphrase')), new Secret('p', 'another one')),
      {
        code: 'sealed_invalid',
      },
    )
    await disk.free()
    await vault.rotateKey()
    assert.equal(vault.get('D').reveal(), `D${LARGE}`)
  })
})

test('on a full disk no vault is made, no half of one is left, and with space it is', async (t) => {
  await onSmallDisk(t, async (disk) => {
    await disk.fill(0)
    await assert.rejects(createVault(disk.file, 'key-file', unlockOn(disk), system), { code: 'vault_write_failed' })
    await disk.free()
    await using vault = await createVault(disk.file, 'key-file', unlockOn(disk), system)
    vault.set('A', secret('value'))
    assert.deepEqual(valuesOf(vault), { A: 'value' })
  })
})

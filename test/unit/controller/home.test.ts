import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tryLock } from '../../../src/controller/file-lock.ts'
import { holdHome } from '../../../src/controller/home.ts'
import { system } from '../../../src/kernel/system.ts'
import { createVault } from '../../../src/vault/vault.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { unlockWith } from '../../support/vault.ts'

test('a home below a folder that everybody may write in is refused by daemon and vault, and nothing is made there', async () => {
  await using folder = await temporaryFolder()
  const open = join(folder.path, 'open')
  mkdirSync(open)
  chmodSync(open, 0o777)
  const home = join(open, 'below', 'home')
  assert.throws(() => holdHome(home), { code: 'config_invalid', message: /everybody may write in .*open/, hint: /chmod/ })
  const making = createVault(join(home, 'vault.db'), 'key-file', unlockWith(join(folder.path, 'key')), system)
  await assert.rejects(making, { code: 'vault_unsafe', message: /everybody may write in .*open/ })
  assert.equal(existsSync(join(open, 'below')), false)
  chmodSync(open, 0o1777)
  using _ = holdHome(home)
  assert.equal(statSync(home).mode & 0o777, 0o700)
})

test('one home is held by one at a time, in this process and in another, until it is let go', async () => {
  await using folder = await temporaryFolder()
  const home = join(folder.path, 'home')
  const again = holdHome(home)
  assert.throws(() => holdHome(home), { code: 'daemon_running' })
  const program = `const { tryLock } = await import(process.argv[1]); console.log(tryLock(process.argv[2]) === undefined)`
  const url = import.meta.resolve('../../../src/controller/file-lock.ts')
  const argv = ['--input-type=module', '-e', program, url, join(home, 'daemon.lock')]
  assert.equal(spawnSync(process.execPath, argv, { encoding: 'utf8' }).stdout, 'true\n')
  again[Symbol.dispose]()
  using _ = holdHome(home)
})

test('a lock that cannot be made is no lock that somebody holds', async () => {
  await using folder = await temporaryFolder()
  assert.throws(() => tryLock(join(folder.path, 'nowhere', 'lock')))
})

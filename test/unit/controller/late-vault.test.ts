import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openLateVault } from '../../../src/controller/late-vault.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { recordingLog, temporaryFolder } from '../../support/audit.ts'

const value = new Secret('KEY', 'value-1')
const opened = { get: () => value, has: () => 'there' as const, list: () => [], [Symbol.asyncDispose]: () => Promise.resolve() }

test('a vault that is made later is opened when it is first wanted, once', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'vault.db')
  let opens = 0
  await using vault = await openLateVault(file, () => Promise.resolve((opens++, opened)), recordingLog().log)
  await assert.rejects(vault.get('KEY'), { code: 'secret_unavailable', hint: /sallyport secret set KEY/ })
  assert.equal(opens, 0)
  writeFileSync(file, '')
  assert.equal(await vault.get('KEY'), value)
  assert.equal(await vault.get('KEY'), value)
  assert.equal(opens, 1)
})

test('one that is locked keeps nobody from starting, is tried once, and says why whenever it is wanted', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'vault.db')
  writeFileSync(file, '')
  const log = recordingLog()
  let opens = 0
  const locked = (): Promise<never> => {
    opens++
    return Promise.reject(new SallyportError('vault_locked', 'no key', { hint: 'bring it' }))
  }
  await using vault = await openLateVault(file, locked, log.log)
  for (const _ of [1, 2])
    await assert.rejects(vault.get('KEY'), { code: 'secret_unavailable', message: /vault_locked: no key/, hint: 'bring it' })
  assert.equal(opens, 1)
  assert.equal(log.lines.filter(({ level }) => level === 'warn').length, 1)
})

test('one that another process has in hand is tried again', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'vault.db')
  writeFileSync(file, '')
  const answers = [Promise.reject(new SallyportError('vault_busy', 'in hand')), Promise.resolve(opened)]
  answers[0]?.catch(() => undefined)
  await using vault = await openLateVault(file, () => answers.shift() ?? Promise.resolve(opened), recordingLog().log)
  assert.equal(await vault.get('KEY'), value)
})

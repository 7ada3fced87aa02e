import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { secret, valuesOf, vaultHome, type VaultHome } from '../support/vault.ts'
import { canTrace, runChild } from '../support/vault-child.ts'

const COUNT = 20
const VALUES = Object.fromEntries(
  Array.from({ length: COUNT }, (_, n) => [`KEY_${String(n).padStart(2, '0')}`, `value ${n} ${'x'.repeat(n * 100)}`]),
)

/** Kills itself when chance is asked for the Nth time: before the new key, at each row, at the list of rows, at the wrapped key. */
const ROTATE_UNTIL = `
let left = Number(process.env.AT)
const random = (bytes) => { if (left-- === 0) process.kill(process.pid, 'SIGKILL'); return system.random(bytes) }
const vault = await openVault(file, unlockWith(keyFile), { ...system, random })
await vault.rotateKey()
say('done')
`

async function filled(home: VaultHome): Promise<void> {
  await using vault = await home.create()
  for (const [key, value] of Object.entries(VALUES)) vault.set(key, secret(value))
}

/** A whole vault: the next one to open it reads and writes, and a rotation that was asked for again works. */
async function assertWhole(home: VaultHome): Promise<void> {
  await using vault = await home.open()
  assert.deepEqual([valuesOf(vault), vault.problems()], [VALUES, []])
  vault.tag('KEY_00', ['after'])
  await vault.rotateKey()
  assert.deepEqual(valuesOf(vault), VALUES)
}

for (const at of [0, 1, 2, COUNT, COUNT + 2, COUNT + 3]) {
  test(`I33 killed in a rotation when chance is asked for the ${at + 1}th time: all is there, by the old key`, async () => {
    await using home = await vaultHome()
    await filled(home)
    process.env['AT'] = String(at)
    const { lines, signal } = await runChild(ROTATE_UNTIL, [home.file, home.unlock.keyFile])
    assert.deepEqual([lines, signal], [[], 'SIGKILL'])
    await assertWhole(home)
  })
}

test('I33 killed in a rotation at the system calls that write and sync: all is there, by the old key or the new one', async (t) => {
  if (!(await canTrace())) return t.skip('strace is not there, or may not trace here')
  await using home = await vaultHome()
  await filled(home)
  const before = await readFile(home.file)
  const keyIdOf = (): unknown => home.raw((db) => db.prepare('SELECT key_id FROM vault').get()?.['key_id'])
  const former = keyIdOf()
  process.env['AT'] = '-1'
  const seen = { old: 0, new: 0 }
  for (const call of ['pwrite64', 'fdatasync', 'fsync', 'ftruncate']) {
    for (let at = 1; at < 200; at += call === 'pwrite64' ? 13 : 1) {
      for (const beside of ['-wal', '-shm']) await rm(`${home.file}${beside}`, { force: true })
      await writeFile(home.file, before)
      const wrapper = ['strace', '-f', '-qq', '-o', '/dev/null', '-e', `trace=${call}`, '-e', `inject=${call}:signal=KILL:when=${at}`]
      const { lines } = await runChild(ROTATE_UNTIL, [home.file, home.unlock.keyFile], { wrapper })
      if (lines.includes('done')) break
      seen[keyIdOf() === former ? 'old' : 'new'] += 1
      await using vault = await home.open()
      assert.deepEqual([valuesOf(vault), vault.problems()], [VALUES, []], `${call} ${at}`)
    }
  }
  assert.ok(seen.old > 0 && seen.new > 0, `it was killed before and after the change was final: ${JSON.stringify(seen)}`)
  await assertWhole(home)
})

test('I33 every value whose storing was acknowledged is there after a kill, and the next process goes on', async () => {
  await using home = await vaultHome()
  await (await home.create())[Symbol.asyncDispose]()
  const { lines, signal } = await runChild(
    `const vault = await openVault(file, unlockWith(keyFile), system)
     for (let n = 0; ; n++) { vault.set('KEY_' + (n % 50), secret('value ' + n)); say(String(n)) }`,
    [home.file, home.unlock.keyFile],
    { onLine: (line, kill) => line === '150' && kill() },
  )
  assert.equal(signal, 'SIGKILL')
  await using vault = await home.open()
  const last = Number(lines.at(-1))
  const values = valuesOf(vault)
  for (let n = Math.max(0, last - 48); n <= last; n++) {
    const [, stored] = /^value (\d+)$/.exec(values[`KEY_${n % 50}`] ?? '') ?? []
    assert.ok(stored !== undefined && Number(stored) >= n, `KEY_${n % 50}`)
  }
  assert.deepEqual(vault.problems(), [])
  vault.set('AFTER', secret('value'))
})

test('a process that is killed while it makes a vault leaves none, or a whole one', async () => {
  for (let at = 0; at < 8; at++) {
    await using home = await vaultHome()
    process.env['AT'] = String(at)
    const { lines } = await runChild(
      `const { createVault } = await import(${JSON.stringify(new URL('../../src/vault/vault.ts', import.meta.url).href)})
       let left = Number(process.env.AT)
       const random = (bytes) => { if (left-- === 0) process.kill(process.pid, 'SIGKILL'); return system.random(bytes) }
       await createVault(file, 'key-file', unlockWith(keyFile), { ...system, random })
       say('done')`,
      [home.file, home.unlock.keyFile],
    )
    await using vault = lines.includes('done') ? await home.open() : await home.create()
    vault.set('A', secret('value'))
    if (lines.includes('done')) break
  }
})

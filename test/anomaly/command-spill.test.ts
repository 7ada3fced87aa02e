import assert from 'node:assert/strict'
import { mkdir, readdir, stat, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { createSpill } from '../../src/controller/executor/spill.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system } from '../../src/kernel/system.ts'
import { temporaryFolder } from '../support/audit.ts'
import { commandSetting, performed } from '../support/executor.ts'
import { smallDisk } from '../support/full-disk.ts'

test('on a full disk a command goes on to its end, and no half file is left', async (t) => {
  const disk = await smallDisk('x', 512)
  if ('missing' in disk) return t.skip(disk.missing)
  await using held = disk
  await using setting = await commandSetting()
  const home = dirname(held.file)
  await using prepared = await setting.prepare({ argv: ['seq', '300000'] }, { ...setting.place, home })
  const { exitCode, truncated, spill, stdout, bytes } = await performed(prepared)
  assert.deepEqual(
    { exitCode, truncated, spill, bytes: bytes.stdout },
    { exitCode: 0, truncated: true, spill: undefined, bytes: 1_988_895 },
  )
  assert.match(stdout, /\n300000\n$/)
  assert.deepEqual(await readdir(join(home, 'output')), [])
})

test('without a home there is no file, and the command runs all the same', async () => {
  await using setting = await commandSetting()
  await using prepared = await setting.prepare({ argv: ['seq', '300000'] }, { ...setting.place, home: '/proc/none' })
  const { exitCode, spill } = await performed(prepared)
  assert.deepEqual({ exitCode, spill }, { exitCode: 0, spill: undefined })
})

test('a file ends at its bound', async () => {
  await using folder = await temporaryFolder()
  const spill = createSpill(folder.path, system)
  const chunk = Buffer.alloc(1024 * 1024)
  for (let i = 0; i < LIMITS.commandSpillBytesMax / chunk.length + 5; i++) await spill.write(chunk)
  assert.equal((await stat((await spill.end(true)) ?? '')).size, LIMITS.commandSpillBytesMax)
})

test('the oldest files give way, and nothing else in the folder does', async () => {
  await using folder = await temporaryFolder()
  const output = join(folder.path, 'output')
  await mkdir(output)
  const names = Array.from({ length: 9 }, (_, i) => `${String(i).repeat(24)}.log`)
  for (const [i, name] of names.entries()) {
    await writeFile(join(output, name), '')
    // As large as one may be, without what that takes on a disk.
    await truncate(join(output, name), LIMITS.commandSpillBytesMax)
    await utimes(join(output, name), 1_000 + i, 1_000 + i)
  }
  await writeFile(join(output, 'mine.txt'), 'x')
  const spill = createSpill(folder.path, system)
  await spill.write(Buffer.alloc(LIMITS.commandSpillAfterBytesMax))
  const path = (await spill.end(true)) ?? ''
  const left = await readdir(output)
  assert.ok(left.includes('mine.txt') && left.includes(path.slice(output.length + 1)))
  assert.deepEqual(
    names.filter((name) => left.includes(name)),
    names.slice(2),
  )
})

test('a short output never touches the disk', async () => {
  await using folder = await temporaryFolder()
  const spill = createSpill(folder.path, system)
  await spill.write(Buffer.alloc(LIMITS.commandSpillAfterBytesMax - 1))
  assert.equal(await spill.end(false), undefined)
  assert.deepEqual(await readdir(folder.path), [])
})

test('a file that is there is never written', async () => {
  await using folder = await temporaryFolder()
  await using elsewhere = await temporaryFolder()
  await symlink(elsewhere.path, join(folder.path, 'output'))
  const spill = createSpill(folder.path, { random: (bytes) => Buffer.alloc(bytes) })
  await writeFile(join(elsewhere.path, `${'0'.repeat(24)}.log`), 'mine')
  await spill.write(Buffer.alloc(LIMITS.commandSpillAfterBytesMax))
  assert.equal(await spill.end(true), undefined)
  assert.equal((await stat(join(elsewhere.path, `${'0'.repeat(24)}.log`))).size, 4)
})

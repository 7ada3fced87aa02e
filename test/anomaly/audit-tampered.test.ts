import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { appendFile, chmod, chown, copyFile, mkdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { verifyAudit } from '../../src/audit/audit.ts'
import { decided, openTestAudit, recordingLog, temporaryFolder, writeAudit } from '../support/audit.ts'

for (const { name, change } of [
  { name: 'appended to by another', change: (file: string) => appendFile(file, 'x\n') },
  { name: 'cut', change: (file: string) => truncate(file, 10) },
  { name: 'emptied', change: (file: string) => truncate(file, 0) },
  { name: 'replaced by a copy of itself', change: (file: string) => copyFile(file, `${file}.2`).then(() => rename(`${file}.2`, file)) },
  { name: 'removed', change: (file: string) => rm(file) },
  { name: 'moved away', change: (file: string) => rename(file, `${file}.1`) },
  { name: 'removed with its folder', change: (file: string) => rm(join(file, '..'), { recursive: true }) },
]) {
  test(`I15 a file that was ${name} while it is open: requests are refused, and nothing is written over it`, async () => {
    await using folder = await temporaryFolder()
    await mkdir(join(folder.path, 'sub'))
    const file = join(folder.path, 'sub', 'audit.jsonl')
    const recorded = recordingLog()
    await using audit = await openTestAudit(file, recorded)
    await audit.append(decided('r1'))
    await change(file)
    const changed = await readFile(file).catch(() => undefined)
    for (const request of ['r2', 'r3']) await assert.rejects(audit.append(decided(request)), { code: 'audit_unavailable' })
    assert.deepEqual(await readFile(file).catch(() => undefined), changed)
    assert.equal(recorded.lines.filter(({ level }) => level === 'error').length, 1)
  })
}

test('a file that was moved away and back is gone on with', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await using audit = await openTestAudit(file)
  await audit.append(decided('r1'))
  await rename(file, `${file}.1`)
  await assert.rejects(audit.append(decided('r2')), { code: 'audit_unavailable' })
  await rename(`${file}.1`, file)
  await audit.append(decided('r3'))
  assert.equal((await verifyAudit(file)).events, 2)
})

test('I15 of two processes with one file the one that finds the lines of the other writes no more', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await using first = await openTestAudit(file)
  await using second = await openTestAudit(file)
  await second.append(decided('r1'))
  await assert.rejects(first.append(decided('r2')), { code: 'audit_unavailable' })
  await second.append(decided('r3'))
  assert.equal((await verifyAudit(file)).events, 2)
})

test('a file that may not be written is audit_open_failed', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeFile(file, '')
  await chmod(file, 0o400)
  const isRoot = process.geteuid?.() === 0
  if (isRoot) {
    // Root may write every file: be somebody else for a moment.
    for (const path of [folder.path, file]) await chown(path, 65_534, 65_534)
    process.seteuid?.(65_534)
  }
  try {
    await assert.rejects(openTestAudit(file), { code: 'audit_open_failed', message: /EACCES/ })
  } finally {
    if (isRoot) process.seteuid?.(0)
  }
})

test('a file on a read-only file system is audit_open_failed', async (t) => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'disk')
  await mkdir(path)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', path], { stdio: 'pipe' })
  } catch {
    return t.skip('mounting a tmpfs is not permitted here: the file that may not be written above stands in')
  }
  try {
    await writeAudit(join(path, 'audit.jsonl'), 1)
    execFileSync('mount', ['-o', 'remount,ro', path])
    await assert.rejects(openTestAudit(join(path, 'audit.jsonl')), { code: 'audit_open_failed', message: /EROFS/ })
    await assert.rejects(openTestAudit(join(path, 'new.jsonl')), { code: 'audit_open_failed', message: /EROFS/ })
    assert.equal((await verifyAudit(join(path, 'audit.jsonl'))).events, 1)
    await assert.rejects(stat(join(path, 'new.jsonl')), { code: 'ENOENT' })
  } finally {
    execFileSync('umount', [path])
  }
})

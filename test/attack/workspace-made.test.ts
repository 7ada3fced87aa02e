/** An agent puts other things where the controller made files and folders in its workspace, which are removed with the session. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeMissing, removeMade, type Made } from '../../src/controller/sessions/workspace-covers.ts'

async function made() {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'sallyport-made-')))
  const [git, host] = [join(root, 'work', '.git'), join(root, 'host')]
  mkdirSync(git, { recursive: true })
  mkdirSync(join(host, 'hooks'), { recursive: true })
  writeFileSync(join(host, 'config.worktree'), '')
  const [file, folder] = [join(git, 'config.worktree'), join(git, 'hooks')]
  const list = [await makeMissing(file, 'file', ''), await makeMissing(folder, 'folder', '')].filter(
    (one): one is Made => one !== undefined,
  )
  return { git, host, file, folder, list, [Symbol.dispose]: () => rmSync(root, { recursive: true }) }
}

test('what was made is removed where it is as it was made', async () => {
  using it = await made()
  await removeMade(it.list, [])
  assert.deepEqual([existsSync(it.file), existsSync(it.folder), existsSync(it.git)], [false, false, true])
})

test('I40 where a link leads elsewhere now, nothing there is removed, though it has the name and the content', async () => {
  using it = await made()
  renameSync(it.git, `${it.git}2`)
  symlinkSync(it.host, it.git)
  await removeMade(it.list, [])
  assert.deepEqual([existsSync(join(it.host, 'config.worktree')), existsSync(join(it.host, 'hooks'))], [true, true])
})

for (const { what, put } of [
  { what: 'a file of 8 GiB', put: (path: string) => (writeFileSync(path, ''), truncateSync(path, 8 * 1024 ** 3)) },
  { what: 'a file of 600 MiB', put: (path: string) => (writeFileSync(path, ''), truncateSync(path, 600 * 1024 ** 2)) },
  { what: 'a FIFO', put: (path: string) => execFileSync('mkfifo', [path]) },
  { what: 'a link', put: (path: string) => symlinkSync('/dev/zero', path) },
  { what: 'a folder', put: (path: string) => mkdirSync(path) },
])
  test(`${what} in the place of a file that was made stays, is not read, and keeps no session from its end`, async () => {
    using it = await made()
    rmSync(it.file)
    put(it.file)
    const { ino } = lstatSync(it.file)
    const before = process.memoryUsage().rss
    await removeMade(it.list, [])
    assert.equal(lstatSync(it.file).ino, ino)
    assert.ok(process.memoryUsage().rss - before < 64 * 1024 ** 2)
    assert.equal(existsSync(it.folder), false)
  })

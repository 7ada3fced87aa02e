import assert from 'node:assert/strict'
import { appendFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { watchFiles } from '../../../src/sidecar/watch.ts'
import { temporaryFolder } from '../../support/audit.ts'

type Watching = AsyncDisposable & {
  readonly file: string
  readonly files: string[]
  /** How often it said that something changed. */
  changes(): number
  look(times?: number): void
  /** Whether the last change could not be used. */
  fail(fails: boolean): void
  stop(): void
}

async function openWatching(t: TestContext, text: string | undefined = 'one'): Promise<Watching> {
  const folder = await temporaryFolder()
  const file = join(folder.path, 'policy.yaml')
  if (text !== undefined) await writeFile(file, text)
  const files = [file]
  let changes = 0
  let isFailing = false
  t.mock.timers.enable({ apis: ['setInterval'] })
  const watch = watchFiles(
    () => files,
    () => (changes += 1),
    () => isFailing,
  )
  return {
    file,
    files,
    changes: () => changes,
    look(times = 1) {
      for (let i = 0; i < times; i++) t.mock.timers.tick(LIMITS.reloadPollMs)
    },
    fail: (fails) => void (isFailing = fails),
    stop: () => watch[Symbol.dispose](),
    async [Symbol.asyncDispose]() {
      watch[Symbol.dispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
}

test('files that stay as they are say nothing', async (t) => {
  await using watching = await openWatching(t)
  watching.look(10)
  assert.equal(watching.changes(), 0)
})

test('a changed file is told once, when it has kept still for one look', async (t) => {
  await using watching = await openWatching(t)
  await writeFile(watching.file, 'another')
  watching.look()
  assert.equal(watching.changes(), 0, 'it may be half written')
  watching.look()
  assert.equal(watching.changes(), 1)
  watching.look(10)
  assert.equal(watching.changes(), 1)
})

test('a file that is being written is left alone until it is done', async (t) => {
  await using watching = await openWatching(t)
  for (let i = 0; i < 20; i++) {
    await appendFile(watching.file, 'more')
    watching.look()
  }
  assert.equal(watching.changes(), 0)
  watching.look()
  assert.equal(watching.changes(), 1)
})

test('a file of the same length and the same time is another when it was renamed into place', async (t) => {
  await using watching = await openWatching(t)
  await writeFile(`${watching.file}.new`, 'two')
  const then = new Date(2020, 1, 1)
  await utimes(watching.file, then, then)
  watching.look(2)
  const before = watching.changes()
  await utimes(`${watching.file}.new`, then, then)
  await rename(`${watching.file}.new`, watching.file)
  watching.look(2)
  assert.equal(watching.changes(), before + 1)
})

test('a file that goes, and one that comes back, are changes', async (t) => {
  await using watching = await openWatching(t)
  await rm(watching.file)
  watching.look(2)
  assert.equal(watching.changes(), 1)
  await writeFile(watching.file, 'one')
  watching.look(2)
  assert.equal(watching.changes(), 2)
})

test('a link that leads elsewhere is a change, as a mounted configuration swaps its folders', async (t) => {
  await using watching = await openWatching(t, 'one')
  for (const name of ['a', 'b']) await writeFile(`${watching.file}.${name}`, name)
  await rm(watching.file)
  await symlink(`${watching.file}.a`, watching.file)
  watching.look(2)
  const before = watching.changes()
  await symlink(`${watching.file}.b`, `${watching.file}.link`)
  await rename(`${watching.file}.link`, watching.file)
  watching.look(2)
  assert.equal(watching.changes(), before + 1)
})

test('a file that the policy did not name before is watched from when it does', async (t) => {
  await using watching = await openWatching(t)
  const more = `${watching.file}.more`
  await writeFile(more, 'x')
  watching.files.push(more)
  watching.look(2)
  const before = watching.changes()
  await writeFile(more, 'changed')
  watching.look(2)
  assert.equal(watching.changes(), before + 1)
})

test('while what changed could not be used every look tells of it, and none when it could', async (t) => {
  await using watching = await openWatching(t)
  watching.fail(true)
  watching.look(3)
  assert.equal(watching.changes(), 3)
  watching.fail(false)
  watching.look(3)
  assert.equal(watching.changes(), 3)
})

test('after its end it looks at nothing', async (t) => {
  await using watching = await openWatching(t)
  watching.stop()
  await writeFile(watching.file, 'another')
  watching.look(5)
  assert.equal(watching.changes(), 0)
})

test('a file that becomes a link to itself ends nothing: it has changed, and is told again when it is mended', async (t) => {
  await using watching = await openWatching(t)
  await rm(watching.file)
  await symlink(watching.file, watching.file)
  watching.look(3)
  assert.equal(watching.changes(), 1)
  await rm(watching.file)
  await writeFile(watching.file, 'two')
  watching.look(3)
  assert.equal(watching.changes(), 2)
})

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { tryLock } from '../../../src/controller/file-lock.ts'
import { openTrust } from '../../../src/controller/sessions/workspace-trust.ts'
import { system } from '../../../src/kernel/system.ts'
import { temporaryFolder } from '../../support/audit.ts'

const DIGEST = 'a'.repeat(64)

test('of several that trust and withdraw at the same time, in one process and in several, none is lost', async () => {
  await using home = await temporaryFolder()
  const store = openTrust(home.path, system)
  const names = Array.from({ length: 12 }, (_, i) => `/projects/${i}`)
  for (const name of names.slice(0, 4)) await store.add(name, DIGEST)
  const program = `
const { openTrust } = await import(process.argv[1])
const { system } = await import(process.argv[2])
await openTrust(process.argv[3], system).add(process.argv[4], '${DIGEST}')`
  const urls = ['controller/sessions/workspace-trust.ts', 'kernel/system.ts'].map((file) => import.meta.resolve(`../../../src/${file}`))
  const others = names.slice(8).map(async (name) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program, ...urls, home.path, name], { stdio: 'inherit' })
    assert.deepEqual(await once(child, 'close'), [0, null])
  })
  const here = names.slice(4, 8).map((name) => openTrust(home.path, system).add(name, DIGEST))
  const away = names.slice(0, 2).map((name) => store.remove(name))
  await Promise.all([...others, ...here, ...away])
  assert.deepEqual((await store.list()).map(({ workspace }) => workspace).toSorted(), names.slice(2).toSorted())
})

test('a list that somebody else changes for good is said so, read all the same, and stays as it is', async (context) => {
  await using home = await temporaryFolder()
  const store = openTrust(home.path, system)
  await store.add('/projects/a', DIGEST)
  using _ = tryLock(join(home.path, 'trust.lock'))
  context.mock.timers.enable({ apis: ['setTimeout'] })
  const refused = assert.rejects(store.add('/projects/b', DIGEST), { code: 'trust_invalid', message: /another command changes it/ })
  const state = { isOver: false }
  void refused.finally(() => (state.isOver = true))
  while (!state.isOver) {
    context.mock.timers.tick(10)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await refused
  assert.deepEqual(
    (await store.list()).map(({ workspace }) => workspace),
    ['/projects/a'],
  )
})

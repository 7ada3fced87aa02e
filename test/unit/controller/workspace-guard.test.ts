import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { createWorkspaceGuard } from '../../../src/controller/workspace-guard.ts'
import { system } from '../../../src/kernel/system.ts'
import { capture } from '../../../scripts/steps.ts'

const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }

let folder: string
let workspace: string
/** As the file of the sessions holds it: text, read anew by everybody who asks. */
let records: string[]
const guard = () => createWorkspaceGuard(join(folder, 'home'), () => records.map((text) => JSON.parse(text) as unknown), system)
const request = (name: string) => ({
  workspace,
  filesystem: { workspace: 'rw', hide: [], git_metadata: 'protected' } as const,
  owner,
  filesDir: join(folder, 'files', name),
})
const made = (): boolean => existsSync(join(workspace, '.git', 'commondir'))

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'sallyport-guard-')))
  workspace = join(folder, 'workspace')
  records = []
  for (const name of [workspace, join(folder, 'home')]) await mkdir(name, { mode: 0o700 })
  const { code } = await capture('git', ['init', '--quiet', workspace])
  assert.equal(code, 0)
})
afterEach(() => rm(folder, { recursive: true }))

test('what was made in a workspace is taken away at the end of its session, whose record is among those that live until then', async () => {
  const { kept } = await guard().mounts(request('a'))
  assert.ok(made())
  records = [JSON.stringify(kept)]
  await guard().release(JSON.parse(records[0] ?? ''))
  assert.equal(made(), false)
})

test('of two sessions in one workspace the first to end takes nothing away that covers the other, and the last takes all of it', async () => {
  const both = guard()
  const [a, b] = [await both.mounts(request('a')), await both.mounts(request('b'))]
  records = [a, b].map(({ kept }) => JSON.stringify(kept))
  await both.release(JSON.parse(records[0] ?? ''))
  assert.ok(made())
  records.shift()
  await both.release(JSON.parse(records[0] ?? ''))
  assert.equal(made(), false)
})

test('two sessions that begin in one workspace at once know of each other before there is a record of either', async () => {
  const both = guard()
  const [a, b] = await Promise.all([both.mounts(request('a')), both.mounts(request('b'))])
  await both.release(JSON.parse(JSON.stringify(a.kept)))
  assert.ok(made())
  await both.release(JSON.parse(JSON.stringify(b.kept)))
  assert.equal(made(), false)
})

test('what the operator’s git takes away is told at once, and to one who begins to watch afterwards too; nothing once the watch is over', async () => {
  const { kept } = await guard().mounts(request('a'))
  const config = join(workspace, '.git', 'config')
  const told = (from: ReturnType<typeof guard>) => {
    const { promise, resolve } = Promise.withResolvers<readonly string[]>()
    return { promise, watch: from.watch(JSON.parse(JSON.stringify(kept)), resolve) }
  }
  {
    const { promise, watch } = told(guard())
    using _ = watch
    assert.equal((await capture('git', ['-C', workspace, 'config', 'some.key', 'value'])).code, 0)
    const [line] = await promise
    assert.ok(line?.startsWith(`${config}: was replaced on the host`), line)
  }
  const { promise, watch } = told(guard())
  using _ = watch
  assert.equal((await promise).length, 1)
})

test('a workspace of which nothing is known lets nothing of the host run in it', async () => {
  for (const kept of [undefined, null, {}, 'kept', { key: 'a' }])
    await assert.rejects(guard().refuseSuspect(kept), { code: 'workspace_suspect' })
  const { kept } = await guard().mounts(request('a'))
  await guard().refuseSuspect(JSON.parse(JSON.stringify(kept)))
})

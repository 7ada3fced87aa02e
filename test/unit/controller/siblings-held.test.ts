import assert from 'node:assert/strict'
import { chown, mkdir, mkdtemp, realpath, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { ContainerInspection } from '../../../src/controller/sessions/engine.ts'
import { newLive } from '../../../src/controller/sessions/gate.ts'
import { gateLeaves } from '../../../src/controller/sessions/gate-leaves.ts'
import type { SessionParts, SessionRecord } from '../../../src/controller/sessions/session-parts.ts'
import { startSibling } from '../../../src/controller/sessions/siblings.ts'
import { endSiblings, noSiblings } from '../../../src/controller/sessions/siblings-held.ts'
import { createWorkspaceGuard } from '../../../src/controller/workspace-guard.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { system } from '../../../src/kernel/system.ts'

const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
const NEVER = new AbortController().signal

let folder: string
before(async () => void (folder = await realpath(await mkdtemp(join(tmpdir(), 'sallyport-held-')))))
after(() => rm(folder, { recursive: true }))

test('a session has so many siblings and no more, and is asked nothing of the engine for one too many', async () => {
  const live = newLive('s')
  for (let index = 0; index < LIMITS.siblingsMax; index += 1) live.siblings.names.add(`n${index}`)
  const wish = {
    kind: 'use',
    label: 'more',
    argv: ['true'],
    environment: {},
    values: {},
    stdin: 'closed',
    workspace: 'none',
    pinned: [],
  } as const
  await assert.rejects(startSibling({ system } as SessionParts, { id: 's', live, record: {} as SessionRecord }, wish, NEVER), {
    code: 'too_many_siblings',
  })
  assert.equal(live.siblings.names.size, LIMITS.siblingsMax)
})

test('all siblings are ended although one of them cannot be, those on their way too, and the first fault is told', async () => {
  const held = noSiblings()
  const ended: string[] = []
  const sibling = (name: string, fault?: Error): AsyncDisposable => ({
    async [Symbol.asyncDispose]() {
      ended.push(name)
      if (fault !== undefined) throw fault
    },
  })
  held.running.add(sibling('a', new Error('no engine')))
  held.running.add(sibling('b'))
  const { signal } = held.over
  const rising = new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      ended.push('rising')
      reject(signal.reason)
    })
  })
  held.rising.add(rising)
  await assert.rejects(endSiblings(held, new Error('over')), /no engine/)
  assert.deepEqual(ended, ['rising', 'a', 'b'])
  assert.equal(held.over.signal.aborted, false)
})

test('a gate has left a network when the engine shows so, and not when it only said so while it started the gate', async () => {
  const shows = [
    { State: { Restarting: true }, NetworkSettings: { Networks: {} } },
    { State: { Restarting: false }, NetworkSettings: { Networks: { side: {} } } },
    { State: { Restarting: false }, NetworkSettings: { Networks: { jail: {} } } },
  ] as unknown as ContainerInspection[]
  let told = 0
  await gateLeaves({ disconnect: async () => void (told += 1), inspect: async () => shows[told - 1] }, 'side', 'gate')
  assert.equal(told, 3)
  await gateLeaves({ disconnect: async () => {}, inspect: async () => undefined }, 'side', 'gate')
})

test('I65 a sibling has no more of a workspace than its agent, with the same hidden, and none when it is not known where that is', async () => {
  const workspace = join(folder, 'workspace')
  for (const name of ['home', 'workspace', 'workspace/conf', 'workspace/deep']) await mkdir(join(folder, name), { mode: 0o700 })
  for (const name of ['conf/keys.txt', 'deep/.env', 'plain']) {
    await writeFile(join(workspace, name), name)
    await chown(join(workspace, name), owner.uid, owner.gid)
  }
  const records: unknown[] = []
  const guard = createWorkspaceGuard(join(folder, 'home'), () => records, system)
  const filesystem = { workspace: 'rw', hide: ['.env', 'conf/keys.txt'], git_metadata: 'protected' } as const
  const request = (name: string) => ({ workspace, filesystem, owner, filesDir: join(folder, name) })
  for (const name of ['one', 'two', 'three']) await mkdir(join(folder, name))
  const { kept } = await guard.mounts(request('one'))
  const beside = async () => await guard.beside(request('two'), kept)
  const targets = async () => (await beside()).mounts.map(({ target, readOnly }) => `${target} ${readOnly ? 'ro' : 'rw'}`)
  assert.deepEqual(await targets(), ['/workspace ro', '/workspace/conf/keys.txt ro', '/workspace/deep/.env ro'])

  // What a pattern still tells of is hidden where it is now.
  await rename(join(workspace, 'deep'), join(workspace, 'moved'))
  assert.deepEqual(await targets(), ['/workspace ro', '/workspace/conf/keys.txt ro', '/workspace/moved/.env ro'])
  // What none tells of any more is somewhere, and an empty file in its place changes nothing.
  await rename(join(workspace, 'conf'), join(workspace, 'elsewhere'))
  await assert.rejects(beside(), { code: 'workspace_suspect' })
  await mkdir(join(workspace, 'conf'))
  await writeFile(join(workspace, 'conf/keys.txt'), '')
  await assert.rejects(beside(), { code: 'workspace_suspect' })
  await rm(join(workspace, 'conf'), { recursive: true })
  await rename(join(workspace, 'elsewhere'), join(workspace, 'conf'))
  assert.equal((await targets()).length, 3)

  // Nobody makes the agent of another session stand still.
  await guard.mounts(request('three'))
  await assert.rejects(beside(), { code: 'workspace_refused' })
  await assert.rejects(guard.beside(request('two'), undefined), { code: 'workspace_suspect' })
})

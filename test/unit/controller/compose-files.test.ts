import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { coverMountsBelow, workspaceFile } from '../../../src/controller/sessions/compose-files.ts'
import { bind, type WorkspaceMount } from '../../../src/controller/sessions/workspace-covers.ts'
import { temporaryFolder } from '../../support/audit.ts'

type Written = {
  readonly services: {
    readonly agent: {
      readonly volumes: readonly unknown[]
      readonly tmpfs: readonly string[]
      readonly environment: unknown
      readonly [key: string]: unknown
    }
    readonly trust?: { readonly image: string }
  }
}
const OWNER = { uid: 10_001, gid: 10_001 }
const USER = { user: 'operator' } as const

function cover(target: string): WorkspaceMount {
  return { kind: 'tmpfs', target, readOnly: true, bytesMax: 4_096, mode: 0o555, uid: 0, gid: 0 }
}

test('mounts are what compose reads as such, in their order, with a dollar sign as it is', () => {
  const mounts = [bind('/w/a$b', '/workspace', false), bind('/w/a$b/.git', '/workspace/.git', true), cover('/workspace/private')]
  const text = workspaceFile({ mounts, environment: { GIT_CONFIG_COUNT: '0' } }, USER)
  const { agent } = (parse(text) as Written).services
  assert.deepEqual(agent.volumes, [
    { type: 'bind', source: '/w/a$$b', target: '/workspace', read_only: false, bind: { create_host_path: false, propagation: 'rprivate' } },
    {
      type: 'bind',
      source: '/w/a$$b/.git',
      target: '/workspace/.git',
      read_only: true,
      bind: { create_host_path: false, propagation: 'rprivate' },
    },
  ])
  assert.deepEqual(agent.tmpfs, ['/workspace/private:ro,exec,nosuid,nodev,size=4096,mode=0555,uid=0,gid=0'])
  assert.deepEqual(agent.environment, { GIT_CONFIG_COUNT: '0' })
})

test('a folder whose name compose would cut at its colon is refused, not left open', () => {
  assert.throws(() => workspaceFile({ mounts: [cover('/workspace/a:b')], environment: {} }, USER), {
    code: 'workspace_refused',
    message: /a:b/,
  })
})

test('what the policy says of the agent’s container is in the file, its image also for the roots that are taken from it', () => {
  const session = { ...USER, image: 'mine:1', memoryBytes: 1_024 ** 3, cpus: 1.5, pids: 64, runtime: 'runsc' }
  const { agent, trust } = (parse(workspaceFile({ mounts: [], environment: {} }, session)) as Written).services
  assert.deepEqual([agent['image'], trust?.image], ['mine:1', 'mine:1'])
  assert.deepEqual(
    [agent['mem_limit'], agent['memswap_limit'], agent['cpus'], agent['pids_limit'], agent['runtime']],
    [1_024 ** 3, 1_024 ** 3, 1.5, 64, 'runsc'],
  )
})

const canMount = process.platform === 'linux' && process.getuid?.() === 0

test(
  'a folder and a file that are mounted below the workspace on the host are covered, but for what is covered already',
  { skip: !canMount && 'needs root' },
  async () => {
    await using here = await temporaryFolder()
    const workspace = join(here.path, 'work')
    mkdirSync(workspace)
    for (const name of ['disk', 'known', 'hidden']) mkdirSync(join(workspace, name))
    mkdirSync(join(workspace, 'hidden', 'inner'))
    writeFileSync(join(workspace, 'file'), '')
    writeFileSync(join(here.path, 'host-file'), 'of the host')
    const points = ['disk', 'known', 'hidden/inner'].map((name) => join(workspace, name))
    using stack = new DisposableStack()
    stack.defer(() => {
      for (const point of [...points, join(workspace, 'file')]) execFileSync('umount', ['--lazy', point])
    })
    for (const point of points) execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', point])
    execFileSync('mount', ['--bind', join(here.path, 'host-file'), join(workspace, 'file')])
    const mounts = [
      bind(workspace, '/workspace', false),
      bind(join(workspace, 'known'), '/workspace/known', true),
      cover('/workspace/hidden'),
    ]
    const covers = await coverMountsBelow(mounts, workspace, join(here.path, 'files'), OWNER)
    assert.deepEqual(covers.map(({ kind, target, readOnly }) => `${kind} ${target} ${readOnly}`).toSorted(), [
      'bind /workspace/file true',
      'tmpfs /workspace/disk true',
    ])
    const file = covers.find(({ kind }) => kind === 'bind')
    assert.ok(file?.kind === 'bind')
    assert.equal(readFileSync(file.source, 'utf8'), '')
    assert.equal(statSync(file.source).mode & 0o222, 0)
  },
)

import { lstatSync } from 'node:fs'
import { join, relative } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Owner } from './agent-files.ts'
import { WORKSPACE } from './agent-environment.ts'
import type { WorkspaceMounts } from './session-parts.ts'
import { writeMounted, type WorkspaceMount } from './workspace-covers.ts'
import { isWithin, mountsBelow } from './workspace-place.ts'

/**
 * What compose.yaml cannot say for every workspace, as JSON, which is YAML too: the workspace with what lies over it, as a session of
 * the controller has it, and what the policy's `session` says of the agent.
 */
export function workspaceFile(
  { mounts, environment }: Pick<WorkspaceMounts, 'mounts' | 'environment'>,
  session: Policy['session'],
): string {
  const binds = mounts.filter((mount) => mount.kind === 'bind')
  const { image } = session
  const agent = {
    volumes: binds.map(({ source, target, readOnly }) => ({
      type: 'bind',
      source,
      target,
      read_only: readOnly,
      bind: { create_host_path: false, propagation: 'rprivate' },
    })),
    tmpfs: mounts.flatMap((mount) => (mount.kind === 'tmpfs' ? scratch(mount) : [])),
    environment,
    ...limitsOf(session),
    ...(image !== undefined && { image }),
  }
  const services = { agent, ...(image !== undefined && { trust: { image } }) }
  // compose reads a dollar sign as a variable.
  return `${JSON.stringify({ services }, null, 2).replaceAll('$', '$$$$')}\n`
}

/**
 * What else is mounted below the workspace on the host does not come along: a socket there, or another disk. compose has no word for a
 * mount without what is below it that every version knows, so that each gets a cover.
 */
export async function coverMountsBelow(
  mounts: readonly WorkspaceMount[],
  workspace: string,
  filesDir: string,
  owner: Owner,
): Promise<WorkspaceMount[]> {
  const taken = new Set(mounts.map(({ target }) => target))
  const hidden = mounts.filter(({ kind }) => kind === 'tmpfs').map(({ target }) => target)
  const covers: WorkspaceMount[] = []
  for (const point of await mountsBelow(workspace)) {
    const target = join(WORKSPACE, relative(workspace, point))
    if (taken.has(target) || hidden.some((folder) => isWithin(target, folder))) continue
    if (lstatSync(point).isDirectory()) {
      covers.push({ kind: 'tmpfs', target, readOnly: true, bytesMax: 4_096, mode: 0o555, uid: 0, gid: 0 })
      hidden.push(target)
    } else {
      const source = await writeMounted(filesDir, 'empty', '', owner)
      covers.push({ kind: 'bind', source, target, readOnly: true, propagation: 'rprivate' })
    }
  }
  return covers
}

/** @throws workspace_refused for a path that compose would cut at its colon: the folder itself would stay open */
function scratch({ target, readOnly, bytesMax, mode, uid, gid }: Extract<WorkspaceMount, { kind: 'tmpfs' }>): string {
  if (target.includes(':'))
    throw new SallyportError(
      'workspace_refused',
      `${shown(target)} is to be covered and has a ":" in its path, which compose cannot mount over`,
      {
        hint: 'rename the folder, or use sallyport up',
      },
    )
  const options = [
    readOnly ? 'ro' : 'rw',
    'exec',
    'nosuid',
    'nodev',
    `size=${bytesMax}`,
    `mode=0${mode.toString(8)}`,
    `uid=${uid}`,
    `gid=${gid}`,
  ]
  return `${target}:${options.join(',')}`
}

function limitsOf({ memoryBytes, cpus, pids, runtime }: Policy['session']) {
  return {
    ...(memoryBytes !== undefined && { mem_limit: memoryBytes, memswap_limit: memoryBytes }),
    ...(cpus !== undefined && { cpus }),
    ...(pids !== undefined && { pids_limit: pids }),
    ...(runtime !== undefined && { runtime }),
  }
}

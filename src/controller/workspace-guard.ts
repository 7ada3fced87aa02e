import { SallyportError } from '../kernel/errors.ts'
import type { System } from '../kernel/system.ts'
import { compareGitScans, refuseSuspect, scanGit, type Finding, type GitScan, type ScanRequest } from './sessions/git-scan.ts'
import type { SessionParts, WorkspacePart } from './sessions/session-parts.ts'
import { coverOf, lostCovers, removeMade, watchCovers, type Cover, type Made, type WorkspaceMount } from './sessions/workspace-covers.ts'
import { workspaceMounts, type WorkspaceRequest } from './sessions/workspace.ts'
import { isWithin } from './sessions/workspace-place.ts'

/** What is kept of a session's workspace in its record: plain data, so that another process can end it. */
type Kept = {
  /** Tells it from every other: what a record holds is read anew each time. */
  readonly key: string
  readonly mounts: readonly WorkspaceMount[]
  readonly made: readonly Made[]
  readonly covers: readonly Cover[]
  readonly scan: ScanRequest
  readonly baseline: GitScan | undefined
}

/**
 * The workspaces of sessions: how each comes into its agent, and what is looked at when it ends.
 * @param others what is kept of the sessions that live
 */
export function createWorkspaceGuard(
  home: string,
  others: () => readonly unknown[],
  system: Pick<System, 'elapsed' | 'random'>,
): SessionParts['workspace'] {
  /** Of sessions of this process, from the moment that they have it: records come later. */
  const held = new Map<string, Kept>()
  let queue: Promise<unknown> = Promise.resolve()
  const othersThan = (own: string | undefined): Kept[] => {
    const known = new Map([...others().filter(isKept), ...held.values()].map((kept) => [kept.key, kept]))
    return [...known.values()].filter(({ key }) => key !== own)
  }
  return {
    mounts(request) {
      // One after the other: of two that begin at once each would be told that it is alone.
      const planned = queue.then(async () => {
        const workspace = await workspaceMounts({ ...request, home, others: othersThan(undefined) }, system)
        const { mounts, environment, problems, made, covers, scan, baseline } = workspace
        const kept: Kept = { key: system.random(16).toString('hex'), mounts, made, covers, scan, baseline }
        held.set(kept.key, kept)
        return { mounts, environment, warnings: problems.map(describe), kept }
      })
      queue = planned.catch(() => undefined)
      return planned
    },
    async refuseSuspect(kept) {
      // Of what nobody looked at before, nobody can say what came since.
      if (!isKept(kept)) throw new SallyportError('workspace_suspect', 'nothing is known of how the workspace was when its session began')
      refuseSuspect(await findingsOf(kept, system))
    },
    watch(kept, onLost) {
      return watchCovers(isKept(kept) ? kept.covers : [], (lost) => onLost(lost.map(describe)))
    },
    async renewed(kept) {
      if (!isKept(kept)) return kept
      const covers = (await Promise.all(kept.covers.map(({ path }) => coverOf(path).catch(() => [])))).flat()
      return { ...kept, covers, ...(kept.baseline && { baseline: await scanGit(kept.scan, system) }) }
    },
    look: (kept) => look(kept, system),
    beside: (request, kept) => beside({ ...request, home }, kept, othersThan, system),
    async release(kept) {
      if (!isKept(kept)) return []
      const found = await look(kept, system)
      await removeMade(
        kept.made,
        othersThan(kept.key).flatMap(({ made }) => made.map(({ path }) => path)),
      )
      held.delete(kept.key)
      return found
    },
  }
}

/** I65 */
async function beside(
  request: WorkspaceRequest,
  kept: unknown,
  othersThan: (own: string) => Kept[],
  system: Pick<System, 'elapsed'>,
): Promise<WorkspacePart> {
  if (!isKept(kept)) throw new SallyportError('workspace_suspect', 'nothing is known of how the workspace was when its session began')
  const others = othersThan(kept.key)
  const mounts = kept.mounts.filter((mount) => mount.kind === 'bind')
  if (request.filesystem.hide.length > 0) refuseOtherWriters(request.workspace, others)
  const workspace = await workspaceMounts({ ...request, filesystem: { ...request.filesystem, workspace: 'ro' }, others }, system)
  try {
    // An agent may have moved a folder with something hidden in it: by its new name no pattern may tell of it.
    for (const { path, dev, ino, bornMs } of hiddenOf(kept)) {
      if (workspace.covers.some((cover) => cover.dev === dev && cover.ino === ino && cover.bornMs === bornMs)) continue
      throw new SallyportError('workspace_suspect', `${path}, which filesystem.hide names, is not where it was when the session began`, {
        hint: 'where it is by now nobody knows, so nothing else gets to see the workspace: begin another session',
      })
    }
    // What git files name that the agent can write is no reason to mount anything that it has not.
    const known = new Set([workspace.source, ...mounts.map(({ source }) => source)])
    const isOurs = (mount: WorkspaceMount): boolean =>
      mount.kind === 'tmpfs' || known.has(mount.source) || isWithin(mount.source, request.filesDir)
    return { mounts: workspace.mounts.filter(isOurs), environment: workspace.environment }
  } finally {
    await workspace.cleanUp(others.flatMap(({ made }) => made).concat(kept.made))
  }
}

/** What `filesystem.hide` covered: where an empty file or folder of ours is mounted and not the thing itself. */
function hiddenOf({ covers, mounts, scan }: Kept): Cover[] {
  const itself = new Set(mounts.flatMap((mount) => (mount.kind === 'bind' ? mount.source : [])))
  return covers.filter(({ path }) => path !== scan.workspace && !itself.has(path))
}

/** What stands still is one agent: another could move a folder from under a cover while that is made. */
function refuseOtherWriters(workspace: string, others: readonly Kept[]): void {
  const writes = (mount: WorkspaceMount): boolean =>
    mount.kind === 'bind' && !mount.readOnly && (isWithin(mount.source, workspace) || isWithin(workspace, mount.source))
  if (!others.some(({ mounts }) => mounts.some(writes))) return
  throw new SallyportError('workspace_refused', `the agent of another session can write in ${workspace}, where files are to be hidden`, {
    hint: 'end that session first',
  })
}

async function look(kept: unknown, system: Pick<System, 'elapsed'>): Promise<string[]> {
  return isKept(kept) ? (await findingsOf(kept, system)).map(describe) : []
}

async function findingsOf({ covers, baseline, scan }: Kept, system: Pick<System, 'elapsed'>): Promise<Finding[]> {
  const planted = baseline ? compareGitScans(baseline, await scanGit(scan, system)) : []
  return [...(await lostCovers(covers)), ...planted]
}

function describe({ path, what, why }: Finding): string {
  return `${path}: ${what} (${why})`
}

function isKept(kept: unknown): kept is Kept {
  return typeof kept === 'object' && kept !== null && 'key' in kept && 'made' in kept && 'scan' in kept
}

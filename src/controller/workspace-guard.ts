import type { System } from '../kernel/system.ts'
import { compareGitScans, refuseSuspect, scanGit, type Finding, type GitScan, type ScanRequest } from './sessions/git-scan.ts'
import type { SessionParts } from './sessions/session-parts.ts'
import { lostCovers, removeMade, watchCovers, type Cover, type Made, type WorkspaceMount } from './sessions/workspace-covers.ts'
import { workspaceMounts } from './sessions/workspace.ts'

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
  const findingsOf = async ({ covers, baseline, scan }: Kept): Promise<Finding[]> => [
    ...(await lostCovers(covers)),
    ...(baseline ? compareGitScans(baseline, await scanGit(scan, system)) : []),
  ]
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
      if (isKept(kept)) refuseSuspect(await findingsOf(kept))
    },
    watch(kept, onLost) {
      return watchCovers(isKept(kept) ? kept.covers : [], (lost) => onLost(lost.map(describe)))
    },
    async release(kept) {
      if (!isKept(kept)) return []
      const found = await findingsOf(kept)
      await removeMade(
        kept.made,
        othersThan(kept.key).flatMap(({ made }) => made.map(({ path }) => path)),
      )
      held.delete(kept.key)
      return found.map(describe)
    },
  }
}

function describe({ path, what, why }: Finding): string {
  return `${path}: ${what} (${why})`
}

function isKept(kept: unknown): kept is Kept {
  return typeof kept === 'object' && kept !== null && 'key' in kept && 'made' in kept && 'scan' in kept
}

import type { System } from '../kernel/system.ts'
import { compareGitScans, scanGit, type Finding, type GitScan, type ScanRequest } from './sessions/git-scan.ts'
import type { SessionParts } from './sessions/session-parts.ts'
import { lostCovers, removeMade, type Cover, type Made, type WorkspaceMount } from './sessions/workspace-covers.ts'
import { workspaceMounts } from './sessions/workspace.ts'

/** What is kept of a session's workspace in its record: plain data, so that another process can end it. */
type Kept = {
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
  system: Pick<System, 'elapsed'>,
): SessionParts['workspace'] {
  return {
    async mounts(request) {
      const workspace = await workspaceMounts({ ...request, home, others: others().filter(isKept) }, system)
      const { mounts, environment, problems, made, covers, scan, baseline } = workspace
      const kept: Kept = { mounts, made, covers, scan, baseline }
      return { mounts, environment, warnings: problems.map(describe), kept }
    },
    async release(kept) {
      if (!isKept(kept)) return []
      const found = [
        ...(await lostCovers(kept.covers)),
        ...(kept.baseline ? compareGitScans(kept.baseline, await scanGit(kept.scan, system)) : []),
      ]
      const inUse = others().filter((one): one is Kept => isKept(one) && one !== kept)
      await removeMade(
        kept.made,
        inUse.flatMap(({ made }) => made.map(({ path }) => path)),
      )
      return found.map(describe)
    },
  }
}

function describe({ path, what, why }: Finding): string {
  return `${path}: ${what} (${why})`
}

function isKept(kept: unknown): kept is Kept {
  return typeof kept === 'object' && kept !== null && 'made' in kept && 'scan' in kept
}

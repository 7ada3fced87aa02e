import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { Owner } from './agent-files.ts'
import type { Finding } from './git-scan.ts'
import type { Cover, Made, WorkspaceMount } from './workspace-covers.ts'

/** The covers of one session, as they grow. */
export type Plan = {
  readonly root: string
  readonly target: string
  /** Whose the agent's processes are. */
  readonly owner: Owner
  /** Where files of ours are written that are mounted. */
  readonly filesDir: string
  readonly mounts: Map<string, WorkspaceMount>
  readonly covers: Cover[]
  readonly made: Made[]
  /** What other sessions made and this one relies on too. */
  readonly madeByOthers: readonly Made[]
  readonly problems: Finding[]
}

/** Adds one mount over the workspace. A read-only one stays so. */
export function addMount(plan: Plan, mount: WorkspaceMount): void {
  const before = plan.mounts.get(mount.target)
  if (before?.readOnly === true) return
  plan.mounts.set(mount.target, mount)
  if (plan.mounts.size > LIMITS.workspaceMountsMax) {
    throw new SallyportError('workspace_refused', `the workspace ${plan.root} needs more than ${LIMITS.workspaceMountsMax} mounts`, {
      hint: 'name folders in filesystem.hide rather than many files, or open a smaller folder',
    })
  }
}

/** Adds what the operator should know. */
export function note(plan: Plan, path: string, kind: Finding['kind'], what: string, why: string): void {
  plan.problems.push({ path: shown(path), kind, what, why })
}

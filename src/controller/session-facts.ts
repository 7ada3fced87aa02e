import { join } from 'node:path'
import type { Policy } from '../policy/policy.ts'
import { plannedPolicy } from './planning.ts'
import type { Entitled } from './session-secrets.ts'
import { projectPolicy } from './sessions/project-file.ts'
import { policyFolder } from './sessions/session-names.ts'
import type { SessionRecord } from './sessions/sessions.ts'
import type { StateFile } from './state.ts'

/**
 * The policy that a session runs with, and the folder of its copies: none for a compose project.
 * @throws policy_not_found, policy_invalid
 */
export function policyInUse(session: string, home: string, state: StateFile): { readonly policy: Policy; readonly folder?: string } {
  const { project } = (state.row(session)?.record ?? {}) as Partial<SessionRecord>
  if (project !== undefined) return { policy: projectPolicy(home, project) }
  const folder = policyFolder(home, session)
  return { policy: plannedPolicy(folder), folder: join(folder, 'current') }
}

/** What of a session decides which secrets it gets. */
export function entitledOf(session: string, home: string, state: StateFile): Entitled {
  const { workspace, role, project } = (state.row(session)?.record ?? {}) as Partial<SessionRecord>
  const holder = { session, ...(workspace !== undefined && { workspace }), ...(role !== undefined && { role }) }
  return { policy: project === undefined ? plannedPolicy(policyFolder(home, session)) : projectPolicy(home, project), holder }
}

/** Of a compose project nothing is mounted before its gate has come. */
export function keptOf(state: StateFile): unknown[] {
  return state.live().flatMap(({ state: at, record }) => {
    const { kept, project } = record as { kept?: unknown; project?: string }
    return project !== undefined && at === 'starting' ? [] : [kept]
  })
}

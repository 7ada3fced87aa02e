import { plannedPolicy } from './planning.ts'
import type { Entitled } from './session-secrets.ts'
import { projectPolicy } from './sessions/project-file.ts'
import { policyFolder } from './sessions/session-names.ts'
import type { SessionRecord } from './sessions/sessions.ts'
import type { StateFile } from './state.ts'

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

import { SallyportError } from '../../kernel/errors.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { Policy } from '../../policy/policy.ts'
import type { SessionRecord } from '../sessions/session-parts.ts'
import type { StateFile } from '../state.ts'
import type { RequestPlace } from './host-run.ts'

export type PlacesParts = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  readonly state: Pick<StateFile, 'row' | 'live' | 'isRevoked'>
  /** The policy of a session, as its gate has it. */
  readonly policyOf: (session: string) => Policy
  readonly secretsOf: (session: string) => readonly Secret[]
  readonly refuseSuspect: (kept: unknown) => Promise<void>
  readonly operatorPorts: () => readonly number[]
}

/** A session as its requests see it. @throws session_not_running, session_revoked */
export function createPlaces(parts: PlacesParts): (session: string) => RequestPlace {
  return (session) => {
    const row = parts.state.row(session)
    if (row === undefined || row.state !== 'running') throw new SallyportError('session_not_running', `session ${session} is not running`)
    // Its gate may hold its end of the channel open.
    if (parts.state.isRevoked(session)) throw new SallyportError('session_revoked', `the leases of session ${session} were revoked`)
    const { workspace, role, harness, kept } = row.record as SessionRecord
    return {
      asker: { session, sessionName: row.name, workspace, agent: harness ?? 'agent', ...(role !== undefined && { role }) },
      policy: () => parts.policyOf(session),
      surroundings: { home: parts.home, workspace, operatorPorts: parts.operatorPorts() },
      others: () => parts.state.live().flatMap((other) => (other.id === session ? [] : (other.record as SessionRecord).workspace)),
      secrets: () => parts.secretsOf(session),
      refuseSuspect: () => parts.refuseSuspect(kept),
    }
  }
}

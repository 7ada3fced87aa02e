import { join } from 'node:path'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { HomeAudit } from '../record/home-audit.ts'
import { createSessionChains, type SessionChains } from '../session-chains.ts'
import type { SessionParts } from '../sessions/sessions.ts'
import type { StateFile } from '../state.ts'
import type { Activity } from './activity.ts'
import { readEarlier } from './read-back.ts'

type Watched = {
  readonly activity: Activity
  readonly audit: HomeAudit
  readonly state: StateFile
  readonly system: Pick<System, 'elapsed'>
  readonly log: Pick<Log, 'warn'>
}

/** The chains of sessions, whose lines go where copies go, and to who watches. What is there already is read before more can come. */
export async function openChains(home: string, { activity, audit, state, system, log }: Watched): Promise<SessionChains> {
  const folder = join(home, 'audit', 'sessions')
  const live = new Set(state.live().map(({ id }) => id))
  activity.takeEarlier(await readEarlier(folder, log), (session) => !live.has(session))
  const chains = createSessionChains(folder, audit, system, (lines, at) => {
    audit.copySession(lines)
    activity.take(lines, at)
  })
  return {
    ...chains,
    async end(session) {
      await chains.end(session)
      activity.end(session)
    },
  }
}

/** The same, with what the operator is asked about seen while it waits: the audit has it only once it is decided. */
export function watchAsks(requests: NonNullable<SessionParts['requests']>, activity: Activity): NonNullable<SessionParts['requests']> {
  return {
    ...requests,
    ask(session, ask, signal) {
      activity.ask(session, ask)
      return requests.ask(session, ask, signal)
    },
  }
}

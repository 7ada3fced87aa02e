import { LIMITS } from '../../kernel/limits.ts'
import type { PresenceEvidence, Risk } from '../../wire/question.ts'

/** An answer that holds for all equal questions of its session. Keyed by `sameKeyOf`: it opens nothing else. */
export type Grant = {
  readonly decision: 'allow' | 'deny'
  readonly session: string
  /** Id of the question that it was given to. */
  readonly question: string
  readonly by: string
  readonly evidence: PresenceEvidence
  readonly message?: string
}

/** What makes many questions bearable, and no answer wider than it was. In memory only: a new controller asks again. */
export type Comfort = {
  /** An operator's answer to a question with this key. */
  answered(key: string, decision: 'allow' | 'deny'): void
  /** What its equals were answered so often, in a row, that it is offered for all of them. Nothing that is dangerous is offered to be allowed. */
  offer(key: string, risk: Risk): 'allow' | 'deny' | undefined
  grant(key: string, grant: Grant): void
  granted(key: string): Grant | undefined
  endSession(session: string): void
}

export function createComfort(): Comfort {
  const rows = new Map<string, { decision: 'allow' | 'deny'; count: number }>()
  const grants = new Map<string, Grant>()
  return {
    answered(key, decision) {
      const row = rows.get(key)
      keep(rows, key, { decision, count: row?.decision === decision ? row.count + 1 : 1 }, LIMITS.equalsCountedMax)
    },
    offer(key, risk) {
      const row = rows.get(key)
      if (row === undefined) return undefined
      if (row.decision === 'deny') return row.count >= LIMITS.offerDenyAnswersMin ? 'deny' : undefined
      return row.count >= LIMITS.offerAllowAnswersMin && risk.level !== 'dangerous' ? 'allow' : undefined
    },
    grant: (key, grant) => keep(grants, key, grant, LIMITS.sessionGrantsMax),
    granted: (key) => grants.get(key),
    endSession(session) {
      for (const [key, grant] of grants) if (grant.session === session) grants.delete(key)
    },
  }
}

/** The oldest gives way. */
function keep<V>(map: Map<string, V>, key: string, value: V, max: number): void {
  map.delete(key)
  if (map.size >= max) map.delete(map.keys().next().value ?? '')
  map.set(key, value)
}

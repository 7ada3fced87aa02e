import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import { disabledMethods } from '../../policy/policy.ts'
import type { AgentMethod } from '../../wire/agent-requests.ts'
import type { RequestPlace } from './host-run.ts'

/** Which methods the policy of a session has switched off. */
export type SwitchedOff = {
  /** By the policy as it is; looks at a request come again and again, and theirs is `LIMITS.policyLookMs` old at most. @throws session_not_running, session_revoked */
  has(session: string, method: AgentMethod): boolean
  forget(session: string): void
}

export function createSwitchedOff(place: (session: string) => Pick<RequestPlace, 'policy'>, system: Pick<System, 'elapsed'>): SwitchedOff {
  const known = new Map<string, { readonly atMs: number; readonly disabled: ReadonlySet<AgentMethod> }>()

  function disabledFor(session: string, method: AgentMethod): ReadonlySet<AgentMethod> {
    const nowMs = system.elapsed()
    const last = known.get(session)
    if (last !== undefined && method.startsWith('request.') && nowMs - last.atMs < LIMITS.policyLookMs) return last.disabled
    const disabled = disabledMethods(place(session).policy())
    known.set(session, { atMs: nowMs, disabled })
    return disabled
  }

  return { has: (session, method) => disabledFor(session, method).has(method), forget: (session) => void known.delete(session) }
}

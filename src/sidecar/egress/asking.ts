import type { Lane } from '../../audit/audit.ts'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { Facts } from '../../policy/policy.ts'

/** What the operator is asked. `facts` of a bare connection have no path and the method CONNECT. */
export type Question = {
  readonly requestId: string
  readonly lane: Lane
  readonly rule: string
  readonly facts: Pick<Facts, 'host' | 'port' | 'method'> & Partial<Facts>
}

/** `once` lets one identical request pass, `session` every one until this process ends. */
export type Answer = { readonly decision: 'allow'; readonly scope: 'once' | 'session' } | { readonly decision: 'deny' }

/** Brings a question to the operator. The signal says that nobody waits for the answer any more. Rejects when nobody can be asked. */
export type AskOperator = (question: Question, signal: AbortSignal) => Promise<Answer>

export type Asking = Disposable & {
  /** False when there is nobody to ask: every question is refused as `controller_unavailable`. */
  readonly isPossible: boolean
  /** Why a request may not pass now, after `LIMITS.askHoldMs` at most. */
  consult(question: Question): Promise<Refusal | undefined>
  /** The same for what is never held: it is asked, and refused until the answer is there. */
  consultAtOnce(question: Question): Refusal | undefined
}

/** A question that is asked, and what was answered to it. */
type Asked = { readonly answer: Promise<Answer | Refusal>; readonly abort: AbortController }

export function createAsking(ask: AskOperator | undefined, log: Log, system: Pick<System, 'elapsed'>): Asking {
  const pending = new Map<string, Asked>()
  /** Approvals that nobody has used up, by the request that they are for. */
  const granted = new Map<string, { scope: 'once' | 'session'; until: number }>()

  function isGranted(key: string): boolean {
    const grant = granted.get(key)
    if (grant === undefined) return false
    if (grant.scope === 'once' || grant.until < system.elapsed()) granted.delete(key)
    return grant.until >= system.elapsed()
  }

  function grant(key: string, scope: 'once' | 'session'): void {
    if (granted.size >= LIMITS.approvalsMax) granted.delete(granted.keys().next().value ?? '')
    granted.set(key, { scope, until: scope === 'once' ? system.elapsed() + LIMITS.approvalOnceMs : Infinity })
  }

  /** Asks, unless the same is being asked. */
  function put(asker: AskOperator, key: string, question: Question): Asked | Refusal {
    const same = pending.get(key)
    if (same) return same
    if (pending.size >= LIMITS.questionsMax) return { code: 'overloaded', message: 'too many questions wait for the operator' }
    const abort = new AbortController()
    const timer = setTimeout(() => abort.abort(), LIMITS.askExpiryMs)
    const expired = new Promise<Refusal>((resolve) => {
      abort.signal.addEventListener('abort', () => resolve(pendingRefusal(question, 'nobody answered in time')), { once: true })
    })
    const answered = asker(question, abort.signal).catch((error: unknown): Refusal => {
      log.warn({ requestId: question.requestId, cause: codeOf(error) }, 'the operator could not be asked')
      return unavailable(question)
    })
    const answer = Promise.race([answered, expired]).then((result) => {
      clearTimeout(timer)
      pending.delete(key)
      if ('decision' in result && result.decision === 'allow') grant(key, result.scope)
      return result
    })
    const asked = { answer, abort }
    pending.set(key, asked)
    return asked
  }

  return {
    isPossible: ask !== undefined,
    async consult(question) {
      const key = keyOf(question)
      if (isGranted(key)) return undefined
      if (ask === undefined) return unavailable(question)
      const asked = put(ask, key, question)
      if ('code' in asked) return asked
      let timer: NodeJS.Timeout | undefined
      const held = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), LIMITS.askHoldMs)))
      const result = await Promise.race([asked.answer, held])
      clearTimeout(timer)
      if (result === undefined) return pendingRefusal(question, 'the operator has not answered yet')
      if ('code' in result) return result
      if (result.decision === 'deny') return { code: 'approval_denied', message: 'the operator denied it', rule: question.rule }
      // An approval for once is used up by one of those who waited for it.
      return isGranted(key) ? undefined : pendingRefusal(question, 'the approval was for one request')
    },
    consultAtOnce(question) {
      const key = keyOf(question)
      if (isGranted(key)) return undefined
      if (ask === undefined) return unavailable(question)
      const asked = put(ask, key, question)
      return 'code' in asked ? asked : pendingRefusal(question, 'the operator is being asked')
    },
    [Symbol.dispose]() {
      for (const { abort } of pending.values()) abort.abort()
    },
  }
}

/** Identical requests: an approval is for no other path, method or end, and for no other rule. */
function keyOf({ rule, facts: { scheme, host, port, method, path } }: Question): string {
  return JSON.stringify([rule, scheme, host, port, method, path])
}

function unavailable({ rule }: Question): Refusal {
  return {
    code: 'controller_unavailable',
    message: `rule "${rule}" asks the operator first, and no controller is there to ask`,
    hint: 'the operator can change the rule to allow or deny',
    rule,
  }
}

function pendingRefusal({ rule }: Question, why: string): Refusal {
  return { code: 'approval_pending', message: `rule "${rule}" asks the operator first: ${why}`, hint: 'send the same request again', rule }
}

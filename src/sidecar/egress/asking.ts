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
  /** The side network that it came by. */
  readonly network?: string | undefined
  readonly rule: string
  readonly facts: Pick<Facts, 'host' | 'port' | 'method'> & Partial<Facts>
}

/** `once` lets one identical request pass, `session` every one until this process ends. */
export type Answer = { readonly decision: 'allow'; readonly scope: 'once' | 'session' } | { readonly decision: 'deny' }

/** Brings a question to the operator. The signal says that nobody waits for the answer any more. Rejects when nobody can be asked. */
export type AskOperator = (question: Question, signal: AbortSignal) => Promise<Answer>

/** Who waits for an answer: the agent of one request. */
type Waiting = {
  readonly isGone: boolean
  onGone(listener: () => void): () => void
}

export type Asking = Disposable & {
  /** False when there is nobody to ask: every question is refused as `controller_unavailable`. */
  readonly isPossible: boolean
  /** Why a request may not pass now, after `LIMITS.askHoldMs` at most. An agent that has gone uses up no approval. */
  consult(question: Question, agent: Waiting): Promise<Refusal | undefined>
  /** The same for what is never held: it is asked, and refused until the answer is there. */
  consultAtOnce(question: Question): Refusal | undefined
}

/** A question that is asked, what was answered to it, and how many requests are held for it. */
type Asked = { readonly answer: Promise<Answer | Refusal>; readonly abort: AbortController; held: number }

/** An answer that nobody has used up. `denied` is one that came when nobody was there to hear it: the next request does. */
type Kept = { readonly scope: 'once' | 'session' | 'denied'; readonly until: number }

export function createAsking(ask: AskOperator | undefined, log: Log, system: Pick<System, 'elapsed'>): Asking {
  const pending = new Map<string, Asked>()
  let isClosed = false
  const { take, keep } = createKept(system)

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
    const answered = Promise.try(asker, question, abort.signal).catch((error: unknown): Refusal => {
      log.warn({ requestId: question.requestId, cause: codeOf(error) }, 'the operator could not be asked')
      return unavailable(question)
    })
    const answer = Promise.race([answered, expired]).then((result) => {
      clearTimeout(timer)
      pending.delete(key)
      if ('decision' in result) {
        if (result.decision === 'allow') keep(key, result.scope)
        else if (asked.held === 0) keep(key, 'denied')
      }
      return result
    })
    const asked: Asked = { answer, abort, held: 0 }
    pending.set(key, asked)
    return asked
  }

  /** What was answered before, or else the question that is asked now. */
  function begin(question: Question): 'passes' | Refusal | Asked {
    const key = keyOf(question)
    const known = take(key)
    if (known === 'denied') return deniedRefusal(question)
    if (known !== undefined) return 'passes'
    return ask === undefined || isClosed ? unavailable(question) : put(ask, key, question)
  }

  return {
    isPossible: ask !== undefined,
    async consult(question, agent) {
      const begun = begin(question)
      if (begun === 'passes') return undefined
      if ('code' in begun) return begun
      begun.held += 1
      const hold = holdFor(agent)
      const result = await Promise.race([begun.answer, hold.over])
      hold.stop()
      begun.held -= 1
      if (result === undefined) return pendingRefusal(question, 'the operator has not answered yet')
      if ('code' in result) return result
      if (result.decision === 'deny') return deniedRefusal(question)
      // An approval for once is used up by one of those who waited for it.
      const passes = !agent.isGone && take(keyOf(question)) !== undefined
      return passes ? undefined : pendingRefusal(question, 'the approval was for one request')
    },
    consultAtOnce(question) {
      const begun = begin(question)
      if (begun === 'passes') return undefined
      return 'code' in begun ? begun : pendingRefusal(question, 'the operator is being asked')
    },
    [Symbol.dispose]() {
      isClosed = true
      for (const { abort } of pending.values()) abort.abort()
    },
  }
}

/** Answers, by the request that they are for. */
function createKept(system: Pick<System, 'elapsed'>): {
  /** What was answered to this request before: passing by it uses up what is for one. */
  readonly take: (key: string) => Kept['scope'] | undefined
  readonly keep: (key: string, scope: Kept['scope']) => void
} {
  const kept = new Map<string, Kept>()
  return {
    take(key) {
      const known = kept.get(key)
      if (known === undefined) return undefined
      const isOver = known.until < system.elapsed()
      if (isOver || known.scope !== 'session') kept.delete(key)
      return isOver ? undefined : known.scope
    },
    keep(key, scope) {
      kept.delete(key)
      if (kept.size >= LIMITS.approvalsMax) kept.delete(kept.keys().next().value ?? '')
      kept.set(key, { scope, until: scope === 'session' ? Infinity : system.elapsed() + LIMITS.approvalOnceMs })
    },
  }
}

/** `over` resolves when the request was held for long enough, or its agent has gone. */
function holdFor(agent: Waiting): { readonly over: Promise<undefined>; readonly stop: () => void } {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const over = (): void => resolve(undefined)
  const timer = setTimeout(over, LIMITS.askHoldMs)
  const forget = agent.onGone(over)
  if (agent.isGone) over()
  return {
    over: promise,
    stop() {
      clearTimeout(timer)
      forget()
    },
  }
}

/** I21, I62: an approval is for identical requests: no other path, method or end, no other rule, and nobody else's than who was asked about. */
function keyOf({ network, rule, facts: { scheme, host, port, method, path } }: Question): string {
  return JSON.stringify([network, rule, scheme, host, port, method, path])
}

function unavailable({ rule }: Question): Refusal {
  return {
    code: 'controller_unavailable',
    message: `rule "${rule}" asks the operator first, and no controller is there to ask`,
    hint: 'the operator can change the rule to allow or deny',
    rule,
  }
}

function deniedRefusal({ rule }: Question): Refusal {
  return { code: 'approval_denied', message: 'the operator denied it', rule }
}

function pendingRefusal({ rule }: Question, why: string): Refusal {
  return { code: 'approval_pending', message: `rule "${rule}" asks the operator first: ${why}`, hint: 'send the same request again', rule }
}

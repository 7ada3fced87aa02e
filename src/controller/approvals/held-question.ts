import type { Grant } from './comfort.ts'
import type { Outcome, Question } from '../../wire/question.ts'

/** A question that is not over: it waits, or it is approved and not used. */
export type Held = {
  /** As it was asked. What becomes of it is beside it. */
  readonly question: Question
  readonly key: string
  /** By the monotonic clock: a clock that is set back makes nothing last longer. */
  readonly deadline: number
  readonly outcome: PromiseWithResolvers<Outcome>
  /** `recording`: nobody sees it yet. `settling`: an answer is being written down. `over` is for good. */
  state: 'recording' | 'pending' | 'settling' | 'approved' | 'over'
  shownAt: number
  /** Its time ran out while an answer was being written down. */
  isExpired: boolean
  claim?: { readonly by: string; readonly timer: NodeJS.Timeout } | undefined
  /** Why it is to end, said while something was being written down. */
  withdrawn?: string | undefined
  answer?: Question['answer']
  settledAt?: number
  note?: string
  timer?: NodeJS.Timeout | undefined
  onOver?: () => void
}

export function createHeld(question: Question, key: string, elapsed: number): Held {
  return {
    question,
    key,
    deadline: elapsed + question.expiresAt - question.createdAt,
    outcome: Promise.withResolvers(),
    state: 'recording',
    shownAt: elapsed,
    isExpired: false,
  }
}

/** Whether the operator can see it and has not answered it. */
export function isWaiting({ state }: Held): boolean {
  return state === 'pending' || state === 'settling'
}

/** What surfaces see of it; `equals`: so many equal ones wait, with it. */
export function viewOf(held: Held, equals: number): Question {
  const { question, claim, answer, settledAt, note } = held
  return {
    ...question,
    state: held.state === 'approved' ? 'approved' : claim === undefined ? 'pending' : 'claimed',
    ...(claim && { claimedBy: claim.by }),
    ...(isWaiting(held) && equals > 1 && { bundle: held.key }),
    ...(answer && { answer }),
    ...(settledAt !== undefined && { settledAt }),
    ...(note !== undefined && { note }),
  }
}

/** The answer that a grant gives to a further question. */
export function grantedAnswer({ decision, by, evidence, message }: Grant): NonNullable<Question['answer']> {
  return { decision, scope: 'session', by, tier: evidence.tier, at: evidence.at, ...(message !== undefined && { message }) }
}

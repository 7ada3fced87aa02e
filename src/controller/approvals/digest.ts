import { hash } from 'node:crypto'
import type { Question, QuestionWish } from '../../wire/question.ts'
import { canonicalJson } from './canonical.ts'

/** Set apart from each other, and from whatever else has a SHA-256. */
const QUESTION = 'sallyport question 1'
const SAME = 'sallyport equal questions 1'

/** What a digest is over. */
export type Digested = Pick<Question, 'id' | 'createdAt' | 'expiresAt' | 'asker' | 'subject' | 'reason' | 'risk' | 'tier' | 'remember'>

/**
 * SHA-256, hex, of the canonical JSON of a question: who asks, all that will happen, how long that may be said, and what it becomes when it is
 * remembered. An answer is for this and nothing else.
 * @throws question_invalid
 */
export function digestOf(question: Digested): string {
  const { id, createdAt, expiresAt, asker, subject, reason, risk, tier, remember } = question
  return sha256({ type: QUESTION, id, createdAt, expiresAt, kind: subject.kind, asker, subject, reason, risk, tier, remember })
}

/**
 * What questions that are equal have in common, SHA-256, hex: everything but the id, the times and the agent's words. The whole subject is in
 * it, so that an answer for a session opens nothing else.
 * @throws question_invalid
 */
export function sameKeyOf({ asker, subject, tier, remember }: Pick<QuestionWish, 'asker' | 'subject' | 'tier' | 'remember'>): string {
  return sha256({ type: SAME, kind: subject.kind, asker, subject, tier, remember })
}

function sha256(value: unknown): string {
  return hash('sha256', canonicalJson(value), 'hex')
}

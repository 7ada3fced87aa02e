import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { Question, QuestionWish } from '../../wire/question.ts'
import { canonicalJson } from './canonical.ts'
import { digestOf } from './digest.ts'

/** How long a question of this kind waits where nothing else is said. */
export function expiryOf(kind: Question['subject']['kind']): number {
  return kind === 'proposal' ? LIMITS.proposalExpiryMs : LIMITS.questionExpiryMs
}

/** The question that a wish becomes. @throws question_invalid when it is too long, not Unicode, or would never or always be expired */
export function questionOf(wish: QuestionWish, offer: Question['offer'], system: Pick<System, 'now' | 'random'>): Question {
  const { expiresInMs, asker, subject, reason, risk, tier, rule, nearMiss, remember } = wish
  if (!Number.isInteger(expiresInMs) || expiresInMs <= 0 || expiresInMs > LIMITS.proposalExpiryMs)
    throw invalid(`it would wait for ${expiresInMs} ms, and may for ${LIMITS.proposalExpiryMs} at most`)
  const createdAt = system.now()
  const asked = {
    id: `q-${system.random(8).toString('hex')}`,
    asker,
    subject,
    reason,
    risk,
    tier,
    ...(rule !== undefined && { rule }),
    ...(nearMiss !== undefined && { nearMiss }),
    ...(remember !== undefined && { remember }),
    createdAt,
    expiresAt: createdAt + expiresInMs,
  }
  const bytes = Buffer.byteLength(canonicalJson(asked))
  if (bytes > LIMITS.questionBytesMax) throw invalid(`it has ${bytes} bytes, and may have ${LIMITS.questionBytesMax}`)
  // What is asked is what was hashed: nobody who kept the wish can change it any more.
  const question = structuredClone(asked)
  return { ...question, digest: digestOf(question), state: 'pending', ...(offer !== undefined && { offer }) }
}

function invalid(problem: string): SallyportError {
  return new SallyportError('question_invalid', `what is asked cannot be put to the operator: ${problem}`)
}

import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { Tier, type Answer, type PresenceEvidence, type Question } from '../../wire/question.ts'

/** What an answer is held against. */
export type Answered = {
  readonly question: Question
  /** Since it was shown. */
  readonly shownForMs: number
  readonly claimedBy: string | undefined
}

/**
 * Refuses an answer that is not for this question as it was shown, or not enough for it.
 * @throws digest_mismatch, question_claimed, answered_too_soon, presence_required, answer_invalid
 */
export function checkAnswer({ question, shownForMs, claimedBy }: Answered, answer: Answer, evidence: PresenceEvidence, by: string): void {
  const { id, digest } = question
  if (answer.digest !== digest || evidence.digest !== digest)
    throw new SallyportError('digest_mismatch', `the answer to ${id} is for another digest than ${digest}`, {
      hint: 'look at the question again: what it asks is not what was looked at',
    })
  // Whoever says no is heard, whoever is at it.
  if (answer.decision === 'allow' && claimedBy !== undefined && claimedBy !== by)
    throw new SallyportError('question_claimed', `${id} is claimed by ${claimedBy}`)
  // A question that comes up under a key that is on its way down must not be answered by it.
  if (shownForMs < LIMITS.debounceMs)
    throw new SallyportError('answered_too_soon', `${id} was there for ${Math.floor(shownForMs)} ms only`, {
      hint: 'look at it, and answer again',
    })
  if (answer.decision === 'allow' && rankOf(evidence.tier) < rankOf(question.tier))
    throw new SallyportError('presence_required', `${id} needs ${question.tier}, and ${evidence.tier} was shown`)
  checkScope(question, answer)
}

function checkScope({ subject, remember }: Question, { decision, scope, message, rule, expiresAt }: Answer): void {
  const problem =
    scope === 'remember'
      ? decision === 'deny'
        ? 'a denial is not remembered: write a deny rule into the policy'
        : remember === undefined
          ? 'it cannot be remembered'
          : rule === undefined
            ? 'the rule that it becomes is missing: it has to be shown first'
            : undefined
      : rule !== undefined || expiresAt !== undefined
        ? `a rule or its end goes with the scope remember, not with ${scope}`
        : scope === 'session' && subject.kind === 'proposal'
          ? 'a proposal is answered once'
          : decision === 'allow' && message !== undefined
            ? 'a message goes with a denial'
            : undefined
  if (problem !== undefined) throw new SallyportError('answer_invalid', problem)
}

function rankOf(tier: Tier): number {
  return Tier.options.indexOf(tier)
}

import type { Question, QuestionEvent, Risk, Subject } from './question.ts'
import type { Section } from './section.ts'

/** A question as the page lists it: its subject and reason are not in it, which are asked for when one is looked at. */
export type QuestionCard = Omit<Question, 'subject' | 'reason' | 'risk' | 'rule' | 'nearMiss' | 'remember'> & {
  readonly kind: Subject['kind']
  readonly level: Risk['level']
  /** One line of what it is about, escaped and clipped visibly. */
  readonly summary: string
  readonly canRemember: boolean
}

/** What the page hears of questions: all that wait at the beginning, then what becomes of them. */
export type QuestionNews =
  | { readonly pending: readonly QuestionCard[] }
  | { readonly event: { readonly kind: QuestionEvent['kind']; readonly question: QuestionCard } }

/** A question whole, in the words of every surface. `digest` of the card is over what the sections show. */
export type PresentedQuestion = {
  readonly card: QuestionCard
  readonly sections: readonly Section[]
  readonly summary: string
  readonly remember?: NonNullable<Question['remember']>
}

import { computed, signal } from '@preact/signals'
import type { QuestionCard, QuestionNews } from '../../wire/question-card.ts'
import { hear } from '../api/feed.ts'

/** What waits for an answer, oldest first. */
export const pending = signal<readonly QuestionCard[]>([])
export const pendingCount = computed(() => pending.value.length)

const WAITS: ReadonlySet<string> = new Set(['pending', 'claimed'])

export function keepQuestions(): () => void {
  return hear('questions', (news) => (pending.value = after(pending.value, news)))
}

export function waits({ state }: Pick<QuestionCard, 'state'>): boolean {
  return WAITS.has(state)
}

/** What waits once a line of the feed was heard. */
export function after(before: readonly QuestionCard[], news: QuestionNews): readonly QuestionCard[] {
  if ('pending' in news) return news.pending.toSorted(byAge)
  const { question } = news.event
  const others = before.filter(({ id }) => id !== question.id)
  return waits(question) ? [...others, question].toSorted(byAge) : others
}

function byAge(a: QuestionCard, b: QuestionCard): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)
}

import { computed, signal } from '@preact/signals'
import type { QuestionCard, QuestionNews } from '../../wire/question-card.ts'
import { hear } from '../api/feed.ts'

/** What waits for an answer, oldest first. */
export const pending = signal<readonly QuestionCard[]>([])
export const pendingCount = computed(() => pending.value.length)
/** Id of the question that is looked at. What comes and goes never moves it to another one. */
export const selected = signal<string | undefined>(undefined)
/** What waited until a moment ago, as it ended: it keeps its place in the list until it was seen. */
export const leaving = signal<readonly QuestionCard[]>([])
/** How many there were since the page began that it had not known. */
export const arrivals = signal(0)

const LEAVES_MS = 4_000
const LEAVING_MAX = 50
const WAITS: ReadonlySet<string> = new Set(['pending', 'claimed'])

export function keepQuestions(): () => void {
  return hear('questions', (news) => {
    const before = pending.value
    const next = after(before, news)
    const known = new Set(before.map(({ id }) => id))
    arrivals.value += next.filter(({ id }) => !known.has(id)).length
    const still = new Set(next.map(({ id }) => id))
    const ended = before.filter(({ id }) => !still.has(id))
    pending.value = next
    for (const card of ended) leave('event' in news && news.event.question.id === card.id ? news.event.question : card, card.bundle)
  })
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

export function byAge(a: QuestionCard, b: QuestionCard): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)
}

/** One of several that wait together leaves without a row of its own, unless it is looked at. */
function leave(card: QuestionCard, bundle: string | undefined): void {
  if (bundle !== undefined && card.id !== selected.value) return
  leaving.value = [...leaving.value.filter(({ id }) => id !== card.id), card].slice(-LEAVING_MAX)
  setTimeout(() => {
    if (selected.value !== card.id) leaving.value = leaving.value.filter(({ id }) => id !== card.id)
  }, LEAVES_MS)
}

/** Looks at another question; the one before goes from the list if it is over. */
export function select(id: string | undefined): void {
  if (selected.value === id) return
  selected.value = id
  leaving.value = leaving.value.filter((card) => card.id === id)
}

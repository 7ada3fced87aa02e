import { computed, effect, signal } from '@preact/signals'
import type { PresentedQuestion, QuestionCard, QuestionNews } from '../../wire/question-card.ts'
import { access, call, Problem } from '../api/client.ts'
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

/** What was answered here leaves at once, whenever the feed says so. */
const answered = new Set<string>()
const LEAVES_MS = 4_000
const LEAVING_MAX = 50
const WAITS: ReadonlySet<string> = new Set(['pending', 'claimed'])

/** Lines of the feed that came together are taken together: a flood of questions is sorted and drawn once for many of them. */
export function keepQuestions(): () => void {
  let heard: QuestionNews[] = []
  let timer: ReturnType<typeof setTimeout> | undefined
  const takeAll = (): void => {
    clearTimeout(timer)
    timer = undefined
    const all = heard
    heard = []
    take(all)
  }
  const stops = [
    hear('questions', (news) => {
      heard.push(news)
      if ('pending' in news) takeAll()
      else timer ??= setTimeout(takeAll)
    }),
    // The next login may be somebody else's, and hears all that waits.
    effect(() => {
      if (access.value === 'out') forget()
    }),
  ]
  return () => {
    clearTimeout(timer)
    stops.forEach((stop) => stop())
  }
}

function take(all: readonly QuestionNews[]): void {
  const before = pending.value
  const known = new Set(before.map(({ id }) => id))
  const { waiting, ended, missing } = after(before, all)
  arrivals.value += waiting.filter(({ id }) => !known.has(id)).length
  pending.value = waiting
  for (const [card, bundle] of ended) leave(card, bundle)
  for (const card of missing) if (card.id === selected.value) void leaveUnheard(card)
}

function forget(): void {
  pending.value = []
  leaving.value = []
}

export function waits({ state }: Pick<QuestionCard, 'state'>): boolean {
  return WAITS.has(state)
}

/** What waits once these lines of the feed were heard, what ended by them, and what ended while nothing was heard. */
function after(before: readonly QuestionCard[], all: readonly QuestionNews[]) {
  let cards = new Map(before.map((card) => [card.id, card]))
  const ended: [card: QuestionCard, bundle: string | undefined][] = []
  const missing: QuestionCard[] = []
  for (const news of all) {
    if ('pending' in news) {
      const next = new Map(news.pending.map((card) => [card.id, card]))
      missing.push(...[...cards.values()].filter(({ id }) => !next.has(id)))
      cards = next
      continue
    }
    const { question } = news.event
    const known = cards.get(question.id)
    if (waits(question)) cards.set(question.id, question)
    else if (known !== undefined) ended.push([question, known.bundle])
    if (!waits(question)) cards.delete(question.id)
  }
  return { waiting: [...cards.values()].toSorted(byAge), ended, missing }
}

export function byAge(a: QuestionCard, b: QuestionCard): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)
}

/** One of several that wait together leaves without a row of its own, unless it is looked at. */
function leave(card: QuestionCard, bundle: string | undefined): void {
  if (answered.has(card.id) || (bundle !== undefined && card.id !== selected.value)) return
  leaving.value = [...leaving.value.filter(({ id }) => id !== card.id), card].slice(-LEAVING_MAX)
  setTimeout(() => {
    if (selected.value !== card.id) leaving.value = leaving.value.filter(({ id }) => id !== card.id)
  }, LEAVES_MS)
}

/** What is looked at keeps its place when the feed comes back without it, and how it ended is asked for. */
async function leaveUnheard(card: QuestionCard): Promise<void> {
  leave({ ...card, state: 'cancelled' }, undefined)
  const asked = call<PresentedQuestion>('GET', `/v1/questions/${encodeURIComponent(card.id)}/presented`)
  const truth = await asked.catch((error: unknown) => {
    if (!(error instanceof Problem)) throw error
  })
  leaving.value = leaving.value.flatMap((one) => (one.id !== card.id ? [one] : truth === undefined ? [] : [truth.card]))
}

/** Puts away what was answered here, and looks at another one. */
export function putAway(ids: ReadonlySet<string>, next: string | undefined): void {
  for (const id of ids) answered.add(id)
  leaving.value = leaving.value.filter(({ id }) => !ids.has(id))
  select(next)
}

/** Looks at another question; the one before goes from the list if it is over. */
export function select(id: string | undefined): void {
  if (selected.value === id) return
  selected.value = id
  leaving.value = leaving.value.filter((card) => card.id === id)
}

import type { QuestionCard } from '../../wire/question-card.ts'
import { byAge, waits } from './questions.ts'

/** A line of the list: one question, or equal ones that wait together. */
export type Group = { readonly key: string; readonly cards: readonly [QuestionCard, ...QuestionCard[]] }

/**
 * The lines of the list, the oldest first. `places` keeps where each was first seen, so that a line stays where it is when the oldest of
 * those that it stands for is answered.
 */
export function groupsOf(cards: readonly QuestionCard[], places: Map<string, number>): Group[] {
  const groups = new Map<string, [QuestionCard, ...QuestionCard[]]>()
  for (const card of cards.toSorted(byAge)) {
    const key = keyOf(card)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [card])
    else group.push(card)
  }
  for (const [key, [first]] of groups) if (!places.has(key)) places.set(key, places.get(first.id) ?? first.createdAt)
  for (const key of places.keys()) if (!groups.has(key)) places.delete(key)
  const place = ({ key, cards: [first] }: Group): number => places.get(key) ?? first.createdAt
  return [...groups]
    .map(([key, all]): Group => ({ key, cards: all }))
    .toSorted((a, b) => place(a) - place(b) || byAge(a.cards[0], b.cards[0]))
}

function keyOf(card: QuestionCard): string {
  return card.bundle !== undefined && waits(card) ? card.bundle : card.id
}

export function groupOf(groups: readonly Group[], id: string | undefined): Group | undefined {
  return groups.find(({ cards }) => cards.some((card) => card.id === id))
}

/** The question so many lines further, of those that wait: where the line itself was is known from `groups`. */
export function beside(groups: readonly Group[], id: string | undefined, by: 1 | -1): string | undefined {
  const at = groups.findIndex(({ cards }) => cards.some((card) => card.id === id))
  if (at === -1) return groups.at(0)?.cards[0].id
  const to = Math.min(groups.length - 1, Math.max(0, at + by))
  return to === at ? id : groups[to]?.cards[0].id
}

/** What is looked at when these were answered: what else waits in the same line, then the next line, then the one before. */
export function nextAfter(groups: readonly Group[], id: string, answered: ReadonlySet<string>): string | undefined {
  const at = groups.findIndex(({ cards }) => cards.some((card) => card.id === id))
  const inOrder = [...groups.slice(Math.max(0, at)), ...groups.slice(0, Math.max(0, at)).toReversed()]
  return inOrder.flatMap(({ cards }) => cards).find((card) => waits(card) && !answered.has(card.id))?.id
}

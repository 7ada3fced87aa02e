import { computed, signal } from '@preact/signals'
import type { QuestionLine } from '../../wire/operator.ts'
import type { Question } from '../../wire/question.ts'
import { hear } from '../api/feed.ts'

/** What waits for an answer, oldest first. */
export const pending = signal<readonly Question[]>([])
export const pendingCount = computed(() => pending.value.length)

const WAITS: ReadonlySet<string> = new Set(['pending', 'claimed'])

export function keepQuestions(): () => void {
  return hear('questions', (line) => (pending.value = after(pending.value, line)))
}

/** What waits once a line of the feed was heard. */
export function after(before: readonly Question[], line: QuestionLine): readonly Question[] {
  if ('pending' in line) return line.pending.toSorted((a, b) => a.createdAt - b.createdAt)
  const { question } = line.event
  const others = before.filter(({ id }) => id !== question.id)
  if (!WAITS.has(question.state)) return others
  return [...others, question].toSorted((a, b) => a.createdAt - b.createdAt)
}

import type { QuestionCard } from '../../wire/question-card.ts'
import { call, loginId, Problem } from '../api/client.ts'

/** A claim is held for 30 s by the daemon: whoever is still at it says so this often. */
const CLAIM_EVERY_MS = 10_000

let held: { readonly id: string; readonly at: number } | undefined

/** Says to other operators that somebody here is at this question. A claim that is refused is seen in the question itself. */
export function takeUp({ id, digest }: Pick<QuestionCard, 'id' | 'digest'>): void {
  if (held?.id === id && performance.now() - held.at < CLAIM_EVERY_MS) return
  if (held !== undefined && held.id !== id) letGo()
  held = { id, at: performance.now() }
  call('POST', `/v1/questions/${encodeURIComponent(id)}/claim`, { digest }).catch(ignoreProblem)
}

export function letGo(): void {
  if (held === undefined) return
  const { id } = held
  held = undefined
  call('DELETE', `/v1/questions/${encodeURIComponent(id)}/claim`).catch(ignoreProblem)
}

/** Who else has it. */
export function claimedByOther({ claimedBy }: Pick<QuestionCard, 'claimedBy'>): string | undefined {
  return claimedBy === undefined || claimedBy === `page ${loginId.value}` ? undefined : claimedBy
}

function ignoreProblem(error: unknown): void {
  if (!(error instanceof Problem)) throw error
}

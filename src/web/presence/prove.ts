import { signal } from '@preact/signals'
import type { ProofAsked } from '../../wire/passkeys.ts'
import type { PresenceProof } from '../../wire/question.ts'

/** What the operator is asked to prove, and what is sent with the proof. */
type Ask<T> = {
  /** In words, as `Allow it once`. */
  readonly does: string
  /** Another way to do it, on a terminal. */
  readonly command?: string
  /** What can be proven it with: asked for anew for each try. */
  readonly ways: () => Promise<ProofAsked>
  /** Sends it. What it throws with `presence_failed` is said in the dialog, where it can be tried again. */
  readonly send: (proof: PresenceProof) => Promise<T>
}

/** An ask with what becomes of it. */
export type Asked = Ask<unknown> & {
  readonly key: number
  readonly settle: (value: unknown) => void
  readonly fail: (error: unknown) => void
}

/** What waits for a proof: the dialog shows the first. */
export const asked = signal<readonly Asked[]>([])
let count = 0

/**
 * Opens the dialog and resolves with what `send` got for a proof that held.
 * @throws DOMException `AbortError` when the operator leaves it; what `ways` throws, and `send` for any other reason than the proof
 */
export async function prove<T>(ask: Ask<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  count += 1
  const mine: Asked = { ...ask, key: count, settle: resolve, fail: reject }
  asked.value = [...asked.value, mine]
  try {
    return (await promise) as T
  } finally {
    asked.value = asked.value.filter((one) => one !== mine)
  }
}

export function leave(ask: Asked): void {
  ask.fail(new DOMException('the operator left the proof', 'AbortError'))
}

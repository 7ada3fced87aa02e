import { createTurns } from '../turns.ts'
import type { Visit } from './verify.ts'

/** What is in memory of the containers beside one agent. */
export type SiblingsHeld = {
  /** Names of those that are or become. */
  readonly names: Set<string>
  /** Their subnets. */
  readonly subnets: Set<string>
  /** Networks that the gate is in for them, by name: from before it is connected until the network is gone. */
  readonly visits: Map<string, Visit>
  readonly rising: Set<Promise<unknown>>
  readonly running: Set<AsyncDisposable>
  /** One at a time has the agent stand still. */
  readonly calm: ReturnType<typeof createTurns>
  /** Ends all that are there now. */
  over: AbortController
}

export function noSiblings(): SiblingsHeld {
  return {
    names: new Set(),
    subnets: new Set(),
    visits: new Map(),
    rising: new Set(),
    running: new Set(),
    calm: createTurns(1),
    over: new AbortController(),
  }
}

/** Ends those that there are, also on their way. All are tried; then the first fault is thrown. */
export async function endSiblings(held: SiblingsHeld, reason: Error): Promise<void> {
  held.over.abort(reason)
  held.over = new AbortController()
  await Promise.allSettled(held.rising)
  const ended = await Promise.allSettled(Array.from(held.running, (sibling) => sibling[Symbol.asyncDispose]()))
  const failed = ended.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

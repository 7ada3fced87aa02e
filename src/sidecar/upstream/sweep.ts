import { LIMITS } from '../../kernel/limits.ts'

/** What is looked at in each sweep. */
export type Swept = {
  /** The tick at which it is to be ended: that of `tickAfter`, or `NEVER`. */
  readonly deadline: number
  /** It is due. */
  expire(): void
}

export const NEVER = Number.MAX_SAFE_INTEGER

const swept = new Set<Swept>()
let ticks = 0
let timer: NodeJS.Timeout | undefined

/**
 * One timer looks after all connections: a deadline is a number that is set anew with every request and chunk, where a timer of its
 * own would be taken out of a list and put into another each time. It runs while there is something to look after, and keeps no
 * process alive.
 */
export function watchDeadline(what: Swept): void {
  swept.add(what)
  timer ??= setInterval(sweep, LIMITS.upstreamSweepMs).unref()
}

export function unwatchDeadline(what: Swept): void {
  swept.delete(what)
  if (swept.size > 0) return
  clearInterval(timer)
  timer = undefined
}

/** The tick when so much time has passed, and at most two sweeps more. */
export function tickAfter(ms: number): number {
  return ticks + Math.ceil(ms / LIMITS.upstreamSweepMs) + 1
}

function sweep(): void {
  ticks += 1
  for (const what of swept) {
    if (what.deadline <= ticks) what.expire()
  }
}

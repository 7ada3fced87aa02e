/** The lines of a chain on their way to another keeper, in order. One reader at a time. */
export type Outgoing = {
  /**
   * What follows the lines that are acknowledged, without newlines, `LIMITS.controlLinesMax` and `LIMITS.controlLinesBytesMax` at most.
   * Waits for there to be something. The same lines again until they are acknowledged. When `signal` aborts it waits no longer.
   */
  next(signal: AbortSignal): Promise<readonly string[]>
  /** The first `count` lines of `next` are kept. */
  acknowledge(count: number): void
  /** The keeper says which line it has last. Where this chain has that line the next one follows it. */
  resumeAfter(mark: { readonly seq: number; readonly hash: string }): Promise<void>
}

/** Tells one who waits that there is something. */
export type Bell = {
  /** How often it was rung. */
  readonly rings: number
  ring(): void
  /** Resolves when it was rung more often than that, or when `signal` aborts. */
  wait(rings: number, signal: AbortSignal): Promise<void>
}

export function createBell(): Bell {
  let rings = 0
  let wake: (() => void) | undefined
  return {
    get rings() {
      return rings
    },
    ring() {
      rings += 1
      wake?.()
    },
    async wait(known, signal) {
      if (signal.aborted || rings > known) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const end = (): void => resolve()
      wake = end
      signal.addEventListener('abort', end, { once: true })
      await promise
      wake = undefined
      signal.removeEventListener('abort', end)
    },
  }
}

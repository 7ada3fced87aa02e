import { LIMITS } from '../../kernel/limits.ts'

/** Hands events to everybody who listens. Each has a bounded queue of its own: one who does not read loses the oldest. */
export type EventHub<E> = {
  emit(event: E): void
  listen(signal: AbortSignal): AsyncIterable<E>
}

export function createEventHub<E>(): EventHub<E> {
  const listeners = new Set<(event: E) => void>()
  return {
    emit: (event) => {
      for (const tell of listeners) tell(event)
    },
    listen(signal) {
      const queue: E[] = []
      let wake: (() => void) | undefined
      const tell = (event: E): void => {
        queue.push(event)
        if (queue.length > LIMITS.sessionEventsMax) queue.shift()
        wake?.()
      }
      // From now on, and not only from the first read.
      listeners.add(tell)
      signal.addEventListener('abort', () => (listeners.delete(tell), wake?.()), { once: true })
      return (async function* () {
        try {
          while (!signal.aborted) {
            yield* queue.splice(0)
            if (queue.length > 0 || signal.aborted) continue
            await new Promise<void>((resolve) => (wake = resolve))
          }
        } finally {
          listeners.delete(tell)
        }
      })()
    },
  }
}

import { setTimeout as wait } from 'node:timers/promises'
import { LIMITS } from '../../kernel/limits.ts'
import type { ActivityBatch, ActivityLine } from '../../wire/activity.ts'

/** Tells everybody who listens of lines that are new or changed, a few times a second. */
export type Updates = {
  tell(line: ActivityLine): void
  listen(signal: AbortSignal): AsyncGenerator<ActivityBatch, void>
}

export function createUpdates(): Updates {
  const listeners = new Set<(line: ActivityLine) => void>()
  return {
    tell(line) {
      for (const listener of listeners) listener(line)
    },
    listen(signal) {
      const waiting = createWaiting()
      // From now on, and not only from the first read.
      listeners.add(waiting.take)
      signal.addEventListener('abort', () => (listeners.delete(waiting.take), waiting.end()), { once: true })
      return (async function* () {
        try {
          yield { begins: true, lines: [], missed: 0 }
          while (!signal.aborted) {
            await waiting.some()
            if (signal.aborted) return
            yield waiting.batch()
            await wait(LIMITS.activityBatchMs, undefined, { signal }).catch(() => undefined)
          }
        } finally {
          listeners.delete(waiting.take)
        }
      })()
    },
  }
}

/** What one listener has not been told: each line once, as it is now. One who cannot keep up loses the oldest, and is told how many. */
function createWaiting() {
  const lines = new Map<number, ActivityLine>()
  let missed = 0
  let wake: (() => void) | undefined
  return {
    take: (line: ActivityLine): void => {
      lines.set(line.n, line)
      if (lines.size > LIMITS.activityWaitingMax) {
        lines.delete(lines.keys().next().value ?? 0)
        missed += 1
      }
      wake?.()
    },
    end: (): void => wake?.(),
    async some(): Promise<void> {
      if (lines.size > 0) return
      await new Promise<void>((resolve) => (wake = resolve))
      wake = undefined
    },
    batch(): ActivityBatch {
      const some = [...lines.values().take(LIMITS.activityBatchLinesMax)]
      for (const { n } of some) lines.delete(n)
      const batch = { lines: some, missed }
      missed = 0
      return batch
    },
  }
}

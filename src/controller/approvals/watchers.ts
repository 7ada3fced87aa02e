import type { QuestionEvent } from '../../wire/question.ts'
import { createEventHub } from '../sessions/event-hub.ts'

/** Who looks at the questions: with none there is nobody to ask. */
export type Watchers = {
  readonly count: number
  emit(event: QuestionEvent): void
  /** From this call until the signal or the end of the reader. */
  watch(signal: AbortSignal): AsyncIterable<QuestionEvent>
}

export function createWatchers(ending: AbortSignal): Watchers {
  const hub = createEventHub<QuestionEvent>()
  const watching = new Set<object>()
  return {
    get count() {
      return watching.size
    },
    emit: (event) => hub.emit(event),
    watch(signal) {
      const end = AbortSignal.any([signal, ending])
      const one = {}
      if (!end.aborted) watching.add(one)
      end.addEventListener('abort', () => watching.delete(one), { once: true })
      const events = hub.listen(end)
      return (async function* () {
        try {
          yield* events
        } finally {
          watching.delete(one)
        }
      })()
    },
  }
}

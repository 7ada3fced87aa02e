/** Lets so many pieces of work run at the same time, the others in the order in which they came. */
export function createTurns(max: number) {
  let active = 0
  const waiting = new Set<() => void>()
  return {
    /** Runs the work when it is its turn. @throws the signal's reason when it is aborted before that */
    async take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
      if (active >= max) {
        const turn = Promise.withResolvers<void>()
        const leave = (): void => turn.reject(signal.reason)
        signal.addEventListener('abort', leave, { once: true })
        waiting.add(turn.resolve)
        try {
          await turn.promise
        } finally {
          signal.removeEventListener('abort', leave)
          waiting.delete(turn.resolve)
        }
      } else active += 1
      try {
        signal.throwIfAborted()
        return await work()
      } finally {
        const [next] = waiting
        // The turn is handed on as it is, so that none who comes now gets before the next.
        if (next === undefined) active -= 1
        else {
          waiting.delete(next)
          next()
        }
      }
    },
  }
}

import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { createTurns } from '../turns.ts'

/** What is read of one workspace and kept while somebody thinks about it: an agent asks as often as it likes, and all of it is in memory. */
export type HeldFiles = {
  /**
   * Looks when it is the session's turn, and counts what was found until that is disposed of.
   * @throws overloaded when the session has more than `LIMITS.usePinnedHeldBytesMax`; what `look` throws; the signal's reason
   */
  hold<T extends { readonly files: readonly { readonly content: Buffer }[] }>(
    session: string,
    look: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<Held<T>>
  endSession(session: string): void
}

export type Held<T> = Disposable & { readonly found: T }

type OfSession = { readonly turns: ReturnType<typeof createTurns>; bytes: number }

export function createHeldFiles(): HeldFiles {
  const sessions = new Map<string, OfSession>()
  return {
    async hold(session, look, signal) {
      const own = sessions.get(session) ?? { turns: createTurns(1), bytes: 0 }
      sessions.set(session, own)
      return await own.turns.take(signal, async () => {
        const found = await look()
        let bytes = found.files.reduce((sum, { content }) => sum + content.length, 0)
        if (own.bytes + bytes > LIMITS.usePinnedHeldBytesMax)
          throw new SallyportError('overloaded', `commands of this session wait with ${own.bytes} bytes of files of the workspace`, {
            hint: 'wait until some of them are answered, or name fewer files',
          })
        own.bytes += bytes
        return {
          found,
          [Symbol.dispose]() {
            own.bytes -= bytes
            bytes = 0
          },
        }
      })
    },
    endSession: (session) => void sessions.delete(session),
  }
}

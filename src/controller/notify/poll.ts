import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { ListenParts } from './channel.ts'
import type { ChatAnswersDesk } from './chat-answers.ts'

/** Asks for answers again and again while one is awaited; after a failure later and later. Ends with the signal. */
export async function pollAnswers(
  name: string,
  desk: ChatAnswersDesk,
  ask: (signal: AbortSignal) => Promise<void>,
  { log, wait }: ListenParts,
  signal: AbortSignal,
): Promise<void> {
  const gone = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => gone.resolve(), { once: true })
  let pauseMs: number = LIMITS.chatPollMs
  while (!signal.aborted) {
    await Promise.race([desk.awaited(), gone.promise])
    if (signal.aborted) return
    try {
      await ask(signal)
      pauseMs = LIMITS.chatPollMs
    } catch (error) {
      if (signal.aborted) return
      log.warn(
        { channel: name, code: error instanceof SallyportError ? error.code : codeOf(error), detail: said(error) },
        'answers could not be asked for',
      )
      pauseMs = Math.min(pauseMs * 2, LIMITS.chatPollMaxMs)
    }
    await wait(pauseMs, signal)
  }
}

/** Words of ours: another's may have a secret. */
export function said(error: unknown): string {
  return error instanceof SallyportError ? error.message : 'a fault'
}

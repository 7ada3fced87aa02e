import { LIMITS } from '../../kernel/limits.ts'
import type { Question } from '../../wire/question.ts'
import type { Wait } from './channel.ts'

type Tell = (questions: readonly [Question, ...Question[]], more: number) => Promise<void>

/**
 * Questions on their way to one notice. The first is told at once; what comes within a pause is told together at its end, and the
 * pauses double while more comes: a thousand questions make a handful of notices. What was answered meanwhile is not told.
 */
export class Gathering {
  readonly #waiting = new Map<string, Question>()
  #more = 0
  #arrived = Promise.withResolvers<void>()

  add(question: Question): void {
    if (this.#waiting.size < LIMITS.notifyHeldMax) this.#waiting.set(question.id, question)
    else this.#more += 1
    this.#arrived.resolve()
  }

  remove(id: string): void {
    this.#waiting.delete(id)
  }

  /** Tells until the signal is aborted. `tell` never rejects. */
  async run(tell: Tell, wait: Wait, signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#arrived.resolve(), { once: true })
    let pauseMs: number = LIMITS.notifyPauseMinMs
    while (!signal.aborted) {
      await this.#arrived.promise
      if (signal.aborted) return
      this.#arrived = Promise.withResolvers<void>()
      const [first, ...others] = this.#waiting.values()
      const more = this.#more
      this.#waiting.clear()
      this.#more = 0
      if (first === undefined) continue
      await tell([first, ...others], more)
      await wait(pauseMs, signal)
      pauseMs = this.#waiting.size > 0 ? Math.min(pauseMs * 2, LIMITS.notifyPauseMaxMs) : LIMITS.notifyPauseMinMs
    }
  }
}

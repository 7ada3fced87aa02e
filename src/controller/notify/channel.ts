import type { Log } from '../../kernel/log.ts'
import type { Question } from '../../wire/question.ts'
import type { ChatAnswersDesk } from './chat-answers.ts'
import type { Notice } from './notice.ts'

/** One way that notices go. */
export type Channel = {
  /** For the log: its kind and its place in the settings. */
  readonly name: string
  /** @param question the one that the notice is of, where it is one @throws notice_failed */
  send(notice: Notice, question: Question | undefined, signal: AbortSignal): Promise<void>
  /** Takes answers until the signal is aborted; a way that only tells has none. */
  listen?(signal: AbortSignal): Promise<void>
  readonly desk?: ChatAnswersDesk
}

/** Waits in the length of a time, or until the signal is aborted. Never rejects. */
export type Wait = (ms: number, signal: AbortSignal) => Promise<void>

export type ListenParts = { readonly log: Log; readonly wait: Wait }

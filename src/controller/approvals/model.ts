import type { AuditEvent } from '../../audit/audit.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { Answer, Outcome, PresenceEvidence, Question, QuestionEvent, QuestionWish } from '../../wire/question.ts'
import type { RememberedRule } from './questions-file.ts'
import type { RememberDoor } from './remembered.ts'

/** How somebody watches. Being in it means that the operator can be asked. */
export type WatchKind = 'page' | 'terminal' | 'notify'

/** One queue for all that the operator is asked. Every question ends exactly once; every doubt and every fault is a no. */
export type Approvals = AsyncDisposable & {
  /**
   * Puts a question and waits for its end, a denial too. The signal says that nobody waits any more. A proposal waits for an operator who
   * comes later; all else is refused at once when nobody watches.
   * @throws approver_absent, too_many_questions, question_invalid, audit_unavailable, approvals_write_failed, controller_unavailable
   */
  ask(wish: QuestionWish, signal: AbortSignal): Promise<Outcome>
  /** Those that wait, oldest first, then those that are settled, latest first. `session`: of this one only. */
  list(filter?: { readonly state?: 'pending' | 'recent'; readonly session?: string; readonly limit?: number }): Question[]
  /** @throws question_not_found */
  get(id: string): Question
  /**
   * Takes a question for one operator, until it is disposed of or for `LIMITS.claimMs`: nobody else allows it meanwhile.
   * @throws question_not_found, question_settled, question_claimed, digest_mismatch
   */
  claim(id: string, digest: string, by: string): Disposable
  /**
   * Settles it, once, and on the disk when this resolves. `by` is who says so, as in `claim`.
   * @throws question_not_found, question_settled, question_claimed, digest_mismatch, answered_too_soon, presence_required, answer_invalid,
   *   approvals_write_failed, audit_unavailable: nothing was changed, or it has expired
   */
  answer(id: string, answer: Answer, evidence: PresenceEvidence, by?: string): Promise<Question>
  /** Withdraws what this session asked, and takes an approval back that it has not used. @throws request_not_found */
  cancel(id: string, session: string): void
  /**
   * True once for an approved question and its digest; on the disk and in the audit before. Whatever then happens, `finished` is told.
   * @throws audit_unavailable, approvals_write_failed: it is used up or not, and must not run
   */
  consume(id: string, digest: string): Promise<boolean>
  finished(id: string, result: { readonly code?: string; readonly exitCode?: number }): Promise<void>
  /** Events from now on, until the signal: it counts as watching from the call on. */
  watch(kind: WatchKind, signal: AbortSignal): AsyncIterable<QuestionEvent>
  isWatched(): boolean
  /** Withdraws all that it asked, and every answer that was for it. */
  endSession(session: string): void
  /** The rules that are remembered, of one workspace or of all. */
  remembered(workspace?: string): RememberedRule[]
  /** Takes a remembered rule back. False when there is none of this id. */
  forget(id: string): Promise<boolean>
}

export type ApprovalsParts = {
  /** `$SALLYPORT_HOME/approvals.db` */
  readonly file: string
  /** Resolves when it is written. What it rejects is not done. */
  readonly audit: (event: AuditEvent) => Promise<void>
  readonly system: System
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  /** Without it nothing can be remembered. */
  readonly remember?: RememberDoor
}

import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Answer, Outcome, PresenceEvidence, Question, QuestionEvent, QuestionWish } from '../../wire/question.ts'
import { checkAnswer } from './answer-checks.ts'
import { questionOf } from './asked.ts'
import { createComfort, type Grant } from './comfort.ts'
import { sameKeyOf } from './digest.ts'
import { createHeld, grantedAnswer, isWaiting, viewOf, type Held } from './held-question.ts'
import type { Approvals, ApprovalsParts, WatchKind } from './model.ts'
import type { QuestionsFile, RememberedRule, Settlement } from './questions-file.ts'
import { askedRecord, consumedRecord, finishedRecord, settledRecord } from './records.ts'
import { createRules, type Rules } from './rules.ts'
import { createWatchers } from './watchers.ts'

const CLOSED = 'the controller ends'
const GONE = 'who asked waits no more'

/** The questions that are not over. What is settled is in the file alone. */
export class Desk implements Approvals {
  readonly #file: QuestionsFile
  readonly #parts: ApprovalsParts
  readonly #rules: Rules
  readonly #held = new Map<string, Held>()
  readonly #comfort = createComfort()
  readonly #ending = new AbortController()
  readonly #watchers = createWatchers(this.#ending.signal)
  /** What is being written down. */
  readonly #writing = new Set<Promise<unknown>>()

  constructor(file: QuestionsFile, parts: ApprovalsParts) {
    this.#file = file
    this.#parts = parts
    this.#rules = createRules(file, parts)
  }

  open(): Promise<void> {
    return this.#rules.open()
  }

  async ask(wish: QuestionWish, signal: AbortSignal): Promise<Outcome> {
    const key = sameKeyOf(wish)
    const grant = this.#comfort.granted(key)
    // I54: a proposal holds nothing up, and lies in the inbox for whoever comes.
    this.#refuse(wish.asker.session, grant !== undefined || wish.subject.kind === 'proposal')
    const { system } = this.#parts
    const held = createHeld(questionOf(wish, this.#comfort.offer(key, wish.risk), system), key, system.elapsed())
    this.#held.set(held.question.id, held)
    const withdraw = (): void => this.#withdraw(held, GONE)
    signal.addEventListener('abort', withdraw, { once: true })
    held.onOver = () => signal.removeEventListener('abort', withdraw)
    if (signal.aborted) withdraw()
    await this.#track(this.#begin(held, grant))
    return held.outcome.promise
  }

  list({ state, session, limit = LIMITS.questionsRecentMax }: Parameters<Approvals['list']>[0] = {}): Question[] {
    const waiting = [...this.#held.values()].filter(isWaiting)
    const equals = new Map<string, number>()
    for (const { key } of waiting) equals.set(key, (equals.get(key) ?? 0) + 1)
    const isListed = ({ question }: Held): boolean => session === undefined || question.asker.session === session
    const found = state === 'recent' ? [] : waiting.filter(isListed).map((held) => viewOf(held, equals.get(held.key) ?? 1))
    // All that wait are listed, however many: one that is not seen can't be answered.
    if (state === 'pending') return found
    const most = Math.min(Math.max(0, limit), LIMITS.questionsKeptMax)
    return [...found, ...this.#file.recent({ limit: most, ...(session !== undefined && { session }) })]
  }

  get(id: string): Question {
    const held = this.#held.get(id)
    if (held !== undefined && held.state !== 'recording') return this.#view(held)
    const found = held === undefined ? this.#file.get(id) : undefined
    if (found === undefined) throw notFound(id)
    return found
  }

  claim(id: string, digest: string, by: string): Disposable {
    const held = this.#waiting(id)
    if (held.question.digest !== digest)
      throw new SallyportError('digest_mismatch', `${id} is asked with the digest ${held.question.digest}`)
    if (held.claim !== undefined && held.claim.by !== by)
      throw new SallyportError('question_claimed', `${id} is claimed by ${held.claim.by}`)
    clearTimeout(held.claim?.timer)
    const release = (): void => {
      if (held.claim !== claim) return
      clearTimeout(claim.timer)
      held.claim = undefined
      if (isWaiting(held)) this.#tell('changed', held)
    }
    const claim = { by, timer: setTimeout(release, LIMITS.claimMs) }
    held.claim = claim
    this.#tell('changed', held)
    return { [Symbol.dispose]: release }
  }

  async answer(id: string, answer: Answer, evidence: PresenceEvidence, by: string = evidence.means): Promise<Question> {
    const held = this.#waiting(id)
    const { system } = this.#parts
    if (this.#isLate(held)) {
      await this.#end(held, { state: 'expired' })
      throw over(id, 'expired')
    }
    const shownForMs = system.elapsed() - held.shownAt
    checkAnswer({ question: held.question, shownForMs, claimedBy: held.claim?.by }, answer, evidence, by)
    const { decision, scope, message } = answer
    const given = { decision, scope, by, tier: evidence.tier, at: system.now(), ...(message !== undefined && { message }) }
    if (decision === 'allow') return this.#track(this.#allow(held, answer, given, evidence))
    this.#answered(held, given, evidence)
    return this.#end(held, { state: 'denied', answer: given }, evidence)
  }

  cancel(id: string, session: string): void {
    const held = this.#held.get(id)
    // Another session's is not told from none.
    if (held === undefined || held.question.asker.session !== session)
      throw new SallyportError('request_not_found', `no question "${id}" of this session waits`)
    this.#withdraw(held, 'withdrawn by who asked')
  }

  async consume(id: string, digest: string): Promise<boolean> {
    const held = this.#held.get(id)
    if (held === undefined || held.state !== 'approved' || held.question.digest !== digest) return false
    // In this turn, before anything is waited for: of many that come at once one goes on.
    this.#close(held)
    if (!this.#file.consume(id, digest, this.#parts.system.now())) return false
    await this.#track(this.#parts.audit(consumedRecord(held.question)))
    return true
  }

  async finished(id: string, result: { readonly code?: string; readonly exitCode?: number }): Promise<void> {
    try {
      const question = this.#file.get(id)
      if (question?.run === undefined || question.run.finishedAt !== undefined) throw notFound(id)
      this.#file.finish(id, this.#parts.system.now(), result)
      await this.#track(this.#parts.audit(finishedRecord(question, result)))
    } catch (error) {
      // It has run: the next controller says that it was interrupted.
      this.#parts.log.error({ question: id, cause: codeOf(error) }, 'the end of what was approved could not be recorded')
    }
  }

  watch(_kind: WatchKind, signal: AbortSignal): AsyncIterable<QuestionEvent> {
    return this.#watchers.watch(signal)
  }

  isWatched(): boolean {
    return this.#watchers.count > 0
  }

  endSession(session: string): void {
    this.#comfort.endSession(session)
    for (const held of this.#held.values()) if (held.question.asker.session === session) this.#withdraw(held, 'its session ended')
  }

  remembered(workspace?: string): RememberedRule[] {
    return this.#file.rules(workspace)
  }

  forget(id: string): Promise<boolean> {
    return this.#track(this.#rules.forget(id))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ending.signal.aborted) return
    this.#ending.abort()
    for (const held of this.#held.values()) this.#withdraw(held, CLOSED)
    while (this.#writing.size > 0) await Promise.allSettled(this.#writing)
    await this.#rules[Symbol.asyncDispose]()
    this.#file[Symbol.dispose]()
  }

  /** @throws controller_unavailable, approver_absent, too_many_questions */
  #refuse(session: string, needsNobody: boolean): void {
    if (this.#ending.signal.aborted) throw new SallyportError('controller_unavailable', CLOSED)
    if (!needsNobody && !this.isWatched())
      throw new SallyportError('approver_absent', 'the operator has to be asked first, and nobody is watching', {
        hint: 'the operator can watch with: sallyport approve, or set up a notification',
      })
    let own = 0
    for (const { question } of this.#held.values()) if (question.asker.session === session) own++
    if (own < LIMITS.questionsOfSessionMax && this.#held.size < LIMITS.questionsPendingMax) return
    throw new SallyportError('too_many_questions', `${own} questions of this session wait, ${this.#held.size} of all`, {
      hint: 'wait for an answer, or withdraw one',
    })
  }

  async #begin(held: Held, grant: Grant | undefined): Promise<void> {
    await this.#record(held)
    if (held.withdrawn !== undefined) await this.#end(held, { state: 'cancelled', note: held.withdrawn })
    else if (grant) await this.#byGrant(held, grant)
    else this.#show(held)
  }

  /** On the disk and in the audit before anybody sees it. */
  async #record(held: Held): Promise<void> {
    const { question } = held
    try {
      this.#file.add(question)
      await this.#parts.audit(askedRecord(question))
    } catch (error) {
      this.#close(held)
      this.#settle(question, { state: 'cancelled', at: this.#parts.system.now(), note: 'it could not be recorded' })
      throw error
    }
  }

  #show(held: Held): void {
    const { system } = this.#parts
    held.state = 'pending'
    held.shownAt = system.elapsed()
    held.timer = setTimeout(
      () => {
        held.isExpired = true
        if (held.state === 'pending') void this.#end(held, { state: 'expired' })
      },
      Math.max(0, held.deadline - held.shownAt),
    )
    this.#tell('asked', held)
    this.#tellFirstOf(held.key, 2)
  }

  async #byGrant(held: Held, grant: Grant): Promise<void> {
    const answer = grantedAnswer(grant)
    const note = `as ${grant.question} was answered for the session`
    if (grant.decision === 'deny') return void (await this.#end(held, { state: 'denied', answer, note }, grant.evidence))
    held.state = 'settling'
    // Nobody is asked in its place, where it can't be written down.
    held.isExpired = true
    await this.#approve(held, { state: 'approved', at: this.#parts.system.now(), answer, note }, grant.evidence)
  }

  #allow(held: Held, answer: Answer, given: NonNullable<Question['answer']>, evidence: PresenceEvidence): Promise<Question> {
    const { question } = held
    const settlement = { state: 'approved', at: given.at, answer: given } as const
    held.state = 'settling'
    if (answer.scope !== 'remember') return this.#approve(held, settlement, evidence, () => this.#answered(held, given, evidence))
    const remembered = this.#rules.remember(question, answer, given.at, (rule) =>
      this.#approve(held, { ...settlement, rule }, evidence, () => this.#answered(held, given, evidence)),
    )
    return remembered.catch((error: unknown) => {
      this.#reopen(held)
      throw error
    })
  }

  /** The file first and the audit second: what is approved in the file alone has no power, now or after a restart. I41 */
  async #approve(held: Held, settlement: Settlement, evidence: PresenceEvidence, onApproved?: () => void): Promise<Question> {
    const { question } = held
    try {
      this.#file.settle(question.id, settlement)
      try {
        await this.#parts.audit(settledRecord(question, settlement, evidence))
      } catch (error) {
        this.#file.reopen(question.id)
        throw error
      }
    } catch (error) {
      this.#reopen(held)
      throw error
    }
    this.#calm(held)
    held.state = 'approved'
    Object.assign(held, { answer: settlement.answer, settledAt: settlement.at, note: settlement.note })
    if (held.withdrawn !== undefined) return this.#end(held, { state: 'cancelled', note: held.withdrawn })
    onApproved?.()
    held.timer = setTimeout(() => this.#withdraw(held, 'the approval was not used in time'), LIMITS.approvalUseMs)
    const view = this.#tell('settled', held)
    this.#tellFirstOf(held.key, 1)
    held.outcome.resolve({ decision: 'allow', scope: settlement.answer?.scope ?? 'once', question: view })
    return view
  }

  /** An answer could not be written down: it was not given. */
  #reopen(held: Held): void {
    if (held.state !== 'settling') return
    held.state = 'pending'
    if (held.withdrawn !== undefined) void this.#end(held, { state: 'cancelled', note: held.withdrawn })
    else if (this.#isLate(held)) void this.#end(held, { state: 'expired' })
  }

  #answered(held: Held, { decision, scope, by, message }: NonNullable<Question['answer']>, evidence: PresenceEvidence): void {
    const { key, question } = held
    this.#comfort.answered(key, decision)
    if (scope !== 'session') return
    const about = { session: question.asker.session, question: question.id, by, evidence }
    this.#comfort.grant(key, { decision, ...about, ...(message !== undefined && { message }) })
  }

  #withdraw(held: Held, note: string): void {
    if (held.state === 'recording' || held.state === 'settling') held.withdrawn ??= note
    else if (held.state !== 'over') void this.#end(held, { state: 'cancelled', note })
  }

  /** Ends it with a no, which holds from this turn on: a disk or an audit that cannot be written undoes none. I41 */
  #end(held: Held, how: Omit<Settlement, 'at'>, evidence?: PresenceEvidence): Promise<Question> {
    const { answer = held.answer, ...rest } = how
    const settlement = { ...rest, at: this.#parts.system.now(), ...(answer && { answer }) }
    this.#close(held)
    this.#settle(held.question, settlement)
    const { state, at: settledAt, note } = settlement
    const question: Question = { ...held.question, state, settledAt, ...(answer && { answer }), ...(note !== undefined && { note }) }
    this.#watchers.emit({ kind: 'settled', question })
    this.#tellFirstOf(held.key, 1)
    return this.#track(this.#recordEnd(held, question, settlement, evidence))
  }

  async #recordEnd(held: Held, question: Question, settlement: Settlement, evidence?: PresenceEvidence): Promise<Question> {
    try {
      await this.#parts.audit(settledRecord(question, settlement, evidence))
    } catch (error) {
      this.#parts.log.error({ question: question.id, cause: codeOf(error) }, 'the end of a question could not be audited')
    }
    const message = question.answer?.decision === 'deny' ? question.answer.message : undefined
    held.outcome.resolve({ decision: 'deny', code: CODES[question.state], question, ...(message !== undefined && { message }) })
    return question
  }

  #settle(question: Question, settlement: Settlement): void {
    try {
      this.#file.settle(question.id, settlement)
    } catch (error) {
      this.#parts.log.error({ question: question.id, cause: codeOf(error) }, 'the end of a question could not be written down')
    }
  }

  #close(held: Held): void {
    this.#calm(held)
    held.state = 'over'
    held.onOver?.()
    this.#held.delete(held.question.id)
  }

  #calm(held: Held): void {
    clearTimeout(held.timer)
    clearTimeout(held.claim?.timer)
    held.timer = undefined
    held.claim = undefined
  }

  /** Both clocks: one stops while the machine sleeps, the other can be set back. */
  #isLate({ deadline, question, isExpired }: Held): boolean {
    const { system } = this.#parts
    return isExpired || system.elapsed() >= deadline || system.now() >= question.expiresAt
  }

  /** @throws question_not_found, question_settled */
  #waiting(id: string): Held {
    const held = this.#held.get(id)
    if (held?.state === 'pending') return held
    if (held?.state === 'settling') throw over(id, 'being answered')
    throw over(id, this.get(id).state)
  }

  #view(held: Held): Question {
    return viewOf(held, this.#equalsOf(held.key).length)
  }

  #equalsOf(key: string): Held[] {
    return [...this.#held.values()].filter((held) => held.key === key && isWaiting(held))
  }

  #tell(kind: QuestionEvent['kind'], held: Held): Question {
    const question = this.#view(held)
    this.#watchers.emit({ kind, question })
    return question
  }

  /** Where so many equal ones wait, whether the first is one of a bundle has changed. */
  #tellFirstOf(key: string, count: number): void {
    const equals = this.#equalsOf(key)
    const [first] = equals
    if (first !== undefined && equals.length === count) this.#tell('changed', first)
  }

  #track<T>(work: Promise<T>): Promise<T> {
    const tracked = work.finally(() => this.#writing.delete(tracked))
    this.#writing.add(tracked)
    return tracked
  }
}

const CODES = {
  pending: 'approval_cancelled',
  claimed: 'approval_cancelled',
  approved: 'approval_cancelled',
  denied: 'approval_denied',
  expired: 'approval_expired',
  cancelled: 'approval_cancelled',
} as const

function notFound(id: string): SallyportError {
  return new SallyportError('question_not_found', `there is no question "${id}"`)
}

function over(id: string, state: string): SallyportError {
  return new SallyportError('question_settled', `${id} is ${state}`)
}

import { createHmac, timingSafeEqual } from 'node:crypto'
import { SallyportError } from '../../kernel/errors.ts'
import type { System } from '../../kernel/system.ts'
import type { Answer, PresenceEvidence, Question } from '../../wire/question.ts'
import type { ProofPurpose } from '../presence/presence.ts'
import type { ChatAnswers } from './settings.ts'

/** What of the questions is used here: `Approvals` has it. */
export type Answering = {
  get(id: string): Question
  answer(id: string, answer: Answer, evidence: PresenceEvidence): Promise<Question>
}

/** Texts that a chat sends back when a button is pressed; none where the settings don't have it. */
export type Buttons = { readonly deny?: string; readonly allow?: string }

export type ChatParts = {
  readonly approvals: Answering
  /** Evidence of T0 for an answer by this way. */
  readonly attest: (means: string, of: ProofPurpose) => PresenceEvidence
  readonly system: Pick<System, 'random' | 'now'>
}

/** In words for the chat. */
export type Taken = { readonly said: string; readonly code?: string }

const ANSWER = /^(allow|deny) (\S{1,256}) ([0-9a-f]{16}) ([A-Za-z0-9_-]{22})$/

/**
 * Answers by chat, for one way. A button's text names the decision, the question and the first 16 digits of its digest, and has a code
 * that only this daemon makes: who may write to the chat and cannot read the notice answers nothing.
 */
export class ChatAnswersDesk {
  readonly #parts: ChatParts
  readonly #means: string
  readonly #may: ChatAnswers
  readonly #key: Buffer
  readonly #open = new Map<string, { readonly digest: string; readonly expiresAt: number }>()
  #arrived = Promise.withResolvers<void>()

  constructor(means: string, may: ChatAnswers, parts: ChatParts) {
    this.#parts = parts
    this.#means = means
    this.#may = may
    this.#key = parts.system.random(32)
  }

  /** @param isWhole nothing of what is asked was cut from the notice */
  offer({ id, digest, tier, expiresAt }: Pick<Question, 'id' | 'digest' | 'tier' | 'expiresAt'>, isWhole: boolean): Buttons {
    if (this.#may === 'none') return {}
    this.#open.set(id, { digest, expiresAt })
    this.#arrived.resolve()
    const deny = this.#text('deny', id, digest)
    return this.#may === 'T0' && tier === 'T0' && isWhole ? { deny, allow: this.#text('allow', id, digest) } : { deny }
  }

  forget(id: string): void {
    if (this.#open.delete(id) && this.#open.size === 0) this.#arrived = Promise.withResolvers<void>()
  }

  /** Resolves when an answer is awaited. */
  awaited(): Promise<void> {
    // One that ended while its notice was on the way was forgotten before it was offered.
    const now = this.#parts.system.now()
    for (const [id, { expiresAt }] of this.#open) if (expiresAt < now) this.forget(id)
    return this.#open.size > 0 ? Promise.resolve() : this.#arrived.promise
  }

  /** Takes what came from the chat. What is no answer of ours is passed over. */
  async take(text: string): Promise<Taken | undefined> {
    const [, decision, id = '', prefix = ''] = ANSWER.exec(text) ?? []
    if (decision !== 'allow' && decision !== 'deny') return undefined
    const digest = this.#open.get(id)?.digest
    // I50: bound to the decision, the question and its digest.
    if (digest === undefined || !digest.startsWith(prefix) || !isEqual(text, this.#text(decision, id, digest)))
      return { said: 'too late, or not ours' }
    try {
      const { tier } = this.#parts.approvals.get(id)
      if (decision === 'allow' && (this.#may !== 'T0' || tier !== 'T0')) return { said: `a question of ${tier} is not allowed from here` }
      const scope = 'once'
      const evidence = this.#parts.attest(this.#means, { digest, decision, scope })
      await this.#parts.approvals.answer(id, { digest, decision, scope }, evidence)
      this.forget(id)
      return { said: decision === 'allow' ? 'allowed' : 'denied' }
    } catch (error) {
      const code = error instanceof SallyportError ? error.code : 'internal'
      return { said: `not answered: ${code}`, code }
    }
  }

  #text(decision: 'allow' | 'deny', id: string, digest: string): string {
    const code = createHmac('sha256', this.#key)
      .update(JSON.stringify([decision, id, digest]))
      .digest()
      .subarray(0, 16)
      .toString('base64url')
    return `${decision} ${id} ${digest.slice(0, 16)} ${code}`
  }
}

function isEqual(given: string, made: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(made)]
  return one.length === other.length && timingSafeEqual(one, other)
}

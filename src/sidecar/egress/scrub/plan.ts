import { SallyportError } from '../../../kernel/errors.ts'
import type { Redactor, RedactorStream } from '../../../redactor/redactor.ts'

/** What is done with secrets that an answer has in it. */
export type ScrubPlan = {
  readonly redactor: Redactor
  /** `replace`: marks of the same length go on in their place. `block`: nothing goes on from there. */
  readonly mode: 'replace' | 'block'
  /** Told of what was found, in both modes. False when it was too much: then the answer ends as with `block`. */
  onHits(count: number): boolean
}

/** @throws secret_echoed when the answer must not go on */
export function judgeHits(plan: ScrubPlan, hits: number): void {
  if (hits === 0) return
  const isBearable = plan.onHits(hits)
  if (plan.mode === 'block')
    throw new SallyportError('secret_echoed', 'the answer has a secret in it', { hint: 'the rule of this host says scrub: block' })
  // Whoever may guess for ever learns a weak secret from what is replaced and what is not.
  if (!isBearable) throw new SallyportError('secret_echoed', 'the answers to this session had secrets in them too often')
}

/** A text as latin1 without secrets, of the same length. @throws secret_echoed */
export function scrubText(plan: ScrubPlan, value: string): string {
  const { text, hits } = plan.redactor.text(value)
  judgeHits(plan, hits)
  return text
}

/** Bytes without secrets, as many as went in by the time of `flush`. */
export class ScrubbedBytes {
  readonly #plan: ScrubPlan
  readonly #stream: RedactorStream
  #hits = 0

  constructor(plan: ScrubPlan) {
    this.#plan = plan
    this.#stream = plan.redactor.open()
  }

  /** What may go on by now. @throws secret_echoed */
  push(chunk: Buffer): Buffer {
    return this.#judged(this.#stream.push(chunk))
  }

  /** The rest; what comes afterwards is looked at by itself. @throws secret_echoed */
  flush(): Buffer {
    return this.#judged(this.#stream.flush())
  }

  #judged(released: Buffer): Buffer {
    const { hits } = this.#stream
    const found = hits - this.#hits
    this.#hits = hits
    judgeHits(this.#plan, found)
    return released
  }
}

import { SallyportError } from '../../../kernel/errors.ts'
import type { Redactor, RedactorStream } from '../../../redactor/redactor.ts'
import type { Content } from './body.ts'

/** What is done with secrets that an answer has in it. */
export type ScrubPlan = {
  /** May be another one at any time, also in the middle of an answer: what a secret becomes while it runs, others may have written into it. I24 */
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

/** Bytes without secrets, as many as went in by the time of `end`. */
export class ScrubbedBytes implements Content {
  readonly #plan: ScrubPlan
  /** What the stream is of. */
  #redactor: Redactor | undefined
  #stream: RedactorStream | undefined
  /** Those of the stream that were judged. */
  #hits = 0

  constructor(plan: ScrubPlan) {
    this.#plan = plan
  }

  push(chunk: Buffer): Buffer {
    const { redactor } = this.#plan
    const [stream, behind] = this.#streamOf(redactor, chunk)
    return this.#judged(stream, stream.push(behind))
  }

  last(chunk: Buffer): Buffer {
    const { redactor } = this.#plan
    // Most answers come whole, and without a secret.
    if (this.#stream === undefined && redactor.isClean(chunk)) return chunk
    const [stream, behind] = this.#streamOf(redactor, chunk)
    return this.#judged(stream, stream.last(behind))
  }

  end(): Buffer {
    return this.#stream === undefined ? NOTHING : this.#judged(this.#stream, this.#stream.flush())
  }

  /** The stream of the redactor, and the chunk with what was held back by another one: it may be the beginning of a secret that both know. */
  #streamOf(redactor: Redactor, chunk: Buffer): [stream: RedactorStream, chunk: Buffer] {
    const before = this.#stream
    if (before !== undefined && redactor === this.#redactor) return [before, chunk]
    this.#redactor = redactor
    this.#stream = redactor.open()
    this.#hits = 0
    return [this.#stream, before === undefined ? chunk : Buffer.concat([before.flush(), chunk])]
  }

  #judged(stream: RedactorStream, released: Buffer): Buffer {
    const found = stream.hits - this.#hits
    this.#hits = stream.hits
    judgeHits(this.#plan, found)
    return released
  }
}

const NOTHING: Buffer = Buffer.alloc(0)

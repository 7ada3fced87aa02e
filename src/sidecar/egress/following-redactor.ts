import type { Redactor, RedactorStream } from '../../redactor/redactor.ts'

/**
 * The redactor that `current` gives at any time, also in the middle of a stream: what a secret becomes while an answer runs, others
 * may have its upstream write into it. I24
 */
export function followingRedactor(current: () => Redactor): Redactor {
  return { open: () => new FollowingStream(current), text: (value) => current().text(value) }
}

class FollowingStream implements RedactorStream {
  readonly #current: () => Redactor
  #redactor: Redactor
  #stream: RedactorStream
  #hitsBefore = 0

  constructor(current: () => Redactor) {
    this.#current = current
    this.#redactor = current()
    this.#stream = this.#redactor.open()
  }

  get hits(): number {
    return this.#hitsBefore + this.#stream.hits
  }

  push(chunk: Uint8Array): Buffer {
    const redactor = this.#current()
    if (redactor === this.#redactor) return this.#stream.push(chunk)
    // What was held back may be the beginning of a secret, which the new one knows too.
    const held = this.#stream.flush()
    this.#hitsBefore += this.#stream.hits
    this.#redactor = redactor
    this.#stream = redactor.open()
    return this.#stream.push(Buffer.concat([held, chunk]))
  }

  flush(): Buffer {
    return this.#stream.flush()
  }
}

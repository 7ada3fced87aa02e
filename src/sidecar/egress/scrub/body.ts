import { SallyportError } from '../../../kernel/errors.ts'
import type { RawHeaders } from '../headers.ts'
import type { Outlet } from './outlet.ts'

/** What is inside of a body once its codings are undone. */
export type Content = {
  /** What may go on by now. @throws secret_echoed; answer_not_scrubbable */
  push(chunk: Buffer): Buffer
  /** What `push` and then `end` would give: nothing comes behind this chunk. @throws like `push` */
  last(chunk: Buffer): Buffer
  /** The rest, when all has come. @throws like `push` */
  end(): Buffer
}

/** The body of an answer on its way to the agent. */
export type Body = {
  /** False when it takes no more for now: wait for `onceDrained`. */
  write(chunk: Buffer): boolean
  onceDrained(listener: () => void): void
  /** @param trailers as they go on */
  end(trailers: RawHeaders): void
}

/** A body that stands there as it is. */
export class PlainBody implements Body {
  readonly #content: Content
  readonly #outlet: Outlet
  /** Bytes that are still to come, where the head says so. */
  #left: number

  /** @param bytes what Content-Length says; Infinity when it does not */
  constructor(content: Content, outlet: Outlet, bytes: number) {
    this.#content = content
    this.#outlet = outlet
    this.#left = bytes
  }

  write(chunk: Buffer): boolean {
    let released: Buffer
    try {
      released = this.#looked(chunk)
    } catch (error) {
      this.#outlet.fail(error)
      return true
    }
    if (released.length > 0) return this.#outlet.write(released)
    // All of it could be the beginning of a secret; the head need not wait for what comes of that.
    this.#outlet.flush()
    return true
  }

  onceDrained(listener: () => void): void {
    this.#outlet.onceDrained(listener)
  }

  end(trailers: RawHeaders): void {
    let rest: Buffer
    try {
      rest = this.#content.end()
    } catch (error) {
      this.#outlet.fail(error)
      return
    }
    if (rest.length > 0) this.#outlet.write(rest)
    this.#outlet.end(trailers)
  }

  /** The last bytes of all are not held back for what might follow: a small answer goes out in one. */
  #looked(chunk: Buffer): Buffer {
    this.#left -= chunk.length
    if (this.#left > 0) return this.#content.push(chunk)
    // The border, which then would be none, could lie in a secret.
    if (this.#left < 0) throw new SallyportError('upstream_invalid', 'the answer is longer than its Content-Length')
    return this.#content.last(chunk)
  }
}

import type { RawHeaders } from '../headers.ts'
import type { Outlet } from './outlet.ts'

/** What is inside of a body once its codings are undone. */
export type Content = {
  /** What may go on by now. @throws secret_echoed; answer_not_scrubbable */
  push(chunk: Buffer): Buffer
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

  constructor(content: Content, outlet: Outlet) {
    this.#content = content
    this.#outlet = outlet
  }

  write(chunk: Buffer): boolean {
    const released = this.#outlet.attempt(() => this.#content.push(chunk))
    if (released === undefined) return true
    if (released.length > 0) return this.#outlet.write(released)
    // All of it could be the beginning of a secret; the head need not wait for what comes of that.
    this.#outlet.flush()
    return true
  }

  onceDrained(listener: () => void): void {
    this.#outlet.onceDrained(listener)
  }

  end(trailers: RawHeaders): void {
    const rest = this.#outlet.attempt(() => this.#content.end())
    if (rest === undefined) return
    if (rest.length > 0) this.#outlet.write(rest)
    this.#outlet.end(trailers)
  }
}

/** No body: nothing goes on, whatever an upstream sends in its place. */
export class NoBody implements Body {
  readonly #outlet: Outlet

  constructor(outlet: Outlet) {
    this.#outlet = outlet
  }

  write(): boolean {
    return true
  }

  onceDrained(listener: () => void): void {
    this.#outlet.onceDrained(listener)
  }

  end(trailers: RawHeaders): void {
    this.#outlet.end(trailers)
  }
}

import { Readable } from 'node:stream'

/** The body of a request, as it comes. Its connection is read only as fast as this is. */
export class RequestBody extends Readable {
  readonly #resume: () => void
  #isWhole = false
  #isUnwanted = false

  /** @param resume reads on; called when this has room */
  constructor(resume: () => void) {
    super()
    this.#resume = resume
  }

  /** A part that came. False when there is no room for more. */
  arrive(bytes: Buffer): boolean {
    return this.#isUnwanted || this.destroyed || this.push(bytes)
  }

  /** It came to its end. */
  complete(): void {
    this.#isWhole = true
    if (!this.#isUnwanted && !this.destroyed) this.push(null)
  }

  /** Nobody needs the rest: it is taken off the wire. */
  forgo(): void {
    this.#isUnwanted = true
    this.#resume()
  }

  /** The connection is gone, and the rest with it: half a body must not look like a whole one. I10 */
  break(): void {
    if (this.#isWhole || this.destroyed) return
    // Told by `onGone` too: without a listener it would end the process.
    this.destroy(this.listenerCount('error') > 0 ? Object.assign(new Error('the agent is gone'), { code: 'ECONNRESET' }) : undefined)
  }

  override _read(): void {
    if (!this.#isWhole) this.#resume()
  }
}

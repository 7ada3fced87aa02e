import { codeOf, SallyportError } from '../../../kernel/errors.ts'
import type { Agent } from '../agent.ts'
import type { RawHeaders } from '../headers.ts'

type Head = { readonly status: number; readonly reason: string; readonly headers: readonly string[] }

/**
 * The agent's end of an answer that is looked into. The head is held until bytes follow or it is flushed: up to then what is
 * found can still make a refusal of the answer. Once it is closed (everything went out, the answer failed, or the agent is
 * gone) nothing goes out any more.
 */
export class Outlet {
  readonly #agent: Agent
  readonly #fail: (error: SallyportError) => void
  #onClose: (() => void)[] | undefined
  #head: Head | undefined
  #stopListening: (() => void) | undefined
  #isClosed = false

  constructor(agent: Agent, fail: (error: SallyportError) => void) {
    this.#agent = agent
    this.#fail = fail
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  start(head: Head): void {
    if (!this.#isClosed) this.#head = head
  }

  /** False when the agent reads slower than this. */
  write(chunk: Buffer): boolean {
    if (this.#isClosed) return true
    try {
      this.#sendHead()
      return this.#agent.write(chunk)
    } catch (error) {
      this.fail(error)
      return true
    }
  }

  flush(): void {
    if (this.#isClosed) return
    try {
      this.#sendHead()
      this.#agent.flush()
    } catch (error) {
      this.fail(error)
    }
  }

  onceDrained(listener: () => void): void {
    this.#agent.onceDrained(listener)
  }

  end(trailers: RawHeaders): void {
    if (this.#isClosed) return
    try {
      this.#sendHead()
      this.#agent.end(trailers)
      this.close()
    } catch (error) {
      this.fail(error)
    }
  }

  /** Ends the answer with an error. Told once, and not when it is over. */
  fail(error: unknown): void {
    if (this.#isClosed) return
    this.close()
    // Node has objections to what the upstream sent. Here nobody but us would hear them.
    const invalid = (): SallyportError =>
      new SallyportError('upstream_invalid', `the answer cannot be passed on (${codeOf(error)})`, { cause: error })
    this.#fail(error instanceof SallyportError ? error : invalid())
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#stopListening?.()
    for (const listener of this.#onClose ?? []) listener()
  }

  /** Tells when it is closed, at once if it is. */
  onClose(listener: () => void): void {
    if (this.#isClosed) listener()
    else (this.#onClose ??= []).push(listener)
  }

  /** Closes when the agent goes. An answer that goes out in the turn in which it came needs nobody to watch. */
  watchAgent(): void {
    if (this.#isClosed || this.#stopListening !== undefined) return
    this.#stopListening = this.#agent.onGone(() => this.close())
    if (this.#agent.isGone) this.close()
  }

  #sendHead(): void {
    const head = this.#head
    if (head === undefined) return
    this.#head = undefined
    this.#agent.start(head.status, head.reason, head.headers)
  }
}

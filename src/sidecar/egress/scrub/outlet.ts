import { codeOf, SallyportError } from '../../../kernel/errors.ts'
import type { Agent } from '../agent.ts'
import type { RawHeaders } from '../headers.ts'

/**
 * The agent's end of an answer that is looked into. The head is held until bytes follow or it is flushed: up to then what is
 * found can still make a refusal of the answer. Once it is closed nothing goes out any more.
 */
export class Outlet {
  /** Resolves when it is closed: everything went out, the answer failed, or the agent is gone. */
  readonly closed: Promise<void>
  readonly #agent: Agent
  readonly #fail: (error: SallyportError) => void
  readonly #onClose: (() => void)[] = []
  #head: { readonly status: number; readonly reason: string; readonly headers: readonly string[] } | undefined
  #stopListening = (): void => {}
  #isClosed = false

  constructor(agent: Agent, fail: (error: SallyportError) => void) {
    this.#agent = agent
    this.#fail = fail
    this.closed = new Promise((resolve) => this.onClose(resolve))
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  start(status: number, reason: string, headers: readonly string[]): void {
    if (this.#isClosed) return
    this.#head = { status, reason, headers }
    this.#stopListening = this.#agent.onGone(() => this.close())
  }

  /** False when the agent reads slower than this. */
  write(chunk: Buffer): boolean {
    return this.#sending(() => this.#agent.write(chunk)) ?? true
  }

  flush(): void {
    this.#sending(() => this.#agent.flush())
  }

  onceDrained(listener: () => void): void {
    this.#agent.onceDrained(listener)
  }

  end(trailers: RawHeaders): void {
    this.#sending(() => this.#agent.end(trailers))
    this.close()
  }

  /** What it gives, or nothing when the answer failed by it. */
  attempt<T>(step: () => T): T | undefined {
    if (this.#isClosed) return undefined
    try {
      return step()
    } catch (error) {
      this.fail(error)
      return undefined
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
    this.#stopListening()
    for (const listener of this.#onClose) listener()
  }

  /** Tells when it is closed, at once if it is. */
  onClose(listener: () => void): void {
    if (this.#isClosed) listener()
    else this.#onClose.push(listener)
  }

  #sending<T>(step: () => T): T | undefined {
    return this.attempt(() => {
      const head = this.#head
      this.#head = undefined
      if (head) this.#agent.start(head.status, head.reason, head.headers)
      return step()
    })
  }
}

import { createHash } from 'node:crypto'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { TerminalWish } from '../../wire/terminal.ts'
import type { Login } from './logins.ts'

/** What a ticket opens: this alone, and for as long as the login lives that asked for it. */
export type TerminalUse = { readonly login: Login; readonly session: string; readonly wish: TerminalWish }

type Kept = { readonly madeMs: number; readonly use: TerminalUse; readonly seenTwice: AbortController; isUsed: boolean }

/** I77: Tickets for the terminals of pages, in memory and as hashes alone: to look one up takes as long whatever is guessed. */
export class TerminalTickets implements Disposable {
  readonly #system: Pick<System, 'elapsed' | 'random'>
  readonly #kept = new Map<string, Kept>()

  constructor(system: Pick<System, 'elapsed' | 'random'>) {
    this.#system = system
  }

  /** For one use, soon. */
  make(use: TerminalUse): string {
    this.#forget()
    const ticket = this.#system.random(32).toString('base64url')
    this.#kept.set(hashOf(ticket), { madeMs: this.#system.elapsed(), use, seenTwice: new AbortController(), isUsed: false })
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > LIMITS.pageTerminalTicketsMax && oldest !== undefined) this.#kept.delete(oldest)
    return ticket
  }

  /**
   * What it opens. A ticket that comes twice was seen by somebody else: `seenTwice` ends what it opened.
   * @throws terminal_refused
   */
  redeem(ticket: string): { readonly use: TerminalUse; readonly seenTwice: AbortSignal } {
    this.#forget()
    const found = this.#kept.get(hashOf(ticket))
    if (found === undefined) throw refused('its ticket is not one that this daemon made, or it is too old')
    if (found.isUsed) {
      const error = refused('its ticket was used already, and what it opened is closed now')
      found.seenTwice.abort(error)
      throw error
    }
    found.isUsed = true
    if (found.use.login.ended.aborted) throw refused('the login that asked for it has ended')
    return { use: found.use, seenTwice: found.seenTwice.signal }
  }

  [Symbol.dispose](): void {
    this.#kept.clear()
  }

  /** A spent ticket is known for as long as it would have been good. */
  #forget(): void {
    const elapsed = this.#system.elapsed()
    for (const [hash, { madeMs }] of this.#kept) if (elapsed - madeMs > LIMITS.pageTerminalTicketMs) this.#kept.delete(hash)
  }
}

function hashOf(ticket: string): string {
  return createHash('sha256').update(ticket).digest('base64')
}

function refused(why: string): SallyportError {
  return new SallyportError('terminal_refused', `the terminal is not opened: ${why}`, { hint: 'connect again' })
}

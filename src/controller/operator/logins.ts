import { createHash } from 'node:crypto'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import type { LoginView, LoginWay } from '../../wire/operator.ts'

/** A page that is logged in. `ended` is aborted when it is revoked or over: what streams to it stops then. */
export type Login = { readonly id: string; readonly ended: AbortSignal }

type Kept = {
  readonly id: string
  readonly token: string
  readonly browser: string
  readonly way: LoginWay
  /** When it began as the operator's clock has it, and by the clock that nobody sets. */
  readonly createdAt: number
  readonly beganMs: number
  usedMs: number
  /** Calls of it that are not over, as the feed of a page that is kept open. */
  open: number
  readonly end: AbortController
  readonly over: NodeJS.Timeout
}

type Ticket = { readonly madeMs: number; login?: string }

/**
 * Who may use the page's listener, in memory alone: a daemon that starts anew knows nobody. Tickets and tokens are kept as their hashes,
 * so that to look one up takes as long whatever is guessed.
 */
export class Logins implements Disposable {
  readonly #system: Pick<System, 'now' | 'elapsed' | 'random'>
  readonly #tickets = new Map<string, Ticket>()
  readonly #logins = new Map<string, Kept>()

  #failures = { sinceMs: 0, count: 0 }

  constructor(system: Pick<System, 'now' | 'elapsed' | 'random'>) {
    this.#system = system
  }

  /** For one login, soon. */
  ticket(): string {
    this.#forget()
    const ticket = this.#secret()
    this.#tickets.set(hashOf(ticket), { madeMs: this.#system.elapsed() })
    const [oldest] = this.#tickets.keys()
    if (this.#tickets.size > LIMITS.openTicketsMax && oldest !== undefined) this.#tickets.delete(oldest)
    return ticket
  }

  /**
   * The token of a new login. A ticket that comes twice was seen by somebody else: the login that it gave ends too (RFC 9700 §2.1.1).
   * @throws login_required
   */
  redeem(ticket: string, browser: string): { readonly id: string; readonly token: string } {
    this.#forget()
    const found = this.#tickets.get(hashOf(ticket))
    if (found === undefined) throw loginRequired('the link is not one that this daemon made, or it is too old')
    if (found.login !== undefined) {
      this.end(found.login)
      throw loginRequired('the link was used already, and what it opened is closed now')
    }
    const login = this.begin(browser, 'link')
    found.login = login.id
    return login
  }

  /** The token of a new login, of somebody who was looked at by other means than a ticket. */
  begin(browser: string, way: LoginWay): { readonly id: string; readonly token: string } {
    this.#forget()
    const token = this.#secret()
    const id = this.#system.random(6).toString('hex')
    const end = new AbortController()
    const elapsed = this.#system.elapsed()
    const over = setTimeout(() => this.end(id), LIMITS.loginLifeMs).unref()
    this.#logins.set(hashOf(token), {
      id,
      token: hashOf(token),
      browser: shown(browser),
      way,
      createdAt: this.#system.now(),
      beganMs: elapsed,
      usedMs: elapsed,
      open: 0,
      end,
      over,
    })
    if (this.#logins.size > LIMITS.loginsMax) this.#endLeastUsed(id)
    return { id, token }
  }

  /** Who a token belongs to; it is used with that. @throws login_required */
  check(token: string | undefined): Login {
    this.#forget()
    const found = token === undefined ? undefined : this.#logins.get(hashOf(token))
    if (found === undefined) throw loginRequired('the page is not logged in, or its login has ended')
    found.usedMs = this.#system.elapsed()
    return { id: found.id, ended: found.end.signal }
  }

  /** A call of a login that goes on: while it does the login is not idle. What is given back ends it. */
  hold(id: string): Disposable {
    const found = [...this.#logins.values()].find((login) => login.id === id)
    if (found === undefined) return { [Symbol.dispose]: () => undefined }
    found.open += 1
    let isOver = false
    return {
      [Symbol.dispose]: () => {
        if (isOver) return
        isOver = true
        found.open -= 1
        found.usedMs = this.#system.elapsed()
      },
    }
  }

  /** Counts what was refused. How often in this minute. */
  failed(): number {
    const elapsed = this.#system.elapsed()
    if (elapsed - this.#failures.sinceMs > 60_000) this.#failures = { sinceMs: elapsed, count: 0 }
    this.#failures.count += 1
    return this.#failures.count
  }

  list(): LoginView[] {
    this.#forget()
    const elapsed = this.#system.elapsed()
    return [...this.#logins.values()].map(({ id, createdAt, beganMs, usedMs: lastMs, open, browser, way }) => {
      const usedMs = open > 0 ? elapsed : lastMs
      return {
        id,
        createdAt,
        usedAt: createdAt + Math.round(usedMs - beganMs),
        endsAt: createdAt + Math.round(Math.min(beganMs + LIMITS.loginLifeMs, usedMs + LIMITS.loginIdleMs) - beganMs),
        browser,
        way,
      }
    })
  }

  /** False when there is none of this id. */
  end(id: string): boolean {
    const found = [...this.#logins.values()].find((login) => login.id === id)
    if (found === undefined) return false
    this.#logins.delete(found.token)
    clearTimeout(found.over)
    found.end.abort(loginRequired('the login has ended'))
    return true
  }

  [Symbol.dispose](): void {
    for (const { id } of this.#logins.values()) this.end(id)
    this.#tickets.clear()
  }

  #secret(): string {
    return this.#system.random(32).toString('base64url')
  }

  #endLeastUsed(but: string): void {
    const others = [...this.#logins.values()].filter(({ id }) => id !== but)
    const [least] = others.toSorted((a, b) => Number(a.open > 0) - Number(b.open > 0) || a.usedMs - b.usedMs)
    if (least !== undefined) this.end(least.id)
  }

  /** A spent ticket is known for as long as it would have been good. */
  #forget(): void {
    const elapsed = this.#system.elapsed()
    for (const [hash, { madeMs }] of this.#tickets) if (elapsed - madeMs > LIMITS.openTicketMs) this.#tickets.delete(hash)
    for (const { id, beganMs, usedMs, open } of this.#logins.values())
      if ((open === 0 && elapsed - usedMs > LIMITS.loginIdleMs) || elapsed - beganMs > LIMITS.loginLifeMs) this.end(id)
  }
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64')
}

function loginRequired(message: string): SallyportError {
  return new SallyportError('login_required', message, { hint: 'open the page anew: sallyport open' })
}

import { createHash } from 'node:crypto'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import { canonicalJson } from '../approvals/canonical.ts'

type Issued = { readonly nonce: string; readonly origin: string; readonly untilMs: number }

/** What passkeys are asked to sign. Each is good once, soon, for what it was made for, on the page that it was made for. */
export class Challenges {
  readonly #system: Pick<System, 'elapsed' | 'random'>
  readonly #issued = new Map<string, Issued>()

  constructor(system: Pick<System, 'elapsed' | 'random'>) {
    this.#system = system
  }

  /** SHA-256, base64url, over the canonical JSON (RFC 8785) of `of` with a nonce. */
  issue(of: object, origin: string): string {
    this.#forget()
    const nonce = this.#system.random(32).toString('base64url')
    const challenge = challengeOf(of, nonce)
    this.#issued.set(challenge, { nonce, origin, untilMs: this.#system.elapsed() + LIMITS.passkeyChallengeMs })
    const [oldest] = this.#issued.keys()
    if (this.#issued.size > LIMITS.passkeyChallengesMax && oldest !== undefined) this.#issued.delete(oldest)
    return challenge
  }

  /** Uses a challenge up, whatever comes of it, and gives the origin of its page. @throws presence_failed */
  take(challenge: string, of: object): string {
    this.#forget()
    const found = this.#issued.get(challenge)
    this.#issued.delete(challenge)
    if (found === undefined) throw worthless('its challenge was answered before, is too old, or not of this daemon')
    // Whatever was changed since makes another hash.
    if (challengeOf(of, found.nonce) !== challenge) throw worthless('it was given for something else')
    return found.origin
  }

  #forget(): void {
    const elapsed = this.#system.elapsed()
    for (const [challenge, { untilMs }] of this.#issued) if (elapsed > untilMs) this.#issued.delete(challenge)
  }
}

function challengeOf(of: object, nonce: string): string {
  return createHash('sha256')
    .update(canonicalJson({ ...of, nonce }))
    .digest('base64url')
}

/** Of an answer of a passkey that proves nothing. */
export function worthless(why: string, cause?: unknown): SallyportError {
  return new SallyportError('presence_failed', `the answer of the passkey proves nothing: ${why}`, {
    hint: 'look at what is to be proven once more, and try again',
    ...(cause !== undefined && { cause }),
  })
}

import type { Secret } from '../kernel/secret.ts'
import { compile } from './automaton.ts'
import { patternsOf } from './patterns.ts'
import { asBuffer, Search } from './search.ts'
import { StateCache } from './state-cache.ts'

/** Takes the secrets out of what goes to an agent, in every encoding that `patternsOf` and `spellingsOf` name. */
export type Redactor = {
  /** A stream of its own; any number may be open. */
  open(): RedactorStream
  /** The same for one value by itself, as a header field. Characters are bytes (latin1), there and back. */
  text(value: string): { text: string; hits: number }
}

/** One stream of bytes. As many come out as go in, and they don't depend on how the stream is cut into chunks. */
export type RedactorStream = {
  /**
   * What may go on. A run of letters at the end is held back, of which a match may begin anywhere, but never more bytes than
   * twice those of a longest match. May be empty; is the chunk itself, or a part of it, where nothing was held or found.
   */
  push(chunk: Uint8Array): Buffer
  /** The message ends: gives what was held back. What is pushed next begins a new message. */
  flush(): Buffer
  /** Matches replaced so far, in all messages; those that overlap count as one. */
  readonly hits: number
}

/**
 * A redactor for the secrets. Each byte of a match becomes `*`, or `A` in base64 and `0` in hex; line breaks within base64 stay.
 * Time is linear in what is pushed, memory bounded by the secrets (`LIMITS.redactor…`).
 * @throws secret_invalid when the secrets together are too large to search for
 */
export function createRedactor(secrets: readonly Secret[]): Redactor {
  const patterns = patternsOf(secrets)
  const cache = patterns.length === 0 ? undefined : new StateCache(compile(patterns))
  const open = (): RedactorStream => (cache === undefined ? createOpenDoor() : new Search(cache))
  return {
    open,
    text(value) {
      const stream = open()
      const bytes = Buffer.concat([stream.push(Buffer.from(value, 'latin1')), stream.flush()])
      return { text: stream.hits === 0 ? value : bytes.toString('latin1'), hits: stream.hits }
    },
  }
}

/** Without a secret nothing is looked at. */
function createOpenDoor(): RedactorStream {
  return { push: asBuffer, flush: () => Buffer.alloc(0), hits: 0 }
}

import type { Secret } from '../kernel/secret.ts'
import { compile } from './automaton.ts'
import { patternsOf } from './patterns.ts'
import { asBuffer, Search } from './search.ts'
import { MATCH, ROOT, StateCache } from './state-cache.ts'

/** Takes the secrets out of what goes to an agent, in every encoding that `patternsOf` and `spellingsOf` name. */
export type Redactor = {
  /**
   * A stream of its own; any number may be open.
   * @param after a stream of another redactor that ends here, of whose secrets this one knows all: this one goes on where it was
   */
  open(after?: RedactorStream): RedactorStream
  /** The same for one value by itself, as a header field. Characters are bytes (latin1), there and back. */
  text(value: string): { text: string; hits: number }
  /** Whether nothing would be replaced in a message of these bytes. */
  isClean(bytes: Uint8Array): boolean
  /** Whether nothing would be replaced in any of the values, each by itself, as by `text`. */
  areClean(values: readonly string[]): boolean
}

/** One stream of bytes. As many come out as go in, and they don't depend on how the stream is cut into chunks. */
export type RedactorStream = {
  /**
   * What may go on. A run of letters at the end is held back, of which a match may begin anywhere, but never more bytes than
   * twice those of a longest match. May be empty; is the chunk itself, or a part of it, where nothing was held or found.
   */
  push(chunk: Uint8Array): Buffer
  /**
   * Gives early what is held back, for a reader who waits: all but a partial match, and of that the first bytes, if no more
   * than `prefixBytesMax` have come, nor than a third of the shortest match. The rest of a match that ends later is replaced
   * all the same. What is held back after it tells how far a text agrees with a secret: only for a reader who may know that.
   */
  release(prefixBytesMax: number): Buffer
  /** Bytes that are held back. */
  readonly held: number
  /** What `push` and then `flush` would give. */
  last(chunk: Uint8Array): Buffer
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
  return patterns.length === 0 ? OPEN_DOOR : new Finding(new StateCache(compile(patterns)))
}

class Finding implements Redactor {
  readonly #cache: StateCache
  readonly #separator: string | undefined

  constructor(cache: StateCache) {
    this.#cache = cache
    const { separator } = cache.automaton
    this.#separator = separator === undefined ? undefined : String.fromCharCode(separator)
  }

  open(after?: RedactorStream): RedactorStream {
    return new Search(this.#cache, after instanceof Search ? after : undefined)
  }

  text(value: string): { text: string; hits: number } {
    if (this.#isCleanText(value)) return { text: value, hits: 0 }
    const stream = this.open()
    const text = stream.last(Buffer.from(value, 'latin1')).toString('latin1')
    return { text, hits: stream.hits }
  }

  isClean(bytes: Uint8Array): boolean {
    return this.#cache.find(asBuffer(bytes), 0, ROOT, true).state < MATCH
  }

  areClean(values: readonly string[]): boolean {
    const separator = this.#separator
    // A search of all of them costs about what one of a single value does.
    if (separator !== undefined) return this.#isCleanText(values.join(separator))
    return values.every((value) => this.#isCleanText(value))
  }

  #isCleanText(text: string): boolean {
    if (text.length > scratch.length) return this.isClean(Buffer.from(text, 'latin1'))
    return this.isClean(scratch.subarray(0, scratch.write(text, 'latin1')))
  }
}

/** For one text at a time: a search takes no turn but its own. */
const scratch = Buffer.alloc(16 * 1024)

const NOTHING: Buffer = Buffer.alloc(0)

/** Without a secret nothing is looked at. */
const OPEN_DOOR: Redactor = {
  open: () => ({ push: asBuffer, release: () => NOTHING, held: 0, last: asBuffer, flush: () => NOTHING, hits: 0 }),
  text: (value) => ({ text: value, hits: 0 }),
  isClean: () => true,
  areClean: () => true,
}

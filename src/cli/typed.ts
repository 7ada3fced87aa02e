import { LIMITS } from '../kernel/limits.ts'

/** What the keys so far came to. */
export type TypedState =
  | { readonly kind: 'more' | 'done' }
  | { readonly kind: 'signal'; readonly signal: 'SIGINT' | 'SIGQUIT' }
  | { readonly kind: 'refused'; readonly why: string }

const MORE = { kind: 'more' } as const
const DONE = { kind: 'done' } as const
const BEGIN = Buffer.from('\x1b[200~')
const END = Buffer.from('\x1b[201~')
const [RETURN, LINE_FEED, ESCAPE, TAB] = [0x0d, 0x0a, 0x1b, 0x09]

/** The keys of one hidden answer, from a terminal in raw mode that marks what is pasted (xterm's bracketed paste). */
export class Typed {
  readonly #held = Buffer.alloc(LIMITS.secretBytesMax + 2)
  #length = 0
  #isPasting = false
  #wasReturn = false
  /** The beginning of a marker at the end of a chunk. */
  #rest: Buffer = Buffer.alloc(0)

  take(chunk: Buffer): TypedState {
    const bytes = Buffer.concat([this.#rest, chunk])
    this.#rest = Buffer.alloc(0)
    try {
      for (let at = 0; at < bytes.length; at++) {
        const marker = this.#isPasting ? END : BEGIN
        const here = bytes.subarray(at, at + marker.length)
        if (here.equals(marker)) {
          this.#isPasting = !this.#isPasting
          at += marker.length - 1
        } else if (here.equals(marker.subarray(0, here.length)) && at + here.length === bytes.length) {
          this.#rest = Buffer.from(here)
          return MORE
        } else {
          const state = this.#isPasting ? this.#pasted(bytes[at] ?? 0) : this.#key(bytes[at] ?? 0)
          if (state.kind === 'done') return this.#isLast(bytes.subarray(at + 1))
          if (state.kind !== 'more') return state
        }
      }
      return MORE
    } finally {
      bytes.fill(0)
    }
  }

  /** A copy of the answer. */
  bytes(): Buffer {
    return Buffer.from(this.#held.subarray(0, this.#length))
  }

  wipe(): void {
    this.#held.fill(0)
    this.#length = 0
  }

  /** Lines that were pasted into a terminal without markers: what we left of them the shell would run. */
  #isLast(after: Buffer): TypedState {
    const isLineEnd = after.length === 0 || (after.length === 1 && after[0] === LINE_FEED)
    return isLineEnd
      ? DONE
      : { kind: 'refused', why: 'more than one line was pasted: give it by stdin, as in "sallyport secret set NAME < FILE"' }
  }

  #pasted(byte: number): TypedState {
    // Terminals send lines of a paste with CR, some with CR LF.
    const isSecondHalf = this.#wasReturn && byte === LINE_FEED
    this.#wasReturn = byte === RETURN
    return isSecondHalf ? MORE : this.#add(byte === RETURN ? LINE_FEED : byte)
  }

  #key(byte: number): TypedState {
    switch (byte) {
      case RETURN:
      case LINE_FEED:
        return DONE
      case 0x03:
        return { kind: 'signal', signal: 'SIGINT' }
      case 0x1c:
        return { kind: 'signal', signal: 'SIGQUIT' }
      case 0x04:
        return this.#length === 0 ? { kind: 'refused', why: 'the answer was broken off' } : DONE
      case 0x08:
      case 0x7f:
        return this.#erase()
      case 0x15:
        this.wipe()
        return MORE
      default:
        if (byte >= 0x20 || byte === TAB) return this.#add(byte)
        return {
          kind: 'refused',
          why: `a key that is no character was pressed${byte === ESCAPE ? ' (an arrow, or Escape)' : ''}: begin again`,
        }
    }
  }

  #add(byte: number): TypedState {
    if (this.#length === this.#held.length) return { kind: 'refused', why: `the answer is longer than ${LIMITS.secretBytesMax} bytes` }
    this.#held[this.#length] = byte
    this.#length += 1
    return MORE
  }

  /** The last character, of however many bytes of UTF-8. */
  #erase(): TypedState {
    while (this.#length > 0) {
      this.#length -= 1
      const byte = this.#held[this.#length] ?? 0
      this.#held[this.#length] = 0
      if ((byte & 0xc0) !== 0x80) break
    }
    return MORE
  }
}

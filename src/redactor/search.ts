import { createThreads, step, type Threads } from './automaton.ts'
import { MARKS, type Mark } from './patterns.ts'
import { MATCH, ROOT, type StateCache } from './state-cache.ts'

/**
 * One stream (`RedactorStream`) in which the patterns of a cache are looked for and replaced.
 *
 * There are two ways to read a byte. `#scan` follows the cached states: fast, but it only learns that a match ended, not where it began.
 * `#trace` follows partial matches with their beginnings. A scan that met the end of a match or of the chunk goes back as far
 * as a match may reach and traces from there; then as many bytes more are traced before it scans again. So time is linear:
 * whatever the text and the chunks are, on average a byte is scanned once and traced at most three times.
 */
export class Search {
  hits = 0
  readonly #cache: StateCache
  readonly #alphabet: Uint8Array
  readonly #runBytesMax: number
  /** The bytes held back as they came, and as they will go on. The first `#sent` of them went on already. */
  #held = NOTHING
  #heldOut = this.#held
  #sent = 0
  /** What is searched: held bytes and chunk. `#out` is what it becomes: the same object until something is found. */
  #data = this.#held
  #out = this.#held
  #at = 0
  /** Partial matches at `#at`, of a trace. */
  #threads = createThreads()
  #spare = createThreads()
  /** So many bytes are traced before the next scan. */
  #traceLeft = 0
  /** Where the last match ended, or the last of those that overlap. */
  #coveredTo = 0

  /** @param after a stream that ends here: what it held back is searched again, with what it knew of it */
  constructor(cache: StateCache, after?: Search) {
    this.#cache = cache
    this.#alphabet = cache.automaton.alphabet
    // Rounded, so that it tells about how long the longest secret is, and nothing of its letters.
    this.#runBytesMax = 2 ** Math.ceil(Math.log2(cache.automaton.longest))
    if (after !== undefined) this.#takeOver(after)
  }

  get held(): number {
    return this.#held.length - this.#sent
  }

  push(chunk: Uint8Array): Buffer {
    this.#look(chunk, false)
    return this.#give(
      Math.min(earliest(this.#threads, this.#data.length, 0), beginningOfRun(this.#data, this.#alphabet, this.#runBytesMax)),
    )
  }

  release(prefixBytesMax: number): Buffer {
    if (this.#held.length === 0) return NOTHING
    // Of a short secret a few letters would be most of it.
    const least = Math.min(prefixBytesMax, Math.floor(this.#cache.automaton.shortest / 3))
    const until = earliest(this.#threads, this.#held.length, least)
    if (until <= this.#sent) return NOTHING
    const out = this.#heldOut.subarray(this.#sent, until)
    // What a partial match began with is needed once more when the match ends.
    this.#sent = until
    const keep = earliest(this.#threads, this.#held.length, 0)
    if (keep > 0) this.#hold(Math.min(keep, until))
    return out
  }

  last(chunk: Uint8Array): Buffer {
    this.#look(chunk, true)
    this.#heldOut = this.#out
    return this.flush()
  }

  flush(): Buffer {
    const rest = this.#heldOut.subarray(this.#sent)
    this.#sent = 0
    this.#held = NOTHING
    this.#heldOut = NOTHING
    this.#data = NOTHING
    this.#out = NOTHING
    this.#threads.count = 0
    this.#coveredTo = 0
    return rest
  }

  /** @param isWhole the message ends with the chunk */
  #look(chunk: Uint8Array, isWhole: boolean): void {
    this.#data = this.#held.length === 0 ? asBuffer(chunk) : Buffer.concat([this.#held, chunk])
    this.#out = this.#heldOut === this.#held ? this.#data : Buffer.concat([this.#heldOut, chunk])
    this.#at = this.#held.length
    this.#search(isWhole)
  }

  #search(isWhole: boolean): void {
    while (this.#at < this.#data.length) {
      this.#trace()
      if (this.#at < this.#data.length) this.#scan(isWhole)
    }
  }

  #takeOver(after: Search): void {
    this.hits = after.hits
    this.#data = after.#held
    this.#out = Buffer.from(after.#heldOut)
    this.#sent = after.#sent
    this.#coveredTo = after.#coveredTo
    this.#search(false)
    this.#hold(0)
    after.flush()
  }

  /** What went not on yet of the bytes up to `ready`; the rest is kept. */
  #give(ready: number): Buffer {
    const out = ready === this.#out.length && this.#sent === 0 ? this.#out : this.#out.subarray(Math.min(this.#sent, ready), ready)
    this.#hold(ready)
    return out
  }

  /** Keeps what is not ready. Copies: the chunk is the caller's, who may write over it. */
  #hold(ready: number): void {
    const isChanged = this.#out !== this.#data
    this.#held = Buffer.from(this.#data.subarray(ready))
    this.#heldOut = isChanged ? Buffer.from(this.#out.subarray(ready)) : this.#held
    this.#data = this.#held
    this.#out = this.#heldOut
    const { starts, count } = this.#threads
    for (let i = 0; i < count; i++) starts[i] = (starts[i] as number) - ready
    this.#coveredTo -= ready
    this.#sent = Math.max(0, this.#sent - ready)
  }

  #trace(): void {
    while (this.#at < this.#data.length && this.#threads.count > 0 && this.#traceLeft > 0) {
      this.#traceLeft--
      this.#read()
      this.#replace()
    }
  }

  /** Reads the byte at `#at` in a trace. */
  #read(): void {
    step(this.#cache.automaton, this.#threads, this.#data[this.#at] as number, this.#at, this.#spare)
    ;[this.#threads, this.#spare] = [this.#spare, this.#threads]
    this.#at++
  }

  #scan(isWhole: boolean): void {
    const cache = this.#cache
    const { at, state } = cache.find(this.#data, this.#at, cache.stateOf(this.#threads), isWhole)
    this.#at = at
    this.#threads.count = 0
    if (state >= MATCH || (state !== ROOT && !isWhole)) this.#goBack(cache.depth(state))
    if (state >= MATCH) this.#replace()
  }

  /** Traces again what leads to `#at`, where a scan has come: all matches that ended before were found already. */
  #goBack(bytesMax: number): void {
    const to = this.#at
    this.#at = this.#cache.lastRoot(this.#data, Math.max(0, to - bytesMax), to)
    this.#traceLeft = to - this.#at
    while (this.#at < to) this.#read()
  }

  /** Writes the marks over the matches that ended with the byte just read. */
  #replace(): void {
    for (const { start, mark } of this.#threads.ended) {
      if (this.#out === this.#data) this.#out = Buffer.from(this.#data)
      if (start >= this.#coveredTo) this.hits++
      this.#coveredTo = this.#at
      if (mark === MARKS.base64) maskBase64(this.#data, this.#out, start, this.#at, mark)
      else this.#out.fill(mark, start, this.#at)
    }
    this.#threads.ended.length = 0
    this.#threads.endedDepth = 0
  }
}

const NOTHING: Buffer = Buffer.alloc(0)

/** The beginning of the earliest partial match that has more than so many bytes; without one the end of the data. */
function earliest(threads: Threads, end: number, bytesMax: number): number {
  let first = end
  for (let i = 0; i < threads.count; i++) {
    const start = threads.starts[i] as number
    if (end - start > bytesMax) first = Math.min(first, start)
  }
  return first
}

/**
 * Where the run of bytes at the end begins that a secret might be written with; it is held back whole. If only what begins a
 * match were, then the sizes of what goes on would tell whoever can have a text of his own echoed (a file, a comment) how far
 * it agrees with the secret, letter by letter, and no match would ever be counted. What is held back must not depend on the
 * secret: a run of its alphabet, with single line breaks in it.
 */
function beginningOfRun(data: Buffer, alphabet: Uint8Array, bytesMax: number): number {
  const floor = Math.max(0, data.length - bytesMax)
  let at = data.length
  while (at > floor) {
    let before = at - 1
    if (data[before] === LINE_FEED) before--
    if (data[before] === CARRIAGE_RETURN && (before < at - 1 || at === data.length)) before--
    if (before < floor || alphabet[data[before] as number] !== 1) break
    at = before
  }
  return at
}

/** All but the line breaks, which may be written as they are or as `\r` and `\n`. */
function maskBase64(data: Buffer, out: Buffer, start: number, end: number, mark: Mark): void {
  for (let i = start; i < end; i++) {
    let letter = i
    while (data[letter] === BACKSLASH) letter++
    if (letter > i ? data[letter] === SMALL_N || data[letter] === SMALL_R : data[i] === LINE_FEED || data[i] === CARRIAGE_RETURN) i = letter
    else out[i] = mark
  }
}

const [LINE_FEED, CARRIAGE_RETURN, BACKSLASH, SMALL_N, SMALL_R] = [0x0a, 0x0d, 0x5c, 0x6e, 0x72]

/** The same bytes, not a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

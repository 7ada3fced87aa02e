import { LIMITS } from '../../kernel/limits.ts'

const LINE_END = 0x0a

/**
 * What is kept of one stream, however long it is: its beginning and its end, with lines that repeat told once and long lines cut. Memory is
 * bounded by `bytesMax` and `LIMITS.commandLineBytesMax`.
 */
export class KeptOutput {
  readonly #kept: HeadAndTail
  /** Of the line that has not ended. */
  #line = Buffer.alloc(0)
  #lineCut = 0
  #last: { readonly text: Buffer; readonly cut: number } | undefined
  #times = 0
  #hasCutLine = false
  #bytes = 0

  constructor(bytesMax: number) {
    this.#kept = new HeadAndTail(bytesMax)
  }

  /** Bytes that were pushed. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether something is missing from `end()`. */
  get isTruncated(): boolean {
    return this.#hasCutLine || this.#kept.leftOut > 0
  }

  push(chunk: Buffer): void {
    this.#bytes += chunk.length
    let from = 0
    for (;;) {
      from = this.#skipRepeats(chunk, from)
      const at = chunk.indexOf(LINE_END, from)
      if (at < 0) break
      this.#extend(chunk, from, at)
      this.#endLine()
      from = at + 1
    }
    this.#extend(chunk, from, chunk.length)
  }

  /** All that is kept, as text. Nothing may be pushed any more. */
  end(): string {
    const isOpen = this.#line.length > 0
    if (isOpen) this.#endLine()
    this.#endRun()
    const text = this.#kept.text()
    return isOpen && text.endsWith('\n') ? text.slice(0, -1) : text
  }

  /** Behind the lines that are the last one again: a flood of one line costs little. */
  #skipRepeats(chunk: Buffer, from: number): number {
    const last = this.#last
    if (last === undefined || last.cut > 0 || this.#line.length > 0 || this.#lineCut > 0) return from
    const { length } = last.text
    let at = from
    while (chunk[at + length] === LINE_END && last.text.compare(chunk, at, at + length) === 0) {
      this.#times += 1
      at += length + 1
    }
    return at
  }

  #extend(chunk: Buffer, from: number, to: number): void {
    const room = LIMITS.commandLineBytesMax - this.#line.length
    if (this.#lineCut > 0 || to - from > room) {
      const end = this.#lineCut > 0 ? from : from + runeEnd(chunk.subarray(from, to), room)
      this.#line = Buffer.concat([this.#line, chunk.subarray(from, end)])
      this.#lineCut += to - end
    } else if (to > from)
      this.#line = this.#line.length === 0 ? Buffer.from(chunk.subarray(from, to)) : Buffer.concat([this.#line, chunk.subarray(from, to)])
  }

  #endLine(): void {
    const [text, cut] = [this.#line, this.#lineCut]
    this.#line = EMPTY
    this.#lineCut = 0
    if (this.#last !== undefined && this.#last.cut === cut && this.#last.text.equals(text)) {
      this.#times += 1
      return
    }
    this.#endRun()
    this.#last = { text, cut }
    this.#times = 1
    this.#append(text, cut)
  }

  #endRun(): void {
    if (this.#last !== undefined && this.#times === 2) this.#append(this.#last.text, this.#last.cut)
    if (this.#times >= 3) this.#kept.push(Buffer.from(`[the line above ${this.#times} times]\n`))
    this.#last = undefined
    this.#times = 0
  }

  #append(text: Buffer, cut: number): void {
    this.#hasCutLine ||= cut > 0
    this.#kept.push(text)
    this.#kept.push(cut > 0 ? Buffer.from(`[and ${cut} bytes of this line]\n`) : NEW_LINE)
  }
}

const EMPTY = Buffer.alloc(0)
const NEW_LINE = Buffer.from('\n')

/** The first quarter of what is allowed, and the last three. */
class HeadAndTail {
  readonly #headMax: number
  readonly #tailMax: number
  readonly #head: Buffer[] = []
  #headBytes = 0
  #isHeadFull = false
  /** A ring, made when the head is full. */
  #ring: Buffer | undefined
  #at = 0
  #tailBytes = 0

  constructor(bytesMax: number) {
    this.#headMax = Math.floor(bytesMax / 4)
    this.#tailMax = bytesMax - this.#headMax
  }

  get leftOut(): number {
    return Math.max(0, this.#tailBytes - this.#tailMax)
  }

  push(bytes: Buffer): void {
    let rest = bytes
    if (!this.#isHeadFull) {
      const room = this.#headMax - this.#headBytes
      const end = rest.length <= room ? rest.length : runeEnd(rest, room)
      this.#head.push(Buffer.from(rest.subarray(0, end)))
      this.#headBytes += end
      if (end === rest.length) return this.#join()
      this.#isHeadFull = true
      rest = rest.subarray(end)
    }
    this.#ring ??= Buffer.alloc(this.#tailMax)
    this.#tailBytes += rest.length
    if (rest.length > this.#tailMax) rest = rest.subarray(rest.length - this.#tailMax)
    const until = Math.min(rest.length, this.#tailMax - this.#at)
    rest.copy(this.#ring, this.#at, 0, until)
    rest.copy(this.#ring, 0, until)
    this.#at = (this.#at + rest.length) % this.#tailMax
  }

  text(): string {
    const head = Buffer.concat(this.#head).toString('utf8')
    if (this.#ring === undefined) return head
    const tail =
      this.#tailBytes <= this.#tailMax
        ? this.#ring.subarray(0, this.#tailBytes)
        : Buffer.concat([this.#ring.subarray(this.#at), this.#ring.subarray(0, this.#at)])
    if (this.leftOut === 0) return Buffer.concat([...this.#head, tail]).toString('utf8')
    const begin = runeBegin(tail)
    return `${head}\n[${this.leftOut + begin} bytes left out]\n${tail.subarray(begin).toString('utf8')}`
  }

  /** Many short pieces would cost more than what is in them. */
  #join(): void {
    if (this.#head.length > 1_000) this.#head.splice(0, this.#head.length, Buffer.concat(this.#head))
  }
}

/** The largest end of at most `max` bytes that does not cut a character of UTF-8. Of what is none it cuts anywhere. */
export function runeEnd(bytes: Buffer, max: number): number {
  if (max >= bytes.length) return bytes.length
  for (let end = max; end > Math.max(0, max - 4); end--) if (!isContinuation(bytes[end])) return end
  return max
}

function runeBegin(bytes: Buffer): number {
  for (let begin = 0; begin < Math.min(4, bytes.length); begin++) if (!isContinuation(bytes[begin])) return begin
  return 0
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80
}

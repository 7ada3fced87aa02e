import { FLAG, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, TYPE } from './protocol.ts'

/** Written in blocks of so many bytes, which are used up piece by piece: what was handed on is never written again. */
const BLOCK_BYTES = 32 * 1024

/** Frames that wait to be written, in one piece of memory. */
export class Output {
  #block: Buffer = EMPTY
  #start = 0
  #end = 0

  get length(): number {
    return this.#end - this.#start
  }

  /** All that was written since the last call. */
  take(): Buffer {
    const taken = this.#block.subarray(this.#start, this.#end)
    this.#start = this.#end
    return taken
  }

  /** Nothing is written for now: another connection may use up what is left of the block, of which there may be thousands. */
  rest(): void {
    if (this.length === 0 && this.#block.length - this.#end > spare.length) spare = this.#block.subarray(this.#end)
    if (this.length > 0) return
    this.#block = EMPTY
    this.#start = 0
    this.#end = 0
  }

  /** The nine bytes in front of a frame (RFC 9113 §4.1). */
  frame(length: number, type: number, flags: number, stream: number): void {
    this.reserve(FRAME_HEAD_BYTES + length)
    const block = this.#block
    let at = this.#end
    block[at++] = length >>> 16
    block[at++] = length >>> 8
    block[at++] = length
    block[at++] = type
    block[at++] = flags
    this.#end = at
    this.uint32(stream)
  }

  /** Begins a frame whose length is known at its `close`. Gives back where it begins. */
  open(type: number, stream: number): number {
    this.frame(0, type, 0, stream)
    return this.length - FRAME_HEAD_BYTES
  }

  /** Ends a HEADERS frame. What is longer than a frame may be goes on in CONTINUATION frames (RFC 9113 §6.10). */
  close(at: number, stream: number, flags: number): void {
    const bytesMax = FRAME_BYTES_MAX
    const length = this.length - at - FRAME_HEAD_BYTES
    if (length <= bytesMax) return this.#fix(at, length, flags | FLAG.endHeaders)
    const rest = Buffer.from(this.#block.subarray(this.#start + at + FRAME_HEAD_BYTES + bytesMax, this.#end))
    this.#end -= rest.length
    this.#fix(at, bytesMax, flags)
    for (let from = 0; from < rest.length; from += bytesMax) {
      const to = Math.min(rest.length, from + bytesMax)
      this.frame(to - from, TYPE.continuation, to === rest.length ? FLAG.endHeaders : 0, stream)
      this.bytes(rest, from, to)
    }
  }

  #fix(at: number, length: number, flags: number): void {
    const start = this.#start + at
    this.#block[start] = length >>> 16
    this.#block[start + 1] = length >>> 8
    this.#block[start + 2] = length
    this.#block[start + 4] = flags
  }

  byte(value: number): void {
    this.reserve(1)
    this.#block[this.#end++] = value
  }

  uint16(value: number): void {
    this.reserve(2)
    this.#block[this.#end++] = value >>> 8
    this.#block[this.#end++] = value
  }

  uint32(value: number): void {
    this.uint16(value >>> 16)
    this.uint16(value & 0xff_ff)
  }

  bytes(source: Buffer, from: number, to: number): void {
    this.reserve(to - from)
    source.copy(this.#block, this.#end, from, to)
    this.#end += to - from
  }

  text(value: string): void {
    this.reserve(value.length)
    // For a short one the call costs more than the loop.
    if (value.length > 24) {
      this.#end += this.#block.write(value, this.#end, 'latin1')
      return
    }
    for (let i = 0; i < value.length; i++) this.#block[this.#end++] = value.charCodeAt(i)
  }

  reserve(bytes: number): void {
    if (this.#block.length - this.#end >= bytes) return
    const waiting = this.length
    if (waiting === 0 && spare.length >= bytes) {
      this.#block = spare
      spare = EMPTY
      this.#start = 0
      this.#end = 0
      return
    }
    const block = Buffer.allocUnsafeSlow(Math.max(BLOCK_BYTES, 2 * (waiting + bytes)))
    this.#block.copy(block, 0, this.#start, this.#end)
    this.#block = block
    this.#start = 0
    this.#end = waiting
  }
}

const EMPTY = Buffer.alloc(0)

/** What is left of a block that its last user does not need. */
let spare: Buffer = EMPTY

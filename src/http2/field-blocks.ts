import { withoutPadding } from './frame-reader.ts'
import { CODE, ConnectionError, FLAG } from './protocol.ts'

/** A field block may come in so many frames, and have so many bytes as it is compressed (CVE-2024-27316). */
const FRAMES_MAX = 16
const BYTES_MAX = 64 * 1024
const PRIORITY_BYTES = 5

/** Puts field blocks together from HEADERS and CONTINUATION frames (RFC 9113 §4.3). */
export class FieldBlocks {
  /** Whose block is under way; 0 when none is. */
  stream = 0
  /** Of the last HEADERS frame. */
  flags = 0
  #parts: Buffer[] = []
  #bytes = 0

  /** A HEADERS frame: gives back the block when it is whole. @throws ConnectionError */
  begin(flags: number, stream: number, payload: Buffer): Buffer | undefined {
    if (stream === 0) throw new ConnectionError(CODE.PROTOCOL_ERROR, 'a head of no stream')
    let block = (flags & FLAG.padded) === 0 ? payload : withoutPadding(payload)
    if ((flags & FLAG.priority) !== 0) {
      if (block.length < PRIORITY_BYTES) throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'a head without its priority')
      block = block.subarray(PRIORITY_BYTES)
    }
    this.flags = flags
    if ((flags & FLAG.endHeaders) !== 0) return block
    this.stream = stream
    // What waits must not hold all that was read with it.
    this.#parts = [Buffer.from(block)]
    this.#bytes = block.length
    return undefined
  }

  /** A CONTINUATION frame of it. @throws ConnectionError also when there is no end of it */
  goOn(flags: number, payload: Buffer): Buffer | undefined {
    if (this.stream === 0) throw new ConnectionError(CODE.PROTOCOL_ERROR, 'a CONTINUATION of nothing')
    this.#parts.push(Buffer.from(payload))
    this.#bytes += payload.length
    if (this.#parts.length > FRAMES_MAX || this.#bytes > BYTES_MAX) throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'a head without end')
    if ((flags & FLAG.endHeaders) === 0) return undefined
    const block = Buffer.concat(this.#parts)
    this.stream = 0
    this.#parts = []
    return block
  }
}

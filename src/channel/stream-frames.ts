import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { FRAME, type FrameType } from '../wire/stream-frames.ts'

export type StreamFrame = { readonly type: FrameType; readonly payload: Buffer }

const HEAD_BYTES = 5
const TYPES = new Set<number>(Object.values(FRAME))

/** The bytes of a frame, or of as many as the payload needs. */
export function encodeFrames(type: FrameType, payload: Uint8Array): Buffer {
  const count = Math.max(1, Math.ceil(payload.length / LIMITS.streamFrameBytesMax))
  const bytes = Buffer.allocUnsafe(payload.length + count * HEAD_BYTES)
  let to = 0
  for (let i = 0; i < count; i++) {
    const piece = payload.subarray(i * LIMITS.streamFrameBytesMax, (i + 1) * LIMITS.streamFrameBytesMax)
    bytes[to] = type
    bytes.writeUInt32BE(piece.length, to + 1)
    bytes.set(piece, to + HEAD_BYTES)
    to += HEAD_BYTES + piece.length
  }
  return bytes
}

/** A frame with a JSON value. It has to fit into one. */
export function encodeJsonFrame(type: FrameType, value: unknown): Buffer {
  const payload = Buffer.from(JSON.stringify(value))
  if (payload.length > LIMITS.streamFrameBytesMax) {
    throw new SallyportError('usage', `the request has ${payload.length} bytes`, { hint: `at most ${LIMITS.streamFrameBytesMax} fit` })
  }
  return encodeFrames(type, payload)
}

/** Reads frames out of a stream of bytes. Holds one frame at most. */
export class FrameDecoder {
  #held: Buffer[] = []
  #heldBytes = 0
  #wanted = HEAD_BYTES

  /**
   * The frames that are whole by now. A payload may be a part of the chunk.
   * @throws stream_lost for a type that there is none of, or a payload that is too long: nothing that follows can be read
   */
  push(chunk: Uint8Array): StreamFrame[] {
    this.#heldBytes += chunk.length
    if (this.#heldBytes < this.#wanted) {
      // A copy: the chunk is the caller's.
      this.#held.push(Buffer.from(chunk))
      return []
    }
    let data = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    if (this.#held.length > 0) data = Buffer.concat([...this.#held, data])
    const frames: StreamFrame[] = []
    for (;;) {
      this.#wanted = HEAD_BYTES
      if (data.length < HEAD_BYTES) break
      const type = typeOf(data[0] as number)
      const length = data.readUInt32BE(1)
      if (length > LIMITS.streamFrameBytesMax) throw new SallyportError('stream_lost', `a frame of ${length} bytes arrived`)
      this.#wanted = HEAD_BYTES + length
      if (data.length < this.#wanted) break
      frames.push({ type, payload: data.subarray(HEAD_BYTES, this.#wanted) })
      data = data.subarray(this.#wanted)
    }
    this.#held = data.length === 0 ? [] : [Buffer.from(data)]
    this.#heldBytes = data.length
    return frames
  }

  /** Whether the stream may end here: not within a frame. */
  get isBetweenFrames(): boolean {
    return this.#heldBytes === 0
  }
}

function typeOf(byte: number): FrameType {
  if (!TYPES.has(byte)) throw new SallyportError('stream_lost', `a frame of type ${byte} arrived`)
  return byte as FrameType
}

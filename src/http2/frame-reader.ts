import { CODE, ConnectionError, FLAG, FRAME_BYTES_MAX, FRAME_HEAD_BYTES, PREFACE, TYPE } from './protocol.ts'

export type FrameSink = {
  /** True when nothing more is to be read. */
  readonly isOver: boolean
  /** A whole frame other than DATA. */
  onFrame(type: number, flags: number, stream: number, payload: Buffer): void
  /**
   * A piece of the body in a DATA frame, as it came: the flags stand with its last one, else 0. `bytes` are those of the frame that
   * were read with it, padding included.
   */
  onData(stream: number, flags: number, piece: Buffer, bytes: number, isLast: boolean): void
}

type Mode = 'preface' | 'head' | 'data' | 'payload'

const EMPTY = Buffer.alloc(0)

/** Takes frames out of bytes (RFC 9113 §4.1). A chunk that was read holds what is given on of it. */
export class FrameReader {
  readonly #sink: FrameSink
  readonly #head = Buffer.alloc(FRAME_HEAD_BYTES)
  #mode: Mode
  /** Bytes of the preface, the head or the payload that are there. */
  #have = 0
  #payload: Buffer = EMPTY
  #length = 0
  #type = 0
  #flags = 0
  #stream = 0

  constructor(sink: FrameSink, hasPreface: boolean) {
    this.#sink = sink
    this.#mode = hasPreface ? 'preface' : 'head'
  }

  /** @throws ConnectionError for what is no frame, and what the sink throws */
  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length && !this.#sink.isOver) {
      if (this.#mode === 'head') at = this.#readHead(chunk, at)
      else if (this.#mode === 'data') at = this.#readData(chunk, at)
      else if (this.#mode === 'payload') at = this.#readPayload(chunk, at)
      else at = this.#readPreface(chunk, at)
    }
  }

  #readPreface(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + PREFACE.length - this.#have)
    if (chunk.latin1Slice(at, end) !== PREFACE.slice(this.#have, this.#have + end - at)) {
      throw new ConnectionError(CODE.PROTOCOL_ERROR, 'the connection does not begin as one of HTTP/2')
    }
    this.#have += end - at
    if (this.#have === PREFACE.length) this.#next()
    return end
  }

  #readHead(chunk: Buffer, at: number): number {
    let head = chunk
    let start = at
    let end = at + FRAME_HEAD_BYTES
    if (this.#have > 0 || chunk.length < end) {
      end = Math.min(chunk.length, at + FRAME_HEAD_BYTES - this.#have)
      this.#have += chunk.copy(this.#head, this.#have, at, end)
      if (this.#have < FRAME_HEAD_BYTES) return end
      head = this.#head
      start = 0
    }
    this.#have = 0
    this.#length = head.readUIntBE(start, 3)
    this.#type = head[start + 3] as number
    this.#flags = head[start + 4] as number
    this.#stream = head.readUInt32BE(start + 5) & 0x7f_ff_ff_ff
    if (this.#length > FRAME_BYTES_MAX) throw new ConnectionError(CODE.FRAME_SIZE_ERROR, `a frame of ${this.#length} bytes`)
    this.#mode = this.#type === TYPE.data && (this.#flags & FLAG.padded) === 0 ? 'data' : 'payload'
    if (this.#length === 0) this.#finish(EMPTY)
    return end
  }

  #readData(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#length)
    const piece = at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end)
    this.#length -= end - at
    if (this.#length === 0) this.#finish(piece)
    else this.#sink.onData(this.#stream, 0, piece, piece.length, false)
    return end
  }

  #readPayload(chunk: Buffer, at: number): number {
    if (this.#have === 0 && chunk.length - at >= this.#length) {
      const end = at + this.#length
      this.#finish(chunk.subarray(at, end))
      return end
    }
    if (this.#have === 0) this.#payload = Buffer.allocUnsafe(this.#length)
    const end = Math.min(chunk.length, at + this.#length - this.#have)
    this.#have += chunk.copy(this.#payload, this.#have, at, end)
    if (this.#have === this.#length) this.#finish(this.#payload)
    return end
  }

  /** All of a frame is there. */
  #finish(payload: Buffer): void {
    const isData = this.#mode === 'data'
    this.#next()
    if (isData) this.#sink.onData(this.#stream, this.#flags, payload, payload.length, true)
    else if (this.#type === TYPE.data) this.#sink.onData(this.#stream, this.#flags, withoutPadding(payload), payload.length, true)
    else this.#sink.onFrame(this.#type, this.#flags, this.#stream, payload)
  }

  #next(): void {
    this.#mode = 'head'
    this.#have = 0
    this.#payload = EMPTY
  }
}

/** RFC 9113 §6.1. @throws ConnectionError when there is more padding than frame */
export function withoutPadding(payload: Buffer): Buffer {
  const padding = payload[0]
  if (padding === undefined || padding >= payload.length) throw new ConnectionError(CODE.PROTOCOL_ERROR, 'a frame is all padding')
  return payload.subarray(1, payload.length - padding)
}

import { encodeEmptyTable, encodeField, encodeIndexed, LITERAL } from './hpack-encoder.ts'
import { Output } from './output.ts'
import { CODE, FLAG, PREFACE, SETTING, TYPE, WINDOW_BYTES_DEFAULT } from './protocol.ts'
import type { Http2Stream } from './stream.ts'

/** The head of a request as it is written. Names are lower case, and no field is one of a hop. */
export type RequestBlock = {
  readonly method: string
  readonly authority: string
  readonly path: string
  readonly headers: readonly string[]
  /** False for a field that no hop may keep in a table (RFC 7541 §7.1.3). */
  readonly isPlain: (name: string) => boolean
}

/** The size of the peer's table when it says nothing. */
const TABLE_BYTES_DEFAULT = 4096

/** Writes the frames of one connection, one behind the other. */
export class FrameWriter {
  readonly #out = new Output()
  readonly #isServer: boolean
  #isTableLimited = false
  #isTableEmpty = false

  constructor(isServer: boolean) {
    this.#isServer = isServer
  }

  /** Bytes that wait. */
  get length(): number {
    return this.#out.length
  }

  take(): Buffer {
    return this.#out.take()
  }

  /** Nothing is written for now. */
  rest(): void {
    this.#out.rest()
  }

  /** What a connection begins with. */
  open(offer: {
    readonly streamsMax: number
    readonly streamWindowBytes: number
    readonly windowBytes: number
    readonly headers: { readonly bytesMax: number }
  }): void {
    const out = this.#out
    if (!this.#isServer) out.text(PREFACE)
    out.frame(18, TYPE.settings, 0, 0)
    out.uint16(this.#isServer ? SETTING.maxConcurrentStreams : SETTING.enablePush)
    out.uint32(this.#isServer ? offer.streamsMax : 0)
    out.uint16(SETTING.initialWindowSize)
    out.uint32(offer.streamWindowBytes)
    out.uint16(SETTING.maxHeaderListSize)
    out.uint32(offer.headers.bytesMax)
    if (offer.windowBytes > WINDOW_BYTES_DEFAULT) this.windowUpdate(0, offer.windowBytes - WINDOW_BYTES_DEFAULT)
  }

  /** The head of a request. `:path` and fields of which nothing says otherwise may have a secret in them. */
  request(stream: number, flags: number, head: RequestBlock): void {
    const { method, authority, path, headers, isPlain } = head
    const out = this.#out
    const at = this.#begin(stream)
    encodeIndexed(out, ':method', method)
    encodeIndexed(out, ':scheme', 'https')
    encodeField(out, ':authority', authority, LITERAL.plain)
    encodeField(out, ':path', path, LITERAL.neverIndexed)
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] as string
      encodeField(out, name, headers[i + 1] as string, isPlain(name) ? LITERAL.plain : LITERAL.neverIndexed)
    }
    out.close(at, stream, flags)
  }

  /** The head of an answer, or of an interim one. */
  response(stream: number, flags: number, status: number, headers: readonly string[]): void {
    const at = this.#begin(stream)
    encodeIndexed(this.#out, ':status', String(status))
    this.#fields(headers, LITERAL.plain)
    this.#out.close(at, stream, flags)
  }

  /** The fields behind a body, its end. Those of a request may have a secret in them. */
  trailers(stream: number, headers: readonly string[]): void {
    const at = this.#begin(stream)
    this.#fields(headers, this.#isServer ? LITERAL.plain : LITERAL.neverIndexed)
    this.#out.close(at, stream, FLAG.endStream)
  }

  #begin(stream: number): number {
    const at = this.#out.open(TYPE.headers, stream)
    if (this.#isTableLimited && !this.#isTableEmpty) {
      this.#isTableEmpty = true
      encodeEmptyTable(this.#out)
    }
    return at
  }

  #fields(headers: readonly string[], kind: number): void {
    for (let i = 0; i < headers.length; i += 2) encodeField(this.#out, headers[i] as string, headers[i + 1] as string, kind)
  }

  /** So many of the bytes that a stream has in its queue. */
  data(stream: Http2Stream, bytes: number, flags: number): void {
    this.#out.frame(bytes, TYPE.data, flags, stream.id)
    const { queue } = stream
    for (let left = bytes; left > 0;) {
      const chunk = queue[0] as Buffer
      const end = Math.min(chunk.length, stream.queueOffset + left)
      this.#out.bytes(chunk, stream.queueOffset, end)
      left -= end - stream.queueOffset
      stream.queueOffset = end
      if (end < chunk.length) break
      queue.shift()
      stream.queueOffset = 0
    }
  }

  reset(stream: number, code: number): void {
    this.#out.frame(4, TYPE.reset, 0, stream)
    this.#out.uint32(code)
  }

  settingsAck(): void {
    this.#out.frame(0, TYPE.settings, FLAG.ack, 0)
  }

  pong(payload: Buffer): void {
    this.#out.frame(8, TYPE.ping, FLAG.ack, 0)
    this.#out.bytes(payload, 0, 8)
  }

  windowUpdate(stream: number, bytes: number): void {
    this.#out.frame(4, TYPE.windowUpdate, 0, stream)
    this.#out.uint32(bytes)
  }

  goaway(lastStream: number, code: number = CODE.NO_ERROR): void {
    this.#out.frame(8, TYPE.goaway, 0, 0)
    this.#out.uint32(lastStream)
    this.#out.uint32(code)
  }

  /** RFC 7541 §4.2: a peer that allows less than we might use wants to be told that we do. */
  limitTable(bytes: number): void {
    if (bytes < TABLE_BYTES_DEFAULT) this.#isTableLimited = true
  }
}

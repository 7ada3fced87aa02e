import { readRequest } from './fields.ts'
import { FieldBlocks } from './field-blocks.ts'
import { FrameReader, type FrameSink } from './frame-reader.ts'
import { HpackDecoder } from './hpack-decoder.ts'
import {
  checkLength,
  CODE,
  ConnectionError,
  FLAG,
  invalid,
  STREAM_ID_MAX,
  TYPE,
  WINDOW_BYTES_DEFAULT,
  WINDOW_BYTES_MAX,
  type Break,
} from './protocol.ts'
import type { FrameWriter, RequestBlock } from './frame-writer.ts'
import type { ConnectionEvents, ConnectionOptions } from './options.ts'
import { ReceiveWindow } from './receive-window.ts'
import { readSettings } from './settings.ts'
import { Sender, type SenderEvents } from './sender.ts'
import { Http2Stream, type StreamConnection, type StreamOwner } from './stream.ts'
import { NO_HEAD, NO_UPDATE, takeAnswer, takeData, takeTrailers, TOO_WIDE, type Fault } from './stream-rules.ts'
import { TokenBucket } from './token-bucket.ts'

/** Interim answers that wait. */
const INTERIM_BYTES_MAX = 64 * 1024

/**
 * One HTTP/2 connection (RFC 9113), of either side, without a socket: bytes come in by `receive` and go out by `events.send`, all of a
 * turn in one piece at its end. It is strict: what nghttp2 refuses is refused.
 */
export class Http2Connection implements FrameSink, StreamConnection, SenderEvents {
  isOver = false
  readonly #options: ConnectionOptions
  readonly #events: ConnectionEvents
  readonly #isServer: boolean
  readonly #reader: FrameReader
  readonly #decoder: HpackDecoder
  readonly #sender: Sender
  readonly #writer: FrameWriter
  readonly #noise: TokenBucket
  readonly #streams = new Map<number, Http2Stream>()
  readonly #blocks = new FieldBlocks()
  /** Ids: the highest that the peer has opened, the highest that was served, the next one of ours. */
  #lastSeen = 0
  #lastServed = 0
  #nextId = 1
  #peerStreamsMax = Infinity
  #peerStreamWindow = WINDOW_BYTES_DEFAULT
  readonly #receiveWindow: ReceiveWindow
  #isSettled = false
  #isAcknowledged = false
  #isClosing = false
  #isPeerClosing = false

  constructor(options: ConnectionOptions, events: ConnectionEvents) {
    this.#options = options
    this.#events = events
    this.#isServer = options.role === 'server'
    this.#reader = new FrameReader(this, this.#isServer)
    this.#decoder = new HpackDecoder(options.headers)
    this.#noise = new TokenBucket(options.noiseBurstMax, options.noisePerSecondMax)
    this.#receiveWindow = new ReceiveWindow(options.windowBytes)
    this.#sender = new Sender(this.#isServer, this)
    this.#writer = this.#sender.writer
    this.#writer.open(options)
    this.#sender.schedule()
  }

  /** Streams that run. */
  get load(): number {
    return this.#streams.size
  }

  /** The peer has sent its SETTINGS. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Streams that the peer takes from a client, 0 when there will be none. */
  get streamsMax(): number {
    return this.isOver || this.#isClosing || this.#isPeerClosing || this.#nextId > STREAM_ID_MAX ? 0 : this.#peerStreamsMax
  }

  receive(chunk: Buffer): void {
    if (this.isOver) return
    try {
      this.#reader.push(chunk)
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error
      this.#fail(error)
    }
  }

  /** The transport takes more. */
  drained(): void {
    this.#sender.drained()
  }

  /** The transport is gone. */
  lost(cause?: Error): void {
    this.#finish({ kind: 'lost', code: CODE.CANCEL, cause })
  }

  /** No new streams; ends when none runs any more. */
  close(): void {
    if (this.isOver || this.#isClosing) return
    this.#isClosing = true
    this.#writer.goaway(this.#lastServed, CODE.NO_ERROR)
    this.#sender.schedule()
  }

  /** A request of a client; nothing follows when `isEnd`. */
  open(owner: StreamOwner, head: RequestBlock, isEnd: boolean): Http2Stream {
    const stream = new Http2Stream(this.#nextId, this, owner, this.#peerStreamWindow, this.#options.streamWindowBytes)
    this.#nextId += 2
    this.#writer.request(stream.id, isEnd ? FLAG.endStream : 0, head)
    this.#streams.set(stream.id, stream)
    stream.isEnding = isEnd
    stream.isSent = isEnd
    stream.hasNoBody = head.method === 'HEAD'
    this.#sender.schedule()
    return stream
  }

  // ------------------------------------------------------------------------------------------------- of the reader

  onFrame(type: number, flags: number, id: number, payload: Buffer): void {
    if (this.#blocks.stream !== 0 && (type !== TYPE.continuation || id !== this.#blocks.stream)) throw invalid('a head within a head')
    if (!this.#isSettled && (type !== TYPE.settings || (flags & FLAG.ack) !== 0)) throw invalid('frames before SETTINGS')
    switch (type) {
      case TYPE.headers:
      case TYPE.continuation: {
        const block = type === TYPE.headers ? this.#blocks.begin(flags, id, payload) : this.#blocks.goOn(flags, payload)
        return block && this.#onBlock(id, (this.#blocks.flags & FLAG.endStream) !== 0, block)
      }
      case TYPE.reset:
        return this.#onReset(id, payload)
      case TYPE.settings:
        return this.#onSettings(flags, id, payload)
      case TYPE.pushPromise:
        // RFC 9113 §8.4: switched off, and no client may.
        throw invalid('a push')
      case TYPE.ping:
        if (id !== 0) throw invalid('a PING of a stream')
        checkLength(payload, 8)
        if ((flags & FLAG.ack) === 0) this.#answer(() => this.#writer.pong(payload))
        return
      case TYPE.goaway:
        return this.#onGoaway(id, payload)
      case TYPE.windowUpdate:
        return this.#onWindowUpdate(id, payload)
      default:
      // PRIORITY says nothing any more (RFC 9113 §5.3.2), and of others nothing is known (§5.5).
    }
  }

  onData(id: number, flags: number, piece: Buffer, bytes: number, isLast: boolean): void {
    if (this.#blocks.stream !== 0) throw invalid('a body within a head')
    if (!this.#isSettled) throw invalid('frames before SETTINGS')
    const more = this.#receiveWindow.take(bytes)
    if (more > 0) this.#answer(() => this.#writer.windowUpdate(0, more))
    const stream = this.#streams.get(id)
    if (!stream) return this.#checkKnown(id)
    if (stream.isWhole) throw new ConnectionError(CODE.STREAM_CLOSED, 'a body behind its end')
    const isEnd = isLast && (flags & FLAG.endStream) !== 0
    if (bytes === 0 && !isEnd) this.#count('empty frames without end')
    const fault = this.#isServer || stream.hasHead ? takeData(stream, piece, bytes, isEnd) : NO_HEAD
    if (fault) return this.#fault(stream, fault)
    // Padding is taken at once.
    if (bytes > piece.length) this.credit(stream, bytes - piece.length)
    if (piece.length > 0) stream.arrive(piece)
    if (isEnd) this.#arriveEnd(stream, [])
  }

  // ------------------------------------------------------------------------------------------------- of the streams

  ready(stream: Http2Stream): void {
    this.#sender.ready(stream)
  }

  interim(stream: Http2Stream, status: number, headers: readonly string[]): void {
    // It may be left out; one that does not read them would fill the memory.
    if (this.#writer.length > INTERIM_BYTES_MAX) return
    this.#writer.response(stream.id, 0, status, headers)
    this.#sender.schedule()
  }

  reset(stream: Http2Stream, code: number): void {
    stream.isGone = true
    this.#writer.reset(stream.id, code)
    this.#remove(stream)
  }

  credit(stream: Http2Stream, bytes: number): void {
    stream.credited += bytes
    if (stream.isWhole || stream.credited < this.#options.streamWindowBytes / 2) return
    this.#writer.windowUpdate(stream.id, stream.credited)
    stream.receiveWindow += stream.credited
    stream.credited = 0
    this.#sender.schedule()
  }

  // ------------------------------------------------------------------------------------------------- what came

  #onBlock(id: number, isEnd: boolean, block: Buffer): void {
    // Also of a stream that nobody cares about: the table goes on.
    this.#decoder.decode(block)
    const stream = this.#streams.get(id)
    if (stream) return this.#onStreamBlock(stream, isEnd)
    if (!this.#isServer) return this.#checkKnown(id)
    if (id % 2 === 0) throw invalid('a stream that is not the client’s to open')
    if (id <= this.#lastSeen) return
    this.#lastSeen = id
    // RFC 9113 §6.8: it knows that these are not looked at.
    if (this.#isClosing) return
    this.#onRequest(id, isEnd)
  }

  #onRequest(id: number, isEnd: boolean): void {
    if (this.#streams.size >= this.#options.streamsMax) {
      if (this.#isAcknowledged) throw invalid('more streams than were agreed')
      return this.#refuse(id, CODE.REFUSED_STREAM)
    }
    const { fields, isTooLarge, isMalformed } = this.#decoder
    if (isTooLarge) return this.#refuse(id, CODE.ENHANCE_YOUR_CALM)
    const head = isMalformed ? undefined : readRequest(fields)
    if (!head || (isEnd && head.length > 0)) return this.#refuse(id, CODE.PROTOCOL_ERROR)
    this.#lastServed = id
    const stream = new Http2Stream(id, this, undefined, this.#peerStreamWindow, this.#options.streamWindowBytes)
    stream.length = head.length
    this.#streams.set(id, stream)
    stream.owner = this.#events.onRequest(stream, head, isEnd)
    if (isEnd) stream.arriveEnd([])
  }

  #onStreamBlock(stream: Http2Stream, isEnd: boolean): void {
    if (stream.isWhole) throw new ConnectionError(CODE.STREAM_CLOSED, 'a head behind the end')
    const areTrailers = this.#isServer || stream.hasHead
    const fault = areTrailers ? takeTrailers(stream, this.#decoder, isEnd) : takeAnswer(stream, this.#decoder, isEnd)
    if (fault) this.#fault(stream, fault)
    else if (isEnd) this.#arriveEnd(stream, areTrailers ? this.#decoder.fields : [])
  }

  #arriveEnd(stream: Http2Stream, trailers: string[]): void {
    if (stream.isGone) return
    stream.arriveEnd(trailers)
    if (stream.isSent) this.#closeStream(stream)
  }

  #onReset(id: number, payload: Buffer): void {
    if (id === 0) throw invalid('a reset of no stream')
    checkLength(payload, 4)
    if (this.#isServer) this.#count('resets')
    const stream = this.#streams.get(id)
    if (!stream) return this.#checkKnown(id)
    const code = payload.readUInt32BE(0)
    this.#remove(stream)
    stream.break({ kind: code === CODE.REFUSED_STREAM ? 'refused' : 'reset', code })
  }

  #onSettings(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw invalid('SETTINGS of a stream')
    if ((flags & FLAG.ack) !== 0) {
      checkLength(payload, 0)
      this.#isAcknowledged = true
      return
    }
    this.#count('SETTINGS')
    const { headerTableSize, maxConcurrentStreams, initialWindowSize } = readSettings(payload, this.#isServer)
    if (headerTableSize !== undefined) this.#writer.limitTable(headerTableSize)
    if (maxConcurrentStreams !== undefined) this.#peerStreamsMax = maxConcurrentStreams
    if (initialWindowSize !== undefined) {
      const more = initialWindowSize - this.#peerStreamWindow
      this.#peerStreamWindow = initialWindowSize
      for (const stream of this.#streams.values()) this.#widen(stream, more)
    }
    this.#isSettled = true
    this.#answer(() => this.#writer.settingsAck())
    this.#events.onSettings()
  }

  #onGoaway(id: number, payload: Buffer): void {
    if (id !== 0) throw invalid('GOAWAY of a stream')
    if (payload.length < 8) throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'GOAWAY without its words')
    const last = payload.readUInt32BE(0) & STREAM_ID_MAX
    const code = payload.readUInt32BE(4)
    this.#isPeerClosing = true
    if (this.#isServer) return
    for (const stream of this.#streams.values()) {
      if (stream.id <= last) continue
      this.#remove(stream)
      stream.break({ kind: 'refused', code: CODE.REFUSED_STREAM })
    }
    this.#events.onGoaway()
    if (code !== CODE.NO_ERROR) this.#finish({ kind: 'reset', code })
  }

  #onWindowUpdate(id: number, payload: Buffer): void {
    checkLength(payload, 4)
    const more = payload.readUInt32BE(0) & WINDOW_BYTES_MAX
    if (id === 0) {
      if (more === 0) throw invalid('a window update of nothing')
      if (this.#sender.widen(more)) for (const stream of this.#streams.values()) if (stream.queuedBytes > 0) this.ready(stream)
      return
    }
    const stream = this.#streams.get(id)
    if (!stream) return this.#checkKnown(id)
    if (more === 0) return this.#fault(stream, NO_UPDATE)
    this.#widen(stream, more)
  }

  #widen(stream: Http2Stream, more: number): void {
    stream.sendWindow += more
    if (stream.sendWindow > WINDOW_BYTES_MAX) return this.#fault(stream, TOO_WIDE)
    if (stream.queuedBytes > 0 && stream.sendWindow > 0) this.ready(stream)
  }

  // ------------------------------------------------------------------------------------------------- of the sender

  send(bytes: Buffer): boolean {
    return this.#events.send(bytes)
  }

  onSent(stream: Http2Stream): void {
    stream.isSent = true
    if (stream.isWhole) this.#closeStream(stream)
    else stream.owner.onSent()
  }

  onIdle(): void {
    if (this.#isClosing && this.#streams.size === 0) this.#finish({ kind: 'lost', code: CODE.NO_ERROR })
  }

  // ------------------------------------------------------------------------------------------------- ends

  /** A frame of a stream that is over is late; one of a stream that never was is an error (RFC 9113 §5.1). */
  #checkKnown(id: number): void {
    const isOwn = id % 2 === (this.#isServer ? 0 : 1)
    const isIdle = id === 0 || (this.#isServer ? isOwn || id > this.#lastSeen : !isOwn || id >= this.#nextId)
    if (isIdle) throw invalid('a frame of a stream that never was')
  }

  /** What costs more than it says. */
  #count(what: string): void {
    if (!this.#noise.take()) throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, `too many ${what}`)
  }

  #refuse(id: number, code: number): void {
    this.#count('streams that cannot be')
    this.#answer(() => this.#writer.reset(id, code))
  }

  /** The peer broke the protocol on a stream. One that makes us reset streams costs as much as one that resets them. */
  #fault(stream: Http2Stream, { code, why }: Fault): void {
    this.#count('faults')
    this.#answer(() => this.#writer.reset(stream.id, code))
    this.#remove(stream)
    stream.break({ kind: 'invalid', code, cause: new Error(why) })
  }

  #fail(error: ConnectionError): void {
    this.#writer.goaway(this.#lastServed, error.code)
    this.#finish({ kind: 'invalid', code: error.code, cause: error }, error)
  }

  #finish(why: Break, error?: ConnectionError): void {
    if (this.isOver) return
    this.isOver = true
    const streams = [...this.#streams.values()]
    this.#streams.clear()
    this.#sender.stop()
    for (const stream of streams) stream.break(why)
    this.#events.onEnd(error)
  }

  #closeStream(stream: Http2Stream): void {
    this.#remove(stream)
    stream.close()
  }

  #remove(stream: Http2Stream): void {
    stream.isGone = true
    this.#streams.delete(stream.id)
    this.#sender.schedule()
    this.#events.onRoom()
  }

  /** Writes what the peer makes us say. */
  #answer(write: () => void): void {
    const before = this.#writer.length
    write()
    this.#sender.answered(this.#writer.length - before)
  }
}

import { FrameWriter } from './frame-writer.ts'
import { CODE, ConnectionError, FLAG, FRAME_BYTES_MAX, WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX } from './protocol.ts'
import type { Http2Stream } from './stream.ts'

export type SenderEvents = {
  /** Bytes for the peer. False when it takes no more for now. */
  send(bytes: Buffer): boolean
  /** END_STREAM went out on a stream. */
  onSent(stream: Http2Stream): void
  /** All that there was to send has gone to the transport. */
  onIdle(): void
}

/** Answers to PING, SETTINGS and the like that a peer does not take. */
const CONTROL_BYTES_MAX = 1024 * 1024
/** So much is written at once. */
const BATCH_BYTES = 64 * 1024

/** Sends what the streams of a connection have to say, each in its turn, within the peer's windows: all of a turn in one piece. */
export class Sender {
  readonly writer: FrameWriter
  readonly #events: SenderEvents
  #ready: Http2Stream[] = []
  #window = WINDOW_BYTES_DEFAULT
  #controlBytes = 0
  #isScheduled = false
  #isBlocked = false
  #isOver = false

  constructor(isServer: boolean, events: SenderEvents) {
    this.writer = new FrameWriter(isServer)
    this.#events = events
  }

  /** There is something to send on this stream. */
  ready(stream: Http2Stream): void {
    if (stream.isReady || stream.isGone) return
    stream.isReady = true
    this.#ready.push(stream)
    this.schedule()
  }

  /** What was written goes out at the end of this turn. */
  schedule(): void {
    if (this.#isScheduled || this.#isOver) return
    this.#isScheduled = true
    setImmediate(this.#flush)
  }

  /** The transport takes more. */
  drained(): void {
    this.#isBlocked = false
    this.#controlBytes = 0
    this.schedule()
  }

  /**
   * So many bytes were written because the peer made us say them.
   * @throws ConnectionError when it does not listen: they would fill the memory
   */
  answered(bytes: number): void {
    this.#controlBytes += bytes
    if (this.#isBlocked && this.#controlBytes > CONTROL_BYTES_MAX) {
      throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'answers that nobody takes')
    }
    this.schedule()
  }

  /** The peer's window for the whole connection grows. True when streams that waited for it may go on. @throws ConnectionError */
  widen(more: number): boolean {
    const wasEmpty = this.#window <= 0
    this.#window += more
    if (this.#window > WINDOW_BYTES_MAX) throw new ConnectionError(CODE.FLOW_CONTROL_ERROR, 'a window that cannot be')
    return wasEmpty
  }

  /** Nothing is sent any more but what is written already, at once. */
  stop(): void {
    this.#isOver = true
    this.#ready = []
    if (this.writer.length > 0) this.#events.send(this.writer.take())
  }

  readonly #flush = (): void => {
    while (!this.#isOver && !this.#isBlocked && (this.#ready.length > 0 || this.writer.length > 0)) {
      this.#fill()
      if (this.writer.length > 0) this.#isBlocked = !this.#events.send(this.writer.take())
    }
    this.#isScheduled = false
    if (this.#isOver) return
    if (!this.#isBlocked) this.#controlBytes = 0
    for (const stream of this.#ready) tellHeld(stream)
    if (this.writer.length > 0) return
    this.writer.rest()
    this.#events.onIdle()
  }

  #fill(): void {
    while (this.#ready.length > 0 && this.writer.length < BATCH_BYTES) {
      const turn = this.#ready
      this.#ready = []
      for (const stream of turn) {
        stream.isReady = false
        if (!stream.isGone) this.#pump(stream)
      }
    }
  }

  /** Writes the head, a frame of the body, the end: what is there and has room. */
  #pump(stream: Http2Stream): void {
    const { writer } = this
    const { trailers } = stream
    if (stream.status !== 0) {
      const isAll = stream.isEnding && stream.queuedBytes === 0 && trailers.length === 0
      writer.response(stream.id, isAll ? FLAG.endStream : 0, stream.status, stream.head)
      stream.status = 0
      if (isAll) return this.#events.onSent(stream)
    }
    if (stream.queuedBytes > 0) return this.#pumpBody(stream)
    if (!stream.isEnding || stream.isSent) return
    if (trailers.length > 0) writer.trailers(stream.id, trailers)
    else writer.data(stream, 0, FLAG.endStream)
    this.#events.onSent(stream)
  }

  #pumpBody(stream: Http2Stream): void {
    const bytes = Math.min(stream.queuedBytes, FRAME_BYTES_MAX, stream.sendWindow, this.#window)
    if (bytes <= 0) return tellHeld(stream)
    const isAll = stream.isEnding && bytes === stream.queuedBytes && stream.trailers.length === 0
    this.writer.data(stream, bytes, isAll ? FLAG.endStream : 0)
    stream.sendWindow -= bytes
    this.#window -= bytes
    stream.sent(bytes)
    if (isAll) this.#events.onSent(stream)
    else if (stream.queuedBytes > 0 || stream.isEnding) this.ready(stream)
  }
}

function tellHeld(stream: Http2Stream): void {
  if (!stream.isEnding || stream.isHeld || stream.isGone) return
  stream.isHeld = true
  stream.owner.onHeld()
}

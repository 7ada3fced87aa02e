import type { Break } from './protocol.ts'

/** Takes what comes on a stream, and is told what becomes of what is sent. */
export type StreamOwner = {
  /** An interim answer (1xx), to a client. */
  onInterim(status: number, headers: string[]): void
  /** The head of the answer, to a client. */
  onHead(status: number, headers: string[]): void
  onData(chunk: Buffer): void
  /** All has come, with the fields behind the body. */
  onEnd(trailers: string[]): void
  /** What was written has gone to the connection, where `write` had said that it is enough for now. */
  onDrain(): void
  /** The end of what was written waits for the peer to take it. Told once. */
  onHeld(): void
  /** END_STREAM went out. */
  onSent(): void
  /** It is over before both its ends: the last call. */
  onBreak(why: Break): void
  /** Both its ends have come and gone, and all that came was given: the last call. */
  onClose(): void
}

/** What a stream needs of its connection. */
export type StreamConnection = {
  /** There is something to send on it. */
  ready(stream: Http2Stream): void
  interim(stream: Http2Stream, status: number, headers: readonly string[]): void
  reset(stream: Http2Stream, code: number): void
  /** So many bytes were taken by its owner. */
  credit(stream: Http2Stream, bytes: number): void
}

/** Small pieces that wait are gathered in blocks of so many bytes. */
const BLOCK_BYTES = 16 * 1024
/** What may wait to be sent before `write` says that it is enough. */
const QUEUE_BYTES = 64 * 1024
const NONE: readonly never[] = []

/** One stream. What its connection reads and writes of it stands in the first part, what its owner does in the second. */
export class Http2Stream {
  owner: StreamOwner
  sendWindow: number
  receiveWindow: number
  /** Bytes taken by the owner that the peer was not yet told of. */
  credited = 0
  /** A head that waits to be sent: its status, and names and values. */
  status = 0
  head: readonly string[] = NONE
  readonly queue: Buffer[] = []
  /** Bytes of the first in the queue that are gone. */
  queueOffset = 0
  queuedBytes = 0
  trailers: readonly string[] = NONE
  isReady = false
  /** Nothing more is written to it. */
  isEnding = false
  /** END_STREAM was sent. */
  isSent = false
  /** The connection knows it no more. */
  isGone = false
  /** A client has the head of its answer. */
  hasHead = false
  /** Its answer has none whatever it says (HEAD). */
  hasNoBody = false
  /** What its content-length says, -1 without one, and what has come. */
  length = -1
  received = 0
  isHeld = false
  readonly id: number
  readonly #connection: StreamConnection
  #isWhole = false
  #isPaused = false
  #isGiving = false
  #isFull = false
  #isEndGiven = false
  #isOver = false
  #arrivedTrailers: string[] = []
  #waiting: Buffer[] = []
  #block: Buffer = EMPTY
  #used = 0

  constructor(id: number, connection: StreamConnection, owner: StreamOwner | undefined, sendWindow: number, receiveWindow: number) {
    this.id = id
    this.#connection = connection
    this.owner = owner ?? NOBODY
    this.sendWindow = sendWindow
    this.receiveWindow = receiveWindow
  }

  /** A piece of the body has come. */
  arrive(chunk: Buffer): void {
    if (this.#isPaused || this.#isGiving || this.#waiting.length > 0 || this.#used > 0) return this.#hold(chunk)
    this.#give(chunk)
  }

  /** END_STREAM has come. */
  arriveEnd(trailers: string[]): void {
    this.#isWhole = true
    this.#arrivedTrailers = trailers
    this.#giveWaiting()
  }

  /** So many of the first bytes in the queue are sent. */
  sent(bytes: number): void {
    this.queuedBytes -= bytes
    if (!this.#isFull || this.queuedBytes >= QUEUE_BYTES / 2 || this.#isOver) return
    this.#isFull = false
    this.owner.onDrain()
  }

  /** Both its ends are through the connection. */
  close(): void {
    this.isGone = true
    this.#giveWaiting()
  }

  break(why: Break): void {
    this.isGone = true
    if (this.#isOver) return
    // An answer that has come is whole: only the rest of what was to be sent is lost.
    if (this.hasHead && this.#isWhole && (why.kind === 'lost' || (why.kind === 'reset' && why.code === 0)) && this.#isHolding) return
    this.#forget()
    this.owner.onBreak(why)
  }

  // ------------------------------------------------------------------------------------------------------------------

  /** END_STREAM has come, though its owner may still have to take what came before. */
  get isWhole(): boolean {
    return this.#isWhole
  }

  /** Nothing is sent on it any more. */
  get isClosed(): boolean {
    return this.isGone || this.#isOver
  }

  /** The head of an answer, which goes out with what follows in the same turn. Names are in lower case. */
  respond(status: number, headers: readonly string[]): void {
    this.status = status
    this.head = headers
    this.#connection.ready(this)
  }

  interim(status: number, headers: readonly string[]): void {
    if (!this.isClosed) this.#connection.interim(this, status, headers)
  }

  /** False when enough waits: `onDrain` tells when it is less. */
  write(chunk: Buffer): boolean {
    if (this.isClosed || this.isEnding) return true
    if (chunk.length > 0) this.queue.push(chunk)
    this.queuedBytes += chunk.length
    this.#connection.ready(this)
    this.#isFull ||= this.queuedBytes >= QUEUE_BYTES
    return !this.#isFull
  }

  end(trailers: readonly string[] = NONE): void {
    if (this.isClosed || this.isEnding) return
    this.isEnding = true
    this.trailers = trailers
    this.#connection.ready(this)
  }

  /** Ends it at once. Its owner is not told. */
  reset(code: number): void {
    if (!this.isGone) this.#connection.reset(this, code)
    this.#forget()
  }

  /** Nothing is given until `resume`; what comes waits, within the stream's window. */
  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    this.#giveWaiting()
  }

  get #isHolding(): boolean {
    return this.#waiting.length > 0 || this.#used > 0 || this.#isPaused || this.#isGiving
  }

  #give(chunk: Buffer): void {
    this.#isGiving = true
    this.owner.onData(chunk)
    this.#isGiving = false
    if (!this.isGone) this.#connection.credit(this, chunk.length)
    if (this.#used > 0 || this.#waiting.length > 0) this.#giveWaiting()
  }

  /** A small piece would hold all of the read that it came in: a peer that sends single bytes would fill the memory. */
  #hold(chunk: Buffer): void {
    if (chunk.length === 0) return
    if (chunk.length >= BLOCK_BYTES) {
      this.#flushBlock()
      this.#waiting.push(chunk)
      return
    }
    if (this.#used + chunk.length > this.#block.length) {
      this.#flushBlock()
      this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
    }
    this.#used += chunk.copy(this.#block, this.#used)
  }

  #flushBlock(): void {
    if (this.#used > 0) this.#waiting.push(this.#block.subarray(0, this.#used))
    this.#block = EMPTY
    this.#used = 0
  }

  #giveWaiting(): void {
    if (this.#isGiving || this.#isOver) return
    this.#flushBlock()
    while (this.#waiting.length > 0 && !this.#isPaused) this.#give(this.#waiting.shift() as Buffer)
    if (this.#waiting.length > 0 || this.#isPaused || !this.#isWhole || this.#isOver) return
    this.#end()
  }

  #end(): void {
    if (!this.#isEndGiven) {
      this.#isEndGiven = true
      this.owner.onEnd(this.#arrivedTrailers)
    }
    if (!this.isGone || this.#isOver) return
    this.#forget()
    this.owner.onClose()
  }

  #forget(): void {
    this.#isOver = true
    this.#waiting = []
    this.#block = EMPTY
    this.#used = 0
    this.queue.length = 0
    this.queuedBytes = 0
    this.head = NONE
  }
}

const EMPTY = Buffer.alloc(0)

/** Until the owner of a request is known. */
const NOBODY: StreamOwner = {
  onInterim() {},
  onHead() {},
  onData() {},
  onEnd() {},
  onDrain() {},
  onHeld() {},
  onSent() {},
  onBreak() {},
  onClose() {},
}

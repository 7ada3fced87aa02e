import { INPUT_BYTES, llhttp, LLHTTP, type Callbacks } from './llhttp.ts'

/** The head of a message. Texts are latin1, as they stand on the wire; headers are name, value, name, value, … */
export type MessageHead = {
  /** Of a request; empty for a response. */
  readonly method: string
  readonly target: string
  /** Of a response; 0 and empty for a request. */
  readonly status: number
  readonly reason: string
  /** "1.1" or "1.0". */
  readonly version: '1.0' | '1.1'
  readonly headers: readonly string[]
  /** CONNECT, an Upgrade field that Connection names, or status 101. */
  readonly isUpgrade: boolean
  /** Whether the peer lets the connection serve another message. */
  readonly keepsAlive: boolean
}

/**
 * What follows a head: a body as it is framed; none, whatever the fields say (an answer to HEAD); or bytes of another protocol, which
 * are not read.
 */
export type Following = 'body' | 'nothing' | 'another protocol'

/** Gets what a connection says, in order. What it throws ends `execute` with it. */
export type MessageHandler = {
  onHead(head: MessageHead): Following
  /** A view of what was fed: it is not copied. */
  onBody(bytes: Buffer): void
  /** The message is whole. Trailers are name, value, …; nothing behind it was read: feed what `execute` left over. */
  onEnd(trailers: readonly string[]): void
}

/** Why bytes are no HTTP/1 message. `code` is llhttp's (HPE_…). */
export class MessageError extends Error {
  readonly code: string

  constructor(code: string) {
    super(`not a message of HTTP/1 (${code})`)
    this.code = code
  }
}

const OVERFLOW = 'HPE_HEADER_OVERFLOW'
const NOTHING = Buffer.alloc(0)

/**
 * Reads the messages of one connection in one direction, strictly: requests and answers go through the same llhttp with nothing of its
 * leniency, so that both sides of the gate agree where a message ends. I10
 */
export class MessageParser implements Disposable {
  readonly #kind: 'request' | 'response'
  readonly #handler: MessageHandler
  readonly #headBytesMax: number
  readonly #callbacks: Callbacks
  #pointer: number
  #chunk: Buffer = NOTHING
  /** Of the piece that is read, in the chunk. */
  #offset = 0
  #isRunning = false
  #isStopping = false
  #isLeaving = false
  #thrown: { readonly error: unknown } | undefined
  #target = ''
  #reason = ''
  #fields: string[] = []
  #headBytes = 0
  #isBegun = false

  /** @param headBytesMax names, values and target of one message together, and once more its trailers; more is HPE_HEADER_OVERFLOW */
  constructor(kind: 'request' | 'response', handler: MessageHandler, headBytesMax: number) {
    this.#kind = kind
    this.#handler = handler
    this.#headBytesMax = headBytesMax
    this.#pointer = llhttp().exports.llhttp_alloc(kind === 'request' ? LLHTTP.request : LLHTTP.response)
    this.#callbacks = {
      onBegin: () => {
        this.#isBegun = true
        return LLHTTP.ok
      },
      onUrl: (start, length) => {
        this.#target += this.#textAt(start, length)
        return this.#count(length)
      },
      onStatus: (start, length) => {
        this.#reason += this.#textAt(start, length)
        return this.#count(length)
      },
      onField: (start, length) => this.#add(0, start, length),
      onValue: (start, length) => this.#add(1, start, length),
      onHead: (status, isUpgrade, keepsAlive) => {
        try {
          return this.#head(status, isUpgrade, keepsAlive)
        } catch (error) {
          return this.#failed(error)
        }
      },
      onBody: (start, length) => {
        try {
          return this.#body(this.#offset + start, length)
        } catch (error) {
          return this.#failed(error)
        }
      },
      onEnd: () => {
        try {
          return this.#end()
        } catch (error) {
          return this.#failed(error)
        }
      },
    }
  }

  /** True between the first byte of a message and its end. */
  get isInside(): boolean {
    return this.#isBegun
  }

  /**
   * Reads on, up to the end of a message at most. Gives back how many bytes were read: fewer than came when a message ended in them, or
   * what follows its head is of another protocol, or `stop` was called. Without any bytes it tells what `stop` held back.
   * @throws MessageError, and what the handler throws
   */
  execute(chunk: Buffer): number {
    if (this.#isRunning || this.#pointer === 0) throw new Error('a parser that runs, or is disposed of')
    this.#isRunning = true
    this.#isStopping = false
    this.#chunk = chunk
    this.#offset = 0
    try {
      do {
        const isPiece = chunk.length <= INPUT_BYTES
        const left = this.#executePiece(isPiece ? chunk : chunk.subarray(this.#offset, this.#offset + INPUT_BYTES))
        if (left) return this.#offset
      } while (this.#offset < chunk.length)
      return chunk.length
    } finally {
      this.#isRunning = false
      // A connection that rests holds no memory of what it read.
      this.#chunk = NOTHING
    }
  }

  /** For `onBody`: has `execute` stop behind the piece of a body that is told just now. */
  stop(): void {
    this.#isStopping = true
  }

  /** The peer sends no more. A message that only this ends is told of. @throws MessageError when one is not whole */
  finish(): void {
    if (this.#pointer === 0 || !this.isInside) return
    const errno = llhttp().finish(this.#pointer, this.#callbacks)
    this.#throwIfThrown()
    if (errno !== LLHTTP.ok && errno !== LLHTTP.paused && errno !== LLHTTP.pausedUpgrade) throw new MessageError(llhttp().errorName(errno))
  }

  [Symbol.dispose](): void {
    if (this.#pointer === 0) return
    // While it runs llhttp still looks at it.
    if (this.#isRunning) return void setImmediate(() => this[Symbol.dispose]())
    llhttp().exports.llhttp_free(this.#pointer)
    this.#pointer = 0
  }

  /** True when it stopped before the end of the piece, or behind a message. */
  #executePiece(piece: Buffer): boolean {
    const { read, errno } = llhttp().execute(this.#pointer, this.#callbacks, piece)
    this.#throwIfThrown()
    this.#offset += read
    if (errno === LLHTTP.ok) return false
    if (errno === LLHTTP.paused) {
      llhttp().exports.llhttp_resume(this.#pointer)
      return true
    }
    if (errno === LLHTTP.pausedUpgrade) return true
    throw new MessageError(this.#headBytes > this.#headBytesMax ? OVERFLOW : llhttp().errorName(errno))
  }

  #throwIfThrown(): void {
    const thrown = this.#thrown
    this.#thrown = undefined
    if (thrown) throw thrown.error
  }

  /** What is thrown must not run through WebAssembly. */
  #failed(error: unknown): number {
    this.#thrown ??= { error }
    return LLHTTP.failed
  }

  #textAt(start: number, length: number): string {
    return this.#chunk.latin1Slice(this.#offset + start, this.#offset + start + length)
  }

  #count(length: number): number {
    this.#headBytes += length
    return this.#headBytes > this.#headBytesMax ? LLHTTP.failed : LLHTTP.ok
  }

  /** `part` is 0 for a name, 1 for a value; either may come in pieces. */
  #add(part: 0 | 1, start: number, length: number): number {
    const fields = this.#fields
    const text = this.#textAt(start, length)
    if (fields.length % 2 === part) fields.push(text)
    else fields.push((fields.pop() ?? '') + text)
    return this.#count(length)
  }

  #head(status: number, isUpgrade: boolean, keepsAlive: boolean): number {
    const { exports } = llhttp()
    const minor = exports.llhttp_get_http_minor(this.#pointer)
    // llhttp knows 0.9 and 2.0 too, which nobody speaks in this form.
    if (exports.llhttp_get_http_major(this.#pointer) !== 1 || minor > 1) throw new MessageError('HPE_INVALID_VERSION')
    trimValues(this.#fields)
    const head: MessageHead = {
      method: this.#kind === 'request' ? llhttp().methodOf(this.#pointer) : '',
      target: this.#target,
      status,
      reason: this.#reason,
      version: minor === 1 ? '1.1' : '1.0',
      headers: this.#fields,
      isUpgrade,
      keepsAlive,
    }
    this.#target = ''
    this.#reason = ''
    this.#fields = []
    this.#headBytes = 0
    switch (this.#handler.onHead(head)) {
      case 'body':
        return LLHTTP.ok
      case 'nothing':
        return LLHTTP.noBody
      case 'another protocol':
        this.#isLeaving = true
        return LLHTTP.upgrade
    }
  }

  #body(from: number, length: number): number {
    const isAll = from === 0 && length === this.#chunk.length
    this.#handler.onBody(isAll ? this.#chunk : this.#chunk.subarray(from, from + length))
    return this.#isStopping ? LLHTTP.paused : LLHTTP.ok
  }

  #end(): number {
    const trailers = this.#fields
    trimValues(trailers)
    this.#fields = []
    this.#headBytes = 0
    this.#isBegun = false
    this.#handler.onEnd(trailers)
    return this.#isLeaving ? LLHTTP.ok : LLHTTP.paused
  }
}

/** RFC 9112 §5: white space behind a value is no part of it; what is before it, llhttp leaves out. */
function trimValues(fields: string[]): void {
  for (let i = 1; i < fields.length; i += 2) {
    const value = fields[i] ?? ''
    let end = value.length
    while (isSpace(value.charCodeAt(end - 1))) end -= 1
    if (end < value.length) fields[i] = value.slice(0, end)
  }
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09
}

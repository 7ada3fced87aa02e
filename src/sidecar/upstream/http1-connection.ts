import type { Socket } from 'node:net'
import { MessageError, MessageParser, type Following, type MessageHandler, type MessageHead } from '../../http1/parser.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Carrier, Http1Exchange } from './http1-exchange.ts'
import { http1Head, http1Hints } from './http1-head.ts'
import { writeTogether } from './http1-upload.ts'
import { NEVER, tickAfter, unwatchDeadline, watchDeadline, type Swept } from './sweep.ts'

export type Http1Events = {
  /** The answer ended, and the connection may carry another request; not in the same turn. */
  onFree(connection: Http1Connection): void
  /** It was kept too long: it ended before a byte of the answer, and the exchange may run again elsewhere. */
  onStale(exchange: Http1Exchange): void
  /** It carries nothing any more; or it is the handler's of an exchange that changed the protocol. Comes before what that exchange is told. */
  onEnd(connection: Http1Connection): void
}

const NOTHING = Buffer.alloc(0)

const WRITE_TURNS = 4

/**
 * One connection to an upstream, which carries one exchange at a time. It is read all the time: what comes when nothing was asked ends
 * it, as the next request would be answered by it.
 */
export class Http1Connection implements Carrier, MessageHandler, Swept {
  deadline = NEVER
  readonly #socket: Socket
  readonly #where: string
  readonly #events: Http1Events
  readonly #parser: MessageParser
  #exchange: Http1Exchange | undefined
  #isOver = false
  /** Of the exchange: it did not wait for this connection, which was at rest. */
  #wasKept = false
  #isSent = false
  #hasBytes = false
  #isAnswered = false
  #isSwitched = false
  #keepsAlive = false
  #keepAliveMs = 0
  #isPaused = false
  /** What was read while nobody wanted it. */
  #rest: Buffer | undefined

  /** `socket` is connected, and secure if it has to be. `where` names the upstream in errors and is the Host of requests without one. */
  constructor(socket: Socket, where: string, events: Http1Events) {
    this.#socket = socket
    this.#where = where
    this.#events = events
    this.#parser = new MessageParser('response', this, LIMITS.headBytesMax)
    socket.on('data', this.#onData).on('end', this.#onEof).on('drain', this.#onDrain)
    socket.on('error', this.#onLost).on('close', this.#onLost)
    socket.resume()
    watchDeadline(this)
    this.#rests(LIMITS.upstreamKeepAliveMs)
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Sends a request. `wasKept` says that the connection was at rest before. */
  run(exchange: Http1Exchange, wasKept: boolean): void {
    const { request, upload } = exchange
    this.#exchange = exchange
    this.#wasKept = wasKept
    this.#isSent = false
    this.#hasBytes = false
    this.#isAnswered = false
    this.deadline = NEVER
    let head
    try {
      head = http1Head(request, this.#where)
    } catch (error) {
      // Nothing was written: the connection is as it was.
      this.#exchange = undefined
      this.#rests(LIMITS.upstreamKeepAliveMs)
      this.#events.onFree(this)
      return exchange.fail(error as Error)
    }
    this.#keepsAlive = !head.isLast
    exchange.runsOn(this)
    if (upload) return upload.start(head, this.#socket)
    if (Buffer.isBuffer(request.body) && request.body.length > 0) {
      writeTogether(this.#socket, head.text, request.body)
      this.onSent(request.body.length)
    } else this.#socket.write(head.text, 'latin1')
    this.onWhole()
  }

  onSent(bytes: number): void {
    const exchange = this.#exchange
    if (!exchange) return
    // Streams both ways: the upstream may be silent while it reads.
    if (exchange.hasAnswer && !this.#isPaused) this.deadline = tickAfter(LIMITS.upstreamBodyIdleMs)
    exchange.bodySent(bytes)
  }

  onWhole(): void {
    const exchange = this.#exchange
    if (!exchange) return
    this.#isSent = true
    if (!exchange.hasAnswer) this.deadline = tickAfter(LIMITS.upstreamHeadMs)
    exchange.requestSent()
  }

  pause(): void {
    if (this.#isPaused) return
    this.#isPaused = true
    // Nothing is expected while nobody reads.
    if (this.#exchange?.hasAnswer === true) this.deadline = NEVER
    this.#parser.stop()
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    if (this.#exchange?.hasAnswer === true) this.deadline = tickAfter(LIMITS.upstreamBodyIdleMs)
    const rest = this.#rest
    this.#rest = undefined
    if (rest) this.#read(rest)
    if (!this.#isPaused) this.#socket.resume()
  }

  destroy(): void {
    if (this.#leave()) this.#socket.destroy()
  }

  expire(): void {
    if (this.#exchange) this.fail(new SallyportError('upstream_timeout', `${this.#where} did not answer in time`))
    else this.destroy()
  }

  onHead(head: MessageHead): Following {
    const exchange = this.#exchange
    if (!exchange) return 'nothing'
    const { status, headers } = head
    if (status < 200) return this.#interim(exchange, head)
    const hints = http1Hints(headers)
    const isBare = exchange.request.method === 'HEAD' || status === 204 || status === 304
    // What says a body where none can be may send it all the same, and it would be the next answer.
    this.#keepsAlive &&= head.keepsAlive && !(isBare && hints.saysBody)
    this.#keepAliveMs = keepAliveMs(hints.keepAliveMs)
    this.deadline = tickAfter(LIMITS.upstreamBodyIdleMs)
    exchange.hasAnswer = true
    exchange.rawHeaders = headers
    exchange.handler.onResponseStart(exchange, status, head.reason)
    return isBare ? 'nothing' : 'body'
  }

  onBody(bytes: Buffer): void {
    const exchange = this.#exchange
    if (!exchange) return this.#parser.stop()
    this.deadline = tickAfter(LIMITS.upstreamBodyIdleMs)
    exchange.handler.onResponseData(exchange, bytes)
  }

  onEnd(trailers: readonly string[]): void {
    const exchange = this.#exchange
    if (exchange?.hasAnswer !== true) return
    this.#isAnswered = true
    exchange.rawTrailers = trailers
  }

  #interim(exchange: Http1Exchange, { status, reason, headers, isUpgrade }: MessageHead): Following {
    exchange.interim += 1
    if (exchange.interim > LIMITS.interimAnswersMax) throw this.#invalid('sends interim answers without end')
    if (status < 100) throw this.#invalid('answers with a status below 100')
    exchange.rawHeaders = headers
    if (status === 101) {
      // RFC 9110 §15.2.2. What comes behind it could be taken for answers.
      if (exchange.request.upgrade === undefined || !isUpgrade) throw this.#invalid('switches to another protocol, unasked')
      this.#isSwitched = true
      return 'another protocol'
    }
    exchange.handler.onResponseStart(exchange, status, reason)
    return 'nothing'
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#isOver) return
    // I10: nothing was asked, so this is the answer to nothing.
    if (!this.#exchange) return this.destroy()
    if (this.#exchange.isUnsent) return this.#leaveUnsent(this.#exchange, this.#invalid('comes before the request'))
    this.#hasBytes = true
    this.#read(chunk)
  }

  #read(chunk: Buffer): void {
    let rest = chunk
    try {
      do {
        const read = this.#parser.execute(rest)
        if (!this.#exchange) return
        rest = read === rest.length ? NOTHING : rest.subarray(read)
        if (this.#isSwitched) return this.#handOver(this.#exchange, rest)
        if (this.#isAnswered) return this.#complete(rest.length === 0)
        if (this.#isPaused) return void (this.#rest = rest)
      } while (rest.length > 0)
    } catch (error) {
      this.fail(error instanceof MessageError ? this.#invalid(`is not valid HTTP (${error.code})`, error) : (error as Error))
    }
  }

  /** I10: what follows an answer is no answer, and a request that is not out by now would be read as part of the next. */
  #complete(isClean: boolean): void {
    const exchange = this.#exchange
    const isReusable = isClean && this.#keepsAlive && this.#keepAliveMs > 0 && this.#isSent
    this.#exchange = undefined
    if (isReusable) {
      if (this.#isPaused) this.resume()
      this.#rests(this.#keepAliveMs)
      this.#freeWhenWritten(WRITE_TURNS)
    } else this.destroy()
    exchange?.complete()
  }

  /** TLS says a turn late that it has written. What is not out after some was answered before it was asked. I10 */
  #freeWhenWritten(turns: number): void {
    if (this.#isOver) return
    if (this.#socket.writableLength === 0) this.#events.onFree(this)
    else if (turns === 0) this.destroy()
    else setImmediate(() => this.#freeWhenWritten(turns - 1))
  }

  #handOver(exchange: Http1Exchange, rest: Buffer): void {
    const socket = this.#socket
    this.#leave()
    socket.off('data', this.#onData).off('end', this.#onEof).off('drain', this.#onDrain)
    socket.off('error', this.#onLost).off('close', this.#onLost)
    socket.pause()
    if (rest.length > 0) socket.unshift(rest)
    exchange.handOver(101, socket)
  }

  readonly #onDrain = (): void => this.#exchange?.upload?.resume()

  /** Sockets here are half-open: an upstream that ended its side answers nothing any more. */
  readonly #onEof = (): void => {
    if (this.#exchange?.hasAnswer === true && !this.#keepsAlive) {
      try {
        this.#parser.finish()
      } catch (error) {
        return this.#onLost(error)
      }
      if (this.#isAnswered) return this.#complete(false)
    }
    this.#onLost()
  }

  readonly #onLost = (error?: unknown): void => {
    if (this.#isOver) return
    const exchange = this.#exchange
    if (exchange && this.#wasKept && !this.#hasBytes && exchange.mayRunAgain) return this.#giveBack(exchange)
    const why = error instanceof Error ? codeOf(error) : 'closed'
    const options = error instanceof Error ? { cause: error } : {}
    const lost = new SallyportError('upstream_unreachable', `the connection to ${this.#where} broke (${why})`, options)
    if (exchange?.isUnsent === true) this.#leaveUnsent(exchange, lost)
    else this.fail(lost)
  }

  /** This connection is no good for an exchange of which nothing was written. Where it was kept, a new one may be. */
  #leaveUnsent(exchange: Http1Exchange, error: SallyportError): void {
    if (!this.#wasKept) return this.fail(error)
    exchange.upload?.unstart()
    this.#giveBack(exchange)
  }

  /** To be run again, on another connection. */
  #giveBack(exchange: Http1Exchange): void {
    this.#exchange = undefined
    exchange.runsOn(undefined)
    this.destroy()
    this.#events.onStale(exchange)
  }

  #rests(ms: number): void {
    this.deadline = tickAfter(ms) - 1
  }

  /** Ends it, and what runs on it with this error. */
  fail(error: Error): void {
    const exchange = this.#exchange
    this.destroy()
    exchange?.fail(error)
  }

  #invalid(what: string, cause?: Error): SallyportError {
    return new SallyportError('upstream_invalid', `the answer of ${this.#where} ${what}`, cause ? { cause } : {})
  }

  /** True once. */
  #leave(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    this.#exchange = undefined
    this.#rest = undefined
    unwatchDeadline(this)
    this.#parser[Symbol.dispose]()
    this.#events.onEnd(this)
    return true
  }
}

/** Not so long that a request crosses the upstream's own end of it. */
function keepAliveMs(hintMs: number | undefined): number {
  if (hintMs === undefined) return LIMITS.upstreamKeepAliveMs
  return Math.min(hintMs - LIMITS.upstreamKeepAliveMarginMs, LIMITS.upstreamKeepAliveMs)
}

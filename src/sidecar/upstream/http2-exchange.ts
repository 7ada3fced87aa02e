import type { Readable } from 'node:stream'
import type { Http2Connection } from '../../http2/connection.ts'
import { CODE, type Break } from '../../http2/protocol.ts'
import type { Http2Stream, StreamOwner } from '../../http2/stream.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { brokenLength, http2Error } from './http2-errors.ts'
import { http2Head, writableFields } from './http2-fields.ts'
import type { UpstreamController, UpstreamHandler, UpstreamRequest } from './upstream.ts'

/**
 * What became of a stream: its exchange is over; or the upstream says that it did nothing (RFC 9113 §8.7) and it may run again; or
 * what came was invalid, and the connection is not to be trusted with more.
 */
export type StreamEnd = 'over' | 'unprocessed' | 'invalid'

/** Where an exchange runs. */
export type ExchangeHost = {
  /** Its stream is closed. Told once for each start. */
  ended(exchange: Http2Exchange, end: StreamEnd): void
}

/** One request and its answer, from the moment it waits for a stream. */
export class Http2Exchange implements UpstreamController, StreamOwner {
  /** How often it was started. */
  attempts = 0
  rawHeaders: readonly string[] = []
  rawTrailers: readonly string[] = []
  readonly #request: UpstreamRequest
  readonly #body: Readable | undefined
  readonly #handler: UpstreamHandler
  readonly #where: string
  #stream: Http2Stream | undefined
  #host: ExchangeHost | undefined
  #timer: NodeJS.Timeout | undefined
  #timerMs = 0
  #bytesSent = 0
  #interim = 0
  #hasAnswer = false
  #isInvalid = false
  #isPaused = false
  #isOver = false

  /** `where` names the upstream in errors. */
  constructor(request: UpstreamRequest, handler: UpstreamHandler, where: string) {
    this.#request = request
    this.#handler = handler
    this.#where = where
    if (request.body === undefined || request.body === null || Buffer.isBuffer(request.body)) return
    this.#body = request.body
    // From here on: an agent that goes while its request waits must not end the process.
    this.#body.on('error', this.#onBodyError)
  }

  abort(reason: Error): void {
    this.fail(reason)
  }

  pause(): void {
    this.#isPaused = true
    // Nothing is expected while nobody reads.
    this.#expectNothing()
    this.#stream?.pause()
  }

  resume(): void {
    this.#isPaused = false
    if (this.#isOver) return
    if (this.#hasAnswer) this.#expect(LIMITS.upstreamBodyIdleMs)
    this.#stream?.resume()
  }

  /** Runs it on a new stream. */
  start(connection: Http2Connection, host: ExchangeHost): void {
    this.attempts += 1
    this.#host = host
    if (this.attempts === 1) this.#tell(() => this.#handler.onRequestStart(this))
    if (this.#isOver) return this.#ended('over')
    const { body } = this.#request
    try {
      const isEnd = body === undefined || body === null || (Buffer.isBuffer(body) && body.length === 0)
      this.#stream = connection.open(this, http2Head(this.#request, this.#where), isEnd)
    } catch (error) {
      return this.fail(error as Error)
    }
    if (this.#isPaused) this.#stream.pause()
    if (this.#body) this.#send(this.#stream, this.#body)
    else if (Buffer.isBuffer(body)) this.#sendWhole(this.#stream, body)
    else this.#sent()
  }

  /** What was not started, for another protocol. Nothing if it is over already. */
  handOver(): { request: UpstreamRequest; handler: UpstreamHandler } | undefined {
    if (this.#isOver) return undefined
    this.#isOver = true
    this.#body?.off('error', this.#onBodyError)
    return { request: this.#request, handler: this.#handler }
  }

  /** Ends it with an error, once. */
  fail(error: Error): void {
    if (this.#isOver) return
    this.#isInvalid ||= error instanceof SallyportError && error.code === 'upstream_invalid'
    this.#end()
    this.#body?.destroy(error)
    this.#handler.onResponseError(this, error)
    this.#ended(this.#isInvalid ? 'invalid' : 'over')
  }

  // ------------------------------------------------------------------------------------------------- of the stream

  onInterim(status: number, headers: string[]): void {
    this.#interim += 1
    if (this.#interim > LIMITS.interimAnswersMax) {
      return this.fail(new SallyportError('upstream_invalid', `${this.#where} sends interim answers without end`))
    }
    this.#begin(status, headers)
  }

  onHead(status: number, headers: string[]): void {
    if (this.#isOver) return
    this.#hasAnswer = true
    if (!this.#isPaused) this.#expect(LIMITS.upstreamBodyIdleMs)
    this.#begin(status, headers)
  }

  onData(chunk: Buffer): void {
    if (this.#isOver) return
    this.#timer?.refresh()
    try {
      this.#handler.onResponseData(this, chunk)
    } catch (error) {
      this.fail(error as Error)
    }
  }

  onEnd(trailers: string[]): void {
    if (this.#isOver) return
    this.rawTrailers = trailers
    this.#end()
    // The upstream said all it had to say, before it had the whole body perhaps.
    this.#body?.destroy()
    try {
      this.#handler.onResponseEnd(this)
    } catch (error) {
      this.#handler.onResponseError(this, error as Error)
    }
    // Else its connection tells when it is closed.
    if (this.#stream?.isSent !== true) this.#ended('over')
  }

  onDrain(): void {
    if (!this.#isOver) this.#body?.resume()
  }

  onHeld(): void {}

  onSent(): void {}

  onBreak(why: Break): void {
    const isUntouched = !this.#hasAnswer && this.#bytesSent === 0
    if (!this.#isOver && isUntouched && why.kind === 'refused') {
      this.#detach()
      return this.#ended('unprocessed')
    }
    this.#isInvalid ||= why.kind === 'invalid'
    if (this.#isOver) this.#ended(this.#isInvalid ? 'invalid' : 'over')
    else this.fail(http2Error(why, this.#where))
  }

  onClose(): void {
    this.#ended('over')
  }

  // ------------------------------------------------------------------------------------------------- the request's body

  #sendWhole(stream: Http2Stream, body: Buffer): void {
    const broken = brokenLength(this.#request.headers, body.length)
    if (broken) return this.fail(broken)
    if (body.length > 0) {
      this.#bytesSent = body.length
      stream.write(body)
      this.#tell(() => this.#handler.onBodySent(body.length))
      this.#endBody(stream)
    }
    this.#sent()
  }

  #send(_stream: Http2Stream, body: Readable): void {
    body.on('data', this.#onData)
    body.on('end', this.#onEnd)
    body.on('close', this.#onBodyClose)
    // On a second attempt the body was paused by the first, and an empty one has told of its end.
    if (body.readableEnded) this.#onEnd()
    else body.resume()
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#isOver) return
    this.#bytesSent += chunk.length
    if (this.#hasAnswer && !this.#isPaused) this.#timer?.refresh()
    if (this.#stream?.write(chunk) === false) this.#body?.pause()
    this.#tell(() => this.#handler.onBodySent(chunk.length))
  }

  readonly #onEnd = (): void => {
    if (this.#isOver || !this.#stream) return
    // I10: an upstream that believes the length would wait, or take what comes next for the rest.
    const broken = brokenLength(this.#request.headers, this.#bytesSent)
    if (broken) return this.fail(broken)
    this.#endBody(this.#stream)
    this.#sent()
  }

  readonly #onBodyError = (error: Error): void => this.fail(error)

  readonly #onBodyClose = (): void => {
    if (this.#body?.readableEnded !== true) this.fail(new Error('the body of the request broke off'))
  }

  #endBody(stream: Http2Stream): void {
    this.#tell(() => stream.end(writableFields(this.#request.trailers?.() ?? [])))
  }

  /** The request is out: now the upstream has so long to answer. A stream in both directions may be quiet before. */
  #sent(): void {
    if (this.#isOver) return
    this.#tell(() => this.#handler.onRequestSent())
    if (!this.#hasAnswer) this.#expect(LIMITS.upstreamHeadMs)
  }

  // ------------------------------------------------------------------------------------------------- ends

  #begin(status: number, headers: string[]): void {
    if (this.#isOver) return
    try {
      this.rawHeaders = headers
      this.#handler.onResponseStart(this, status, '')
    } catch (error) {
      this.fail(error as Error)
    }
  }

  #expect(ms: number): void {
    if (this.#isOver) return
    if (this.#timer && this.#timerMs === ms) return void this.#timer.refresh()
    clearTimeout(this.#timer)
    this.#timerMs = ms
    this.#timer = setTimeout(() => this.fail(new SallyportError('upstream_timeout', `${this.#where} did not answer in time`)), ms)
  }

  #expectNothing(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** What a handler throws (a header that cannot be written) ends the exchange, not the process. */
  #tell(call: () => void): void {
    if (this.#isOver) return
    try {
      call()
    } catch (error) {
      this.fail(error as Error)
    }
  }

  #end(): void {
    this.#isOver = true
    this.#detach()
    const stream = this.#stream
    if (stream && !(stream.isWhole && stream.isSent)) stream.reset(CODE.CANCEL)
  }

  #ended(end: StreamEnd): void {
    const host = this.#host
    this.#host = undefined
    host?.ended(this, end)
  }

  #detach(): void {
    this.#expectNothing()
    const body = this.#body
    body?.off('data', this.#onData)
    body?.off('end', this.#onEnd)
    body?.off('close', this.#onBodyClose)
    body?.pause()
  }
}

import { constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2'
import { Readable } from 'node:stream'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { brokenLength, http2Error, isUnprocessed } from './http2-errors.ts'
import { http2Headers, http2Trailers, rawFields } from './http2-fields.ts'
import { watchArrival } from './http2-arrival.ts'
import type { UpstreamController, UpstreamHandler, UpstreamRequest } from './upstream.ts'

/**
 * What became of a stream: its exchange is over; or the upstream says that it did nothing (RFC 9113 §8.7) and it may run again; or
 * what came was invalid, and the connection is not to be trusted with more.
 */
export type StreamEnd = 'over' | 'unprocessed' | 'invalid'

/** One request and its answer, from the moment it waits for a stream. */
export class Http2Exchange implements UpstreamController {
  /** How often it was started. */
  attempts = 0
  rawHeaders: readonly string[] = []
  rawTrailers: readonly string[] = []
  readonly #request: UpstreamRequest
  readonly #body: Readable | null
  readonly #handler: UpstreamHandler
  readonly #where: string
  #stream: ClientHttp2Stream | undefined
  #timer: NodeJS.Timeout | undefined
  #bytesSent = 0
  #interim = 0
  #hasAnswer = false
  /** END_STREAM has arrived. Without it the end of a stream is no end of an answer. */
  #isWhole = false
  #isInvalid = false
  #isPaused = false
  #isOver = false

  /** `where` names the upstream in errors. */
  constructor(request: UpstreamRequest, handler: UpstreamHandler, where: string) {
    this.#request = request
    this.#body = Buffer.isBuffer(request.body) ? Readable.from([request.body]) : (request.body ?? null)
    this.#handler = handler
    this.#where = where
    // From here on: an agent that goes while its request waits must not end the process.
    this.#body?.on('error', this.#onBodyError)
  }

  abort(reason: Error): void {
    this.fail(reason)
  }

  pause(): void {
    this.#isPaused = true
    // Nothing is expected while nobody reads.
    clearTimeout(this.#timer)
    this.#stream?.pause()
  }

  resume(): void {
    this.#isPaused = false
    if (this.#isOver) return
    if (this.#hasAnswer) this.#expect(LIMITS.upstreamBodyIdleMs)
    this.#stream?.resume()
  }

  /** Runs it on a new stream. `ended` is called once, when the stream is closed. */
  start(session: ClientHttp2Session, ended: (end: StreamEnd) => void): void {
    this.attempts += 1
    if (this.attempts === 1) {
      this.#tell(() => this.#handler.onRequestStart(this))
    }
    if (this.#isOver) return ended('over')
    const body = this.#body
    try {
      const waitForTrailers = body !== null && this.#request.trailers !== undefined
      this.#stream = session.request(http2Headers(this.#request, this.#where), { endStream: body === null, waitForTrailers })
    } catch (error) {
      this.fail(error as Error)
      return ended('over')
    }
    this.#follow(this.#stream, ended)
    if (body) this.#send(this.#stream, body)
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
    this.#isInvalid = error instanceof SallyportError && error.code === 'upstream_invalid'
    this.#end()
    this.#body?.destroy(error)
    this.#handler.onResponseError(this, error)
  }

  #follow(stream: ClientHttp2Stream, ended: (end: StreamEnd) => void): void {
    let failure: Error | undefined
    watchArrival(stream, () => (this.#isWhole = true))
    stream.on('headers', (fields, _flags, raw) => this.#interimAnswer(Number(fields[':status']), raw))
    stream.on('response', (fields, _flags, raw) => this.#answer(stream, Number(fields[':status']), raw))
    stream.on('trailers', (_fields, _flags, raw) => this.#tell(() => (this.rawTrailers = rawFields(raw))))
    stream.on('end', () => this.#complete(stream))
    stream.on('error', (error: Error) => (failure = error))
    stream.on('close', () => {
      if (this.#isOver) return ended(this.#isInvalid ? 'invalid' : 'over')
      const isUntouched = !this.#hasAnswer && this.#bytesSent === 0
      if (isUntouched && isUnprocessed(stream.rstCode, failure)) {
        this.#detach()
        return ended('unprocessed')
      }
      this.fail(http2Error(stream.rstCode, failure, this.#where))
      ended(this.#isInvalid ? 'invalid' : 'over')
    })
  }

  #interimAnswer(status: number, raw: readonly string[]): void {
    this.#interim += 1
    if (this.#interim > LIMITS.interimAnswersMax) {
      return this.fail(new SallyportError('upstream_invalid', `${this.#where} sends interim answers without end`))
    }
    this.#begin(status, raw)
  }

  #answer(stream: ClientHttp2Stream, status: number, raw: readonly string[]): void {
    if (this.#isOver) return
    if (this.#hasAnswer || status < 200) {
      return this.fail(new SallyportError('upstream_invalid', `the answer of ${this.#where} has a status ${status} where none can be`))
    }
    this.#hasAnswer = true
    this.#expect(LIMITS.upstreamBodyIdleMs)
    this.#begin(status, raw)
    if (this.#isOver) return
    stream.on('data', (chunk: Buffer) => {
      if (this.#isOver) return
      this.#timer?.refresh()
      this.#tell(() => this.#handler.onResponseData(this, chunk))
    })
  }

  #begin(status: number, raw: readonly string[]): void {
    this.#tell(() => {
      this.rawHeaders = rawFields(raw)
      this.#handler.onResponseStart(this, status, '')
    })
  }

  #complete(stream: ClientHttp2Stream): void {
    if (this.#isOver) return
    if (!this.#isWhole || !this.#hasAnswer) return this.fail(http2Error(stream.rstCode, undefined, this.#where))
    this.#end()
    // The upstream said all it had to say, before it had the whole body perhaps.
    this.#body?.destroy()
    try {
      this.#handler.onResponseEnd(this)
    } catch (error) {
      this.#handler.onResponseError(this, error as Error)
    }
  }

  #send(stream: ClientHttp2Stream, body: Readable): void {
    body.on('data', this.#onData)
    body.on('end', this.#onEnd)
    body.on('close', this.#onBodyClose)
    stream.on('drain', () => body.resume())
    stream.on('wantTrailers', () => this.#sendTrailers(stream))
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
    if (this.#isOver) return
    // I10: an upstream that believes the length would wait, or take what comes next for the rest.
    const broken = brokenLength(this.#request.headers, this.#bytesSent)
    if (broken) return this.fail(broken)
    this.#stream?.end()
    this.#sent()
  }

  readonly #onBodyError = (error: Error): void => this.fail(error)

  readonly #onBodyClose = (): void => {
    if (this.#body?.readableEnded !== true) this.fail(new Error('the body of the request broke off'))
  }

  #sendTrailers(stream: ClientHttp2Stream): void {
    this.#tell(() => stream.sendTrailers(http2Trailers(this.#request.trailers?.() ?? [])))
  }

  /** The request is out: now the upstream has so long to answer. A stream in both directions may be quiet before. */
  #sent(): void {
    this.#tell(() => this.#handler.onRequestSent())
    if (!this.#hasAnswer) this.#expect(LIMITS.upstreamHeadMs)
  }

  #expect(ms: number): void {
    clearTimeout(this.#timer)
    if (this.#isOver) return
    this.#timer = setTimeout(() => this.fail(new SallyportError('upstream_timeout', `${this.#where} did not answer in time`)), ms)
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
    // One that the upstream has closed would wait for writes that never end.
    if (stream?.closed === true) stream.destroy()
    else if (stream?.writableFinished !== true || !this.#isWhole) stream?.close(constants.NGHTTP2_CANCEL)
  }

  #detach(): void {
    clearTimeout(this.#timer)
    const body = this.#body
    body?.off('data', this.#onData)
    body?.off('end', this.#onEnd)
    body?.off('close', this.#onBodyClose)
    body?.pause()
  }
}

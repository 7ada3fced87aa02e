import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import errors from 'undici/lib/core/errors.js'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { forwardedResponseHeaders } from './headers.ts'

/** What went over the wire. `error` says why an exchange did not end as it should. */
export type Outcome = {
  readonly status: number | undefined
  readonly bytesUp: number
  readonly bytesDown: number
  readonly error?: unknown
}

const VISIBLE = /^[\x20-\x7e]*$/

type Head = { readonly method: string; readonly path: string; readonly headers: string[] }

/**
 * Sends a request on and its answer back, both streamed: each side is read only as fast as the other takes it, and no body
 * is ever held whole. When it gives an error and `response.headersSent` is false, nothing was answered yet.
 */
export function forward(pool: Dispatcher, head: Head, request: IncomingMessage, response: ServerResponse): Promise<Outcome> {
  return new Promise((resolve) => {
    const body = hasBody(request) ? new Upload(request) : null
    // The body is answered here, not by the upstream (RFC 9110 §10.1.1): by now it is decided that it may come.
    if (body && request.httpVersion === '1.1' && request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue()
    pool.dispatch({ path: head.path, method: head.method, headers: head.headers, body }, new Relay(request, response, resolve))
  })
}

function hasBody(request: IncomingMessage): boolean {
  const length = request.headers['content-length']
  return request.headers['transfer-encoding'] !== undefined || (length !== undefined && Number(length) > 0)
}

/**
 * The request's body for undici, which destroys a body when an exchange fails. Destroying the request itself would close the
 * agent's socket before the reason is written to it.
 */
class Upload extends Readable {
  readonly #request: IncomingMessage
  readonly #onData = (chunk: Buffer): void => {
    if (!this.push(chunk)) this.#request.pause()
  }

  constructor(request: IncomingMessage) {
    super()
    this.#request = request
    request.on('data', this.#onData)
    request.on('end', () => this.push(null))
    request.on('error', (error) => this.destroy(error))
    request.pause()
  }

  override _read(): void {
    this.#request.resume()
  }

  /** Nobody wants the rest: it is taken off the wire, or an agent that goes on sending would never come to the next request. */
  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#request.off('data', this.#onData)
    this.#request.resume()
    callback(error)
  }
}

class Relay implements Dispatcher.DispatchHandler {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #done: (outcome: Outcome) => void
  #controller: Dispatcher.DispatchController | undefined
  #uploadIdle: NodeJS.Timeout | undefined
  #readIdle: NodeJS.Timeout | undefined
  #status: number | undefined
  #bytesUp = 0
  #bytesDown = 0
  #interim = 0
  #isOver = false

  constructor(request: IncomingMessage, response: ServerResponse, done: (outcome: Outcome) => void) {
    this.#request = request
    this.#response = response
    this.#done = done
    response.on('close', this.#onAgentGone)
    // Node tells no response that waits its turn (pipelining) when a CONNECT behind it has taken the socket.
    request.socket.on('close', this.#onAgentGone)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#response.destroyed || this.#request.socket.destroyed) controller.abort(agentGone())
    else if (!this.#request.complete) this.#uploadIdle = this.#watch('the body of the request')
  }

  onBodySent(chunk: Uint8Array | string): void {
    this.#bytesUp += chunk.length
    this.#uploadIdle?.refresh()
  }

  onRequestSent(): void {
    clearTimeout(this.#uploadIdle)
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, _headers: unknown, reason?: string): void {
    if (status < 200) {
      this.#interim += 1
      if (this.#interim > LIMITS.interimAnswersMax) controller.abort(Object.assign(new Error('too many 1xx'), { code: 'INTERIM_FLOOD' }))
      return
    }
    this.#status = status
    const raw = controller.rawHeaders
    const headers = forwardedResponseHeaders(Array.isArray(raw) ? raw.filter((part) => Buffer.isBuffer(part)) : [], status)
    // A reason phrase means nothing to a client (RFC 9112 §4); one that Node would not write is left out. On a header that
    // Node would not write this throws, and undici ends the exchange with an error.
    this.#response.writeHead(status, VISIBLE.test(reason ?? '') ? (reason ?? '') : '', headers)
    // Server-sent events: the head is due at once, not with the first byte of the body. Where both came in one read, one write
    // takes both.
    process.nextTick(() => {
      if (this.#bytesDown === 0 && !this.#isOver) this.#response.flushHeaders()
    })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytesDown += chunk.length
    if (this.#response.write(chunk)) return
    controller.pause()
    this.#readIdle = this.#watch('the agent, reading the answer,')
    this.#response.once('drain', () => {
      clearTimeout(this.#readIdle)
      controller.resume()
    })
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    const trailers = controller.rawTrailers
    if (Array.isArray(trailers) && trailers.length > 0) {
      const fields = trailers.map((part) => part.toString('latin1'))
      this.#response.addTrailers(fields.flatMap((name, i): [string, string][] => (i % 2 === 0 ? [[name, fields[i + 1] ?? '']] : [])))
    }
    this.#response.end()
    // The upstream said all it had to say before it had the whole body.
    if (!this.#request.complete) boundRest(this.#request)
    this.#finish()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#finish(error)
  }

  /** Aborts when nothing moves for `LIMITS.bodyIdleMs`: a stalled side must not hold sockets and memory for good. */
  #watch(what: string): NodeJS.Timeout {
    const abort = (): void => this.#controller?.abort(Object.assign(new Error(`${what} stalled`), { code: 'BODY_IDLE' }))
    return setTimeout(abort, LIMITS.bodyIdleMs)
  }

  readonly #onAgentGone = (): void => {
    if (this.#isOver) return
    if (this.#controller) this.#controller.abort(agentGone())
    this.#finish(agentGone())
  }

  #finish(error?: unknown): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#uploadIdle)
    clearTimeout(this.#readIdle)
    this.#response.off('close', this.#onAgentGone)
    this.#request.socket.off('close', this.#onAgentGone)
    this.#done({ status: this.#status, bytesUp: this.#bytesUp, bytesDown: this.#bytesDown, ...(error !== undefined && { error }) })
  }
}

/** An agent that has its answer may send the rest of the body for nobody, but not for ever. */
function boundRest(request: IncomingMessage): void {
  const { socket } = request
  const stop = (): void => {
    clearTimeout(timer)
    socket.off('close', stop)
    request.off('end', stop)
  }
  const timer = setTimeout(() => {
    stop()
    socket.destroy()
  }, LIMITS.farewellMs)
  socket.once('close', stop)
  request.once('end', stop)
}

export function agentGone(): SallyportError {
  return new SallyportError('agent_gone', 'the agent closed the connection')
}

/** The coded error for what undici or a socket says. Errors that have a code of ours stay as they are. */
export function upstreamError(error: unknown, where: string): SallyportError {
  if (error instanceof SallyportError) return error
  const code = codeOf(error)
  if (error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError || code === 'BODY_IDLE') {
    return new SallyportError('upstream_timeout', `${where} did not answer in time (${code})`, { cause: error })
  }
  const isInvalid =
    error instanceof errors.HTTPParserError ||
    error instanceof errors.HeadersOverflowError ||
    error instanceof errors.ResponseContentLengthMismatchError ||
    code === 'INTERIM_FLOOD' ||
    code === 'ERR_INVALID_CHAR' ||
    code === 'ERR_HTTP_INVALID_STATUS_CODE' ||
    code === 'ERR_HTTP_INVALID_HEADER_VALUE'
  if (isInvalid) return new SallyportError('upstream_invalid', `the answer of ${where} is not valid HTTP (${code})`, { cause: error })
  return new SallyportError('upstream_unreachable', `the connection to ${where} broke (${code})`, { cause: error })
}

import { Readable, type Duplex } from 'node:stream'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Agent } from './agent.ts'
import type { Course } from './course.ts'
import { forwardedResponseHeaders, forwardedTrailers, valuesOf, type RawHeaders } from './headers.ts'
import type { Upstream, UpstreamController, UpstreamHandler } from '../upstream/upstream.ts'
import { relay } from './relay.ts'

/** What went over the wire. `error` says why an exchange did not end as it should. */
export type Outcome = {
  readonly status: number | undefined
  readonly bytesUp: number
  readonly bytesDown: number
  /** Secrets that were found in the answer. */
  readonly scrubbed?: number
  readonly error?: unknown
}

const VISIBLE = /^[\x20-\x7e]*$/
const EARLY_HINTS = 103

/** What goes to the upstream. `sensitive` names fields with a secret of ours: HTTP/2 must not keep them in its tables. */
export type ForwardedHead = {
  readonly method: string
  readonly path: string
  readonly headers: readonly string[]
  readonly sensitive: readonly string[]
}

/** What goes to the upstream in the agent's name. */
export type Outgoing = {
  readonly head: ForwardedHead
  /** The whole body, where a credential is in it or signs it; else the agent's is streamed. */
  readonly body: Buffer | undefined
  /** The fields behind the agent's body, as they go on. What it throws ends the exchange. */
  readonly trailers: (raw: RawHeaders) => string[]
}

/**
 * Sends a request on and its answer back, both streamed: each side is read only as fast as the other takes it, and no body
 * is ever held whole. When it gives an error and `agent.isAnswered` is false, nothing was answered yet. A course that is cut
 * ends it with its reason.
 */
export function forward(pool: Upstream, { head, body: held, trailers }: Outgoing, agent: Agent, course: Course): Promise<Outcome> {
  // What it is refused for is known before anything is dialled.
  if (held && !course.passes('up', held)) return Promise.resolve({ status: undefined, bytesUp: 0, bytesDown: 0, error: course.reason })
  return new Promise((resolve) => {
    const streamed = held === undefined && agent.body ? new Upload(agent.body, course) : null
    if (streamed) sendContinue(agent)
    const options = {
      ...head,
      body: held === undefined || (held.length === 0 && !agent.body) ? streamed : held,
      trailers: (): RawHeaders => trailers(agent.trailers()),
      ...(agent.upgrade && { upgrade: 'websocket' }),
    }
    pool.dispatch(options, new Relay(agent, course, streamed !== null, resolve))
  })
}

/** The body is answered here, not by the upstream (RFC 9110 §10.1.1): by now it is decided that it may come. */
export function sendContinue(agent: Agent): void {
  if (agent.isModern && expectsContinue(agent.head.rawHeaders)) agent.sendInterim(100, [])
}

function expectsContinue(headers: RawHeaders): boolean {
  return headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'expect' && headers[i + 1]?.toLowerCase() === '100-continue')
}

/**
 * The request's body for a dispatcher, which destroys a body when an exchange fails. Destroying the request itself would
 * close the agent's connection before the reason is written to it.
 */
class Upload extends Readable {
  readonly #body: Readable
  readonly #course: Course
  readonly #onData = (chunk: Buffer): void => {
    if (this.#course.passes('up', chunk) && !this.push(chunk)) this.#body.pause()
  }

  constructor(body: Readable, course: Course) {
    super()
    this.#body = body
    this.#course = course
    body.on('data', this.#onData)
    // An empty one may have told of its end while the request was decided: an HTTP/2 stream waits for nobody to read nothing.
    if (body.readableEnded) this.push(null)
    else body.on('end', () => this.push(null))
    body.on('error', (error) => this.destroy(error))
    body.pause()
  }

  override _read(): void {
    this.#body.resume()
  }

  /** Nobody wants the rest: it is taken off the wire, or an agent that goes on sending would never come to the next request. */
  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#body.off('data', this.#onData)
    this.#body.resume()
    callback(error)
  }
}

class Relay implements UpstreamHandler {
  readonly #agent: Agent
  readonly #course: Course
  readonly #isStreamed: boolean
  readonly #done: (outcome: Outcome) => void
  readonly #stopListening: () => void
  readonly #stopWaiting: () => void
  #controller: UpstreamController | undefined
  #uploadIdle: NodeJS.Timeout | undefined
  #readIdle: NodeJS.Timeout | undefined
  #status: number | undefined
  #bytesUp = 0
  #bytesDown = 0
  #interim = 0
  #isOver = false

  constructor(agent: Agent, course: Course, isStreamed: boolean, done: (outcome: Outcome) => void) {
    this.#agent = agent
    this.#course = course
    this.#isStreamed = isStreamed
    this.#done = done
    this.#stopListening = agent.onGone(() => this.#stop(agentGone()))
    this.#stopWaiting = course.onCut(this.#onCut)
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    if (this.#agent.isGone) controller.abort(agentGone())
    else if (this.#course.isCut) controller.abort(this.#course.reason as Error)
    // Also a body that is all here already: it may not all be taken.
    else if (this.#isStreamed) this.#uploadIdle = this.#watch('the body of the request', LIMITS.bodyIdleMs)
  }

  onBodySent(bytes: number): void {
    this.#bytesUp += bytes
    this.#uploadIdle?.refresh()
  }

  onRequestSent(): void {
    clearTimeout(this.#uploadIdle)
  }

  onResponseStart(controller: UpstreamController, status: number, reason: string): void {
    if (status < 200) {
      this.#interim += 1
      if (this.#interim > LIMITS.interimAnswersMax) controller.abort(Object.assign(new Error('too many 1xx'), { code: 'INTERIM_FLOOD' }))
      // RFC 8297. Other interim answers are about this hop, or were answered here already.
      else if (status === EARLY_HINTS && this.#agent.isModern)
        this.#agent.sendInterim(status, forwardedResponseHeaders(controller.rawHeaders, status))
      return
    }
    this.#status = status
    this.#waitLonger()
    const headers = forwardedResponseHeaders(controller.rawHeaders, status)
    // A reason phrase means nothing to a client (RFC 9112 §4); one that Node would not write is left out. On a header that
    // Node would not write this throws, and the dispatcher ends the exchange with an error.
    this.#agent.start(status, VISIBLE.test(reason) ? reason : '', headers)
    // Server-sent events: the head is due at once, not with the first byte of the body. What came in one read with it goes with
    // it: an answer that ends in its head (gRPC's Trailers-Only) must end there for the agent too.
    atEndOfTurn(this)
  }

  /** The head goes out by itself where nothing of the body came in its turn. */
  flushHead(): void {
    if (this.#bytesDown === 0 && !this.#isOver) this.#agent.flush()
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    this.#bytesDown += chunk.length
    this.#uploadIdle?.refresh()
    if (!this.#course.passes('down', chunk) || this.#agent.write(chunk)) return
    controller.pause()
    this.#readIdle = this.#watch('the agent, reading the answer,', LIMITS.bodyIdleMs)
    this.#agent.onceDrained(() => {
      clearTimeout(this.#readIdle)
      controller.resume()
    })
  }

  onResponseEnd(controller: UpstreamController): void {
    this.#agent.end(forwardedTrailers(controller.rawTrailers))
    this.#finish()
  }

  /** RFC 6455: from here on it is bytes, both ways, until one side has had enough. */
  onRequestUpgrade(controller: UpstreamController, status: number, socket: Duplex): void {
    const { upgrade } = this.#agent
    if (upgrade === undefined || this.#agent.isGone) {
      socket.destroy()
      this.#finish(agentGone())
      return
    }
    this.#status = status
    let agent: Duplex
    try {
      agent = upgrade(upgradedHeaders(controller.rawHeaders, status))
    } catch (error) {
      // Undici would destroy the socket with it, which has nobody any more who takes its error.
      socket.destroy()
      this.#status = undefined
      this.#finish(error)
      return
    }
    const cut = (): void => {
      agent.destroy()
      socket.destroy()
    }
    const stopWaiting = this.#course.onCut(cut)
    void relay(agent, socket, (way, chunk) => this.#course.passes(way, chunk)).then(({ bytesUp, bytesDown }) => {
      stopWaiting()
      this.#bytesUp = bytesUp
      this.#bytesDown = bytesDown
      this.#finish(this.#course.isCut ? this.#course.reason : undefined)
    })
    this.#ignore()
  }

  onResponseError(_controller: UpstreamController, error: Error): void {
    this.#finish(error)
  }

  /** Aborts when nothing moves for so long: a stalled side must not hold sockets and memory for good. */
  #watch(what: string, idleMs: number): NodeJS.Timeout {
    const abort = (): void => this.#controller?.abort(Object.assign(new Error(`${what} stalled`), { code: 'BODY_IDLE' }))
    return setTimeout(abort, idleMs)
  }

  /** Streams both ways (gRPC): from the answer's head on the agent may be as silent as the upstream. */
  #waitLonger(): void {
    if (this.#uploadIdle === undefined || this.#agent.isUploaded) return
    clearTimeout(this.#uploadIdle)
    this.#uploadIdle = this.#watch('the stream', LIMITS.upstreamBodyIdleMs)
  }

  readonly #onCut = (): void => this.#stop(this.#course.reason as Error)

  #stop(error: Error): void {
    if (this.#isOver) return
    this.#controller?.abort(error)
    this.#finish(error)
  }

  #finish(error?: unknown): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#ignore()
    this.#done({ status: this.#status, bytesUp: this.#bytesUp, bytesDown: this.#bytesDown, ...(error !== undefined && { error }) })
  }

  #ignore(): void {
    clearTimeout(this.#uploadIdle)
    clearTimeout(this.#readIdle)
    this.#stopListening()
    this.#stopWaiting()
  }
}

/** Those whose answers began in this turn of the event loop: one timer for all. */
let begun: Relay[] = []

function atEndOfTurn(answer: Relay): void {
  if (begun.length === 0) setImmediate(endTurn)
  begun.push(answer)
}

function endTurn(): void {
  const answers = begun
  begun = []
  for (const answer of answers) answer.flushHead()
}

/** RFC 6455 §4.1: what is not the protocol that was asked for is no success. I24: and not told in words of the answer. @throws upstream_invalid */
function upgradedHeaders(raw: RawHeaders, status: number): string[] {
  const protocols = valuesOf(raw, 'upgrade')
  if (protocols.length !== 1 || protocols[0]?.trim().toLowerCase() !== 'websocket')
    throw new SallyportError('upstream_invalid', 'the answer upgrades to another protocol than WebSocket')
  return forwardedResponseHeaders(raw, status)
}

export function agentGone(): SallyportError {
  return new SallyportError('agent_gone', 'the agent closed the connection')
}

/** The coded error for what a socket or a writer says. Errors that have a code of ours stay as they are. */
export function upstreamError(error: unknown, where: string): SallyportError {
  if (error instanceof SallyportError) return error
  const code = codeOf(error)
  if (code === 'BODY_IDLE') {
    return new SallyportError('upstream_timeout', `${where} did not answer in time (${code})`, { cause: error })
  }
  const isInvalid =
    code === 'INTERIM_FLOOD' ||
    code === 'ERR_INVALID_CHAR' ||
    code === 'ERR_HTTP_INVALID_STATUS_CODE' ||
    code === 'ERR_HTTP_INVALID_HEADER_VALUE'
  if (isInvalid) return new SallyportError('upstream_invalid', `the answer of ${where} is not valid HTTP (${code})`, { cause: error })
  return new SallyportError('upstream_unreachable', `the connection to ${where} broke (${code})`, { cause: error })
}

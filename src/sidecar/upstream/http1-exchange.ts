import type { Socket } from 'node:net'
import { Http1Upload } from './http1-upload.ts'
import type { UpstreamController, UpstreamHandler, UpstreamRequest } from './upstream.ts'

/** The connection that an exchange runs on. */
export type Carrier = {
  pause(): void
  resume(): void
  /** What came and what is due on it goes nowhere any more. */
  destroy(): void
  /** The body of the request: a piece of it was written, or all of it. */
  onSent(bytes: number): void
  onWhole(): void
}

/** Sent again, these do what they did once (RFC 9110 §9.2.2). */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])
const NONE: readonly string[] = []

/**
 * One request and its answer, from the moment it waits for a connection to its handler's last call. What a handler throws (a header
 * that cannot be written) ends the exchange, not the process.
 */
export class Http1Exchange implements UpstreamController {
  rawHeaders = NONE
  rawTrailers = NONE
  readonly request: UpstreamRequest
  readonly handler: UpstreamHandler
  /** Of the body that is streamed. */
  readonly upload: Http1Upload | undefined
  /** Its head has come, not only interim ones. */
  hasAnswer = false
  interim = 0
  /** Its handler has had its last call. */
  isOver = false
  readonly #onOver: (exchange: Http1Exchange) => void
  #carrier: Carrier | undefined
  #attempts = 0
  #wasSentTold = false

  /** `onOver` is called once, right before the handler's last call. */
  constructor(request: UpstreamRequest, handler: UpstreamHandler, onOver: (exchange: Http1Exchange) => void) {
    this.request = request
    this.handler = handler
    this.#onOver = onOver
    const { body } = request
    if (body === undefined || body === null || Buffer.isBuffer(body)) return
    this.upload = new Http1Upload(body, {
      onSent: (bytes) => this.#carrier?.onSent(bytes),
      onWhole: () => this.#carrier?.onWhole(),
      onBroken: (error) => this.fail(error),
    })
  }

  /** True before it was given to a connection. */
  get isUntried(): boolean {
    return this.#attempts === 0
  }

  /** Whether nothing is lost or done twice if it is sent once more. */
  get mayRunAgain(): boolean {
    const { method, body, upgrade } = this.request
    return this.#attempts === 1 && (body === undefined || body === null) && upgrade === undefined && IDEMPOTENT.has(method)
  }

  /** Nothing of it was written so far, though it has its connection: its body has not begun. */
  get isUnsent(): boolean {
    return this.upload?.isBegun === false
  }

  /** Tells the handler that it is its turn. False when that was the end of it. */
  begin(): boolean {
    this.#attempts += 1
    if (this.#attempts > 1) return !this.isOver
    try {
      this.handler.onRequestStart(this)
    } catch (error) {
      this.fail(error as Error)
    }
    return !this.isOver
  }

  /** From here on it can be paused, and its end is that of `carrier`; without one it is by itself again. */
  runsOn(carrier: Carrier | undefined): void {
    this.#carrier = carrier
  }

  abort(reason: Error): void {
    this.fail(reason)
  }

  pause(): void {
    this.#carrier?.pause()
  }

  resume(): void {
    this.#carrier?.resume()
  }

  bodySent(bytes: number): void {
    try {
      this.handler.onBodySent(bytes)
    } catch (error) {
      this.fail(error as Error)
    }
  }

  requestSent(): void {
    if (this.#wasSentTold) return
    this.#wasSentTold = true
    try {
      this.handler.onRequestSent()
    } catch (error) {
      this.fail(error as Error)
    }
  }

  fail(error: Error): void {
    if (!this.#end(error)) return
    this.handler.onResponseError(this, error)
  }

  /** The answer is whole; its connection is done with it. */
  complete(): void {
    this.#carrier = undefined
    if (!this.#end()) return
    try {
      this.handler.onResponseEnd(this)
    } catch (error) {
      this.handler.onResponseError(this, error as Error)
    }
  }

  /** The rest is another protocol, on this socket. */
  handOver(status: number, socket: Socket): void {
    this.#carrier = undefined
    if (!this.#end()) {
      socket.destroy()
      return
    }
    try {
      this.handler.onRequestUpgrade(this, status, socket)
    } catch (error) {
      socket.destroy()
      this.handler.onResponseError(this, error as Error)
    }
  }

  /** True once. */
  #end(error?: Error): boolean {
    if (this.isOver) return false
    this.isOver = true
    const carrier = this.#carrier
    this.#carrier = undefined
    carrier?.destroy()
    // The upstream said all it had to say, before it had the whole body perhaps.
    this.upload?.stop(error)
    this.#onOver(this)
    return true
  }
}

// The part that is used. The whole of undici (fetch, caches, WebSocket) takes 10 MB and 40 ms more in every sidecar.
import Pool from 'undici/lib/dispatcher/pool.js'
import type { Socket } from 'node:net'
import { Readable, type Duplex } from 'node:stream'
import type { Dispatcher } from 'undici'
import { LIMITS } from '../../kernel/limits.ts'
import type { Origin, UpstreamController, UpstreamHandler } from './upstream.ts'

export type Http1Origin = Origin & {
  readonly isConnected: boolean
  /** Uses a connection that is made already before it makes one. */
  adopt(socket: Socket): void
}

/** One origin over HTTP/1.1: undici's pool on the connections that `connect` makes. `url` is its scheme and authority. */
export function openHttp1Origin(url: string, connect: () => Promise<Socket>): Http1Origin {
  const adopted: Socket[] = []
  const pool = new Pool(url, {
    connections: LIMITS.upstreamConnectionsMax,
    pipelining: 1,
    allowH2: false,
    headersTimeout: LIMITS.upstreamHeadMs,
    bodyTimeout: LIMITS.upstreamBodyIdleMs,
    keepAliveTimeout: LIMITS.upstreamKeepAliveMs,
    keepAliveMaxTimeout: LIMITS.upstreamKeepAliveMs,
    maxHeaderSize: LIMITS.headBytesMax,
    connect(_options, callback) {
      const socket = adopted.pop()
      // Never in the same turn: a client that is given its socket while it asks for it forgets to send.
      const connection = socket ? Promise.resolve(socket) : connect()
      connection.then(
        (made) => callback(null, made),
        (error: Error) => callback(error, null),
      )
    },
  })
  return {
    dispatch({ method, path, headers, body, upgrade }, handler) {
      const options = {
        method,
        path,
        headers: [...headers],
        body: Buffer.isBuffer(body) ? Readable.from(body) : (body ?? null),
        ...(upgrade !== undefined && { upgrade }),
      }
      pool.dispatch(options, new Adapted(handler))
    },
    adopt(socket) {
      adopted.push(socket)
      // By then it is in use, unless another connection became free meanwhile.
      setImmediate(() => adopted.splice(0).forEach((unused) => unused.destroy()))
    },
    get isConnected() {
      return pool.stats.connected > 0
    },
    get pending() {
      return pool.stats.pending
    },
    get isBusy() {
      return pool.stats.running > 0 || pool.stats.pending > 0
    },
    close: () => pool.close(),
    destroy: () => pool.destroy(),
  }
}

class Adapted implements Dispatcher.DispatchHandler {
  readonly #handler: UpstreamHandler
  #controller: UpstreamController | undefined

  constructor(handler: UpstreamHandler) {
    this.#handler = handler
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#handler.onRequestStart(this.#of(controller))
  }

  onBodySent(chunk: Buffer): void {
    this.#handler.onBodySent(chunk.length)
  }

  onRequestSent(): void {
    this.#handler.onRequestSent()
  }

  onRequestUpgrade(controller: Dispatcher.DispatchController, status: number, _headers: unknown, socket: Duplex): void {
    this.#handler.onRequestUpgrade(this.#of(controller), status, socket)
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, _headers: unknown, reason?: string): void {
    this.#handler.onResponseStart(this.#of(controller), status, reason ?? '')
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#handler.onResponseData(this.#of(controller), chunk)
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    this.#handler.onResponseEnd(this.#of(controller))
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    this.#handler.onResponseError(this.#of(controller), error)
  }

  #of(controller: Dispatcher.DispatchController): UpstreamController {
    return (this.#controller ??= {
      abort: (reason) => controller.abort(reason),
      pause: () => controller.pause(),
      resume: () => controller.resume(),
      get rawHeaders() {
        return textsOf(controller.rawHeaders)
      },
      get rawTrailers() {
        return textsOf(controller.rawTrailers)
      },
    })
  }
}

function textsOf(raw: Dispatcher.DispatchController['rawHeaders']): string[] {
  return Array.isArray(raw) ? raw.map((part) => part.toString('latin1')) : []
}

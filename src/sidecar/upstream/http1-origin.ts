// The part that is used. The whole of undici (fetch, caches, WebSocket) takes 10 MB and 40 ms more in every sidecar.
import Pool from 'undici/lib/dispatcher/pool.js'
import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'
import type { Origin } from './upstream.ts'

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
      const options = { method, path, headers: [...headers], body: body ?? null, ...(upgrade !== undefined && { upgrade }) }
      pool.dispatch(options, handler)
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

// The part that is used. The whole of undici (fetch, caches, WebSocket) takes 10 MB and 40 ms more in every sidecar.
import Pool from 'undici/lib/dispatcher/pool.js'
import type { SecureContext, TLSSocket } from 'node:tls'
import { formatAuthority } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { dialTcp, dialTls, type Target } from './dial.ts'
import type { Upstream } from './upstream.ts'

/** Connections to one origin that carry requests of one key. */
export type Origin = Upstream & {
  /** Requests that wait for a connection. */
  readonly pending: number
  /** Whether a request runs or waits. */
  readonly isBusy: boolean
  /** Nothing new; resolves when what runs and waits has ended. */
  close(): Promise<void>
  destroy(): Promise<void>
}

export function openOrigin(key: Target & { readonly scheme: 'http' | 'https' }, trust: SecureContext): Origin {
  // Resumption stays within the origin: a session shared wider would tie two credentials together.
  let session: Buffer | undefined
  const remember = (socket: TLSSocket): TLSSocket => socket.on('session', (ticket) => (session = ticket))
  const pool = new Pool(`${key.scheme}://${formatAuthority(key.host, key.port)}`, {
    connections: LIMITS.upstreamConnectionsMax,
    pipelining: 1,
    allowH2: false,
    headersTimeout: LIMITS.upstreamHeadMs,
    bodyTimeout: LIMITS.upstreamBodyIdleMs,
    keepAliveTimeout: LIMITS.upstreamKeepAliveMs,
    keepAliveMaxTimeout: LIMITS.upstreamKeepAliveMs,
    maxHeaderSize: LIMITS.headBytesMax,
    connect(_options, callback) {
      const dialled = key.scheme === 'http' ? dialTcp(key) : dialTls(key, trust, session).then(remember)
      dialled.then(
        (socket) => callback(null, socket),
        (error: Error) => callback(error, null),
      )
    },
  })
  return {
    dispatch({ method, path, headers, body, upgrade }, handler) {
      pool.dispatch({ method, path, headers: [...headers], body: body ?? null, ...(upgrade !== undefined && { upgrade }) }, handler)
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

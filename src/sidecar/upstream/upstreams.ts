import type { Dispatcher } from 'undici'
// The part that is used. The whole of undici (fetch, caches, WebSocket) takes 10 MB and 40 ms more in every sidecar.
import Pool from 'undici/lib/dispatcher/pool.js'
import type { SecureContext, TLSSocket } from 'node:tls'
import { SallyportError } from '../../kernel/errors.ts'
import { formatAuthority } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { dialTcp, dialTls, type Target } from './dial.ts'

/** Which sockets may carry a request. Two requests share one only when all of it is equal. I7 */
export type UpstreamKey = Target & {
  readonly scheme: 'http' | 'https'
  /** Id of the credential that is written into requests on these sockets; empty for none. */
  readonly credential: string
}

export type Upstreams = AsyncDisposable & {
  /** The pool of these sockets. @throws overloaded when too many requests wait for one of them */
  pool(key: UpstreamKey): Dispatcher
  /** Pools that are held, for tests and the log. */
  readonly size: number
}

export function createUpstreams(trust: SecureContext): Upstreams {
  const pools = new Map<string, Pool>()

  function open(key: UpstreamKey): Pool {
    // Resumption stays within the pool: a session shared wider would tie two credentials together.
    let session: Buffer | undefined
    const remember = (socket: TLSSocket): TLSSocket => socket.on('session', (ticket) => (session = ticket))
    return new Pool(`${key.scheme}://${formatAuthority(key.host, key.port)}`, {
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
  }

  function shrink(): void {
    for (const [id, pool] of pools) {
      if (pools.size < LIMITS.upstreamPoolsMax) return
      if (pool.stats.running > 0 || pool.stats.pending > 0) continue
      pools.delete(id)
      void pool.close()
    }
  }

  return {
    get size() {
      return pools.size
    },
    pool(key) {
      const id = `${key.scheme} ${key.host} ${key.port} ${key.credential} ${key.addresses.toSorted().join(',')}`
      let pool = pools.get(id)
      if (pool) {
        pools.delete(id) // moves it to the young end
      } else {
        shrink()
        if (pools.size >= LIMITS.upstreamPoolsMax) throw new SallyportError('overloaded', 'too many upstreams are busy at once')
        pool = open(key)
      }
      pools.set(id, pool)
      if (pool.stats.pending > LIMITS.upstreamQueueMax) {
        throw new SallyportError('overloaded', `too many requests wait for ${key.host}:${key.port}`)
      }
      return pool
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()))
      pools.clear()
    },
  }
}

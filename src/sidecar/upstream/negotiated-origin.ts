import type { TLSSocket } from 'node:tls'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Alpn } from './dial.ts'
import type { Http1Origin } from './http1-origin.ts'
import { Http2Exchange } from './http2-exchange.ts'
import { openHttp2Upstream, type Http2Upstream } from './http2-upstream.ts'
import type { Origin, UpstreamHandler, UpstreamRequest } from './upstream.ts'

/**
 * An https origin that speaks what its upstream chooses by ALPN (RFC 7301). The first connection decides, and serves; what it
 * chose holds for as long as there are connections of that kind.
 */
export class NegotiatedOrigin implements Origin {
  readonly #where: string
  readonly #connect: (protocols: readonly Alpn[]) => Promise<TLSSocket>
  readonly #http1: Http1Origin
  readonly #sessions = new Set<Http2Upstream>()
  /** Requests that wait until it is known how they go, or for room on a session. */
  readonly #waiting = new Set<Http2Exchange>()
  readonly #ended = Promise.withResolvers<void>()
  #isHttp1 = false
  #isDialling = false
  #isPlacing = false
  #state: 'open' | 'closing' | 'closed' = 'open'

  /** `where` is the authority of requests without a Host field, and names the upstream in errors. */
  constructor(where: string, connect: (protocols: readonly Alpn[]) => Promise<TLSSocket>, http1: Http1Origin) {
    this.#where = where
    this.#connect = connect
    this.#http1 = http1
  }

  get pending(): number {
    return this.#waiting.size + this.#http1.pending
  }

  get isBusy(): boolean {
    const runs = [...this.#sessions].some(({ load }) => load > 0)
    return runs || this.#waiting.size > 0 || this.#isDialling || this.#http1.isBusy
  }

  dispatch(request: UpstreamRequest, handler: UpstreamHandler): void {
    // RFC 6455 is about HTTP/1.1, and few upstreams take WebSockets over HTTP/2 (RFC 8441).
    if (request.upgrade !== undefined) return this.#http1.dispatch(request, handler)
    this.#isHttp1 &&= this.#http1.isConnected || this.#http1.isBusy
    if (this.#isHttp1) return this.#http1.dispatch(request, handler)
    const exchange = new Http2Exchange(request, handler, this.#where)
    if (this.#state !== 'open') return exchange.fail(this.#closed())
    this.#waiting.add(exchange)
    this.#place()
  }

  close(): Promise<void> {
    if (this.#state === 'open') this.#state = 'closing'
    this.#finish()
    return this.#ended.promise
  }

  async destroy(): Promise<void> {
    this.#state = 'closed'
    this.#fail(this.#closed())
    for (const session of this.#sessions) session.destroy()
    await this.#http1.destroy()
    this.#ended.resolve()
  }

  /** Puts on sessions what waits, for as long as there is room, and makes a connection for the rest. */
  #place(): void {
    if (this.#isPlacing) return
    this.#isPlacing = true
    for (const exchange of this.#waiting) {
      const session = [...this.#sessions].find(({ room }) => room > 0)
      if (!session) break
      this.#waiting.delete(exchange)
      session.run(exchange)
    }
    this.#isPlacing = false
    const isUndecided = [...this.#sessions].some(({ isSettled }) => !isSettled)
    if (this.#waiting.size > 0 && !isUndecided && this.#sessions.size < LIMITS.upstreamConnectionsMax) this.#dial()
    this.#finish()
  }

  #dial(): void {
    if (this.#isDialling) return
    this.#isDialling = true
    this.#connect(['h2', 'http/1.1'])
      .then((socket) => {
        this.#isDialling = false
        if (this.#state === 'closed') socket.destroy()
        else if (socket.alpnProtocol === 'h2') this.#toHttp2(socket)
        else this.#toHttp1(socket)
      })
      .catch((error: Error) => {
        this.#isDialling = false
        // Those that wait while others run get their place when one of these has ended.
        if (!this.#isBusyByHttp2()) this.#fail(error)
        this.#finish()
      })
  }

  #toHttp2(socket: TLSSocket): void {
    const session = openHttp2Upstream(socket, {
      onRoom: () => {
        // One that takes no streams at all (SETTINGS_MAX_CONCURRENT_STREAMS of 0) would keep all waiting.
        if (session.load === 0 && session.room === 0) session.close()
        this.#place()
      },
      onUnprocessed: (exchange) => {
        if (exchange.attempts > LIMITS.upstreamRetriesMax || this.#state === 'closed') exchange.fail(this.#refused())
        else this.#waiting.add(exchange)
        this.#place()
      },
      onEnd: () => {
        this.#sessions.delete(session)
        this.#place()
      },
    })
    this.#sessions.add(session)
    this.#place()
  }

  #toHttp1(socket: TLSSocket): void {
    this.#isHttp1 = true
    for (const session of this.#sessions) session.close()
    this.#http1.adopt(socket)
    for (const exchange of this.#waiting) {
      this.#waiting.delete(exchange)
      const given = exchange.handOver()
      if (given) this.#http1.dispatch(given.request, given.handler)
    }
    this.#finish()
  }

  #isBusyByHttp2(): boolean {
    return [...this.#sessions].some(({ load }) => load > 0)
  }

  #fail(error: Error): void {
    const failing = [...this.#waiting]
    this.#waiting.clear()
    for (const exchange of failing) exchange.fail(error)
  }

  /** The end of a graceful close, when nothing waits any more. */
  #finish(): void {
    if (this.#state !== 'closing' || this.#waiting.size > 0 || this.#isDialling) return
    for (const session of this.#sessions) session.close()
    if (this.#sessions.size > 0) return
    this.#state = 'closed'
    void this.#http1.close().then(this.#ended.resolve, this.#ended.resolve)
  }

  #closed(): SallyportError {
    return new SallyportError('upstream_unreachable', `the connections to ${this.#where} are closed`)
  }

  #refused(): SallyportError {
    return new SallyportError('upstream_unreachable', `${this.#where} refuses every stream (REFUSED_STREAM)`)
  }
}

import type { TLSSocket } from 'node:tls'
import { Http2Connection } from '../../http2/connection.ts'
import type { ConnectionEvents, ConnectionOptions } from '../../http2/options.ts'
import type { StreamOwner } from '../../http2/stream.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { ExchangeHost, Http2Exchange, StreamEnd } from './http2-exchange.ts'

export type Http2Events = {
  /** There may be room where there was none. */
  onRoom(): void
  /** The upstream did nothing with this one: it may run again, elsewhere. */
  onUnprocessed(exchange: Http2Exchange): void
  /** The connection is gone. */
  onEnd(session: Http2Upstream): void
}

const upstreamOptions = (): ConnectionOptions => ({
  role: 'client',
  streamsMax: 0,
  streamWindowBytes: LIMITS.upstreamWindowBytes,
  windowBytes: LIMITS.upstreamSessionWindowBytes,
  headers: { bytesMax: LIMITS.headBytesMax, fieldsMax: LIMITS.headFieldsMax },
  noiseBurstMax: LIMITS.streamResetsBurstMax,
  noisePerSecondMax: LIMITS.streamResetsPerSecondMax,
})

/** One HTTP/2 connection to an upstream, over a socket that is connected and verified, which it owns. */
export class Http2Upstream implements ConnectionEvents, ExchangeHost {
  readonly #socket: TLSSocket
  readonly #events: Http2Events
  readonly #connection: Http2Connection
  /** RFC 9113 §3.4: SETTINGS come first. An upstream that never sends any is none. */
  readonly #unsettled: NodeJS.Timeout
  readonly #idle: NodeJS.Timeout
  #running = 0
  #isClosing = false

  constructor(socket: TLSSocket, events: Http2Events) {
    this.#socket = socket
    this.#events = events
    this.#connection = new Http2Connection(upstreamOptions(), this)
    this.#unsettled = setTimeout(() => socket.destroy(), LIMITS.tlsHandshakeMs)
    this.#idle = setTimeout(() => this.#endIdle(), LIMITS.upstreamKeepAliveMs)
    let failure: Error | undefined
    socket.on('error', (error) => (failure = error))
    socket.on('data', (chunk: Buffer) => this.#connection.receive(chunk))
    socket.on('drain', () => this.#connection.drained())
    // An upstream that ended its side answers nothing any more, and sockets here are half-open otherwise.
    socket.once('end', () => socket.destroy())
    socket.once('close', () => {
      clearTimeout(this.#unsettled)
      clearTimeout(this.#idle)
      this.#connection.lost(failure)
      events.onEnd(this)
    })
  }

  /** The upstream has sent its SETTINGS. */
  get isSettled(): boolean {
    return this.#connection.isSettled
  }

  /** Streams that run. */
  get load(): number {
    return this.#running
  }

  /** Streams that it takes now: one until the upstream has said how many, none once it is closing. */
  get room(): number {
    if (this.#isClosing || this.#socket.destroyed) return 0
    const streamsMax = this.isSettled ? this.#connection.streamsMax : Math.min(1, this.#connection.streamsMax)
    return Math.max(0, Math.min(streamsMax, LIMITS.upstreamStreamsMax) - this.#running)
  }

  /** Runs an exchange on a stream of its own. */
  run(exchange: Http2Exchange): void {
    this.#running += 1
    exchange.start(this.#connection, this)
  }

  ended(exchange: Http2Exchange, end: StreamEnd): void {
    this.#running -= 1
    // It might go on sending what nobody looks at any more.
    if (end === 'invalid') this.#isClosing = true
    if (this.#running === 0) this.#rest()
    if (end === 'unprocessed') this.#events.onUnprocessed(exchange)
    else this.#events.onRoom()
  }

  /** Nothing new; closes when the last stream has ended. */
  close(): void {
    this.#isClosing = true
    if (this.#running === 0) this.#connection.close()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  send(bytes: Buffer): boolean {
    return this.#socket.destroyed || this.#socket.write(bytes)
  }

  onRequest(): StreamOwner {
    throw new Error('an upstream opens no streams')
  }

  onSettings(): void {
    clearTimeout(this.#unsettled)
    this.#events.onRoom()
  }

  onGoaway(): void {
    this.close()
  }

  onRoom(): void {}

  onEnd(): void {
    if (this.#socket.destroyed) return
    this.#socket.destroySoon()
    // An upstream that does not read would keep what is said to it.
    this.#socket.pause()
    this.#socket.setTimeout(LIMITS.farewellMs, () => this.#socket.destroy())
  }

  /** Nothing runs. */
  #rest(): void {
    if (this.#isClosing) this.#connection.close()
    else this.#idle.refresh()
  }

  #endIdle(): void {
    if (this.#running === 0) this.close()
  }
}

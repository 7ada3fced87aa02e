import { connect, type ClientHttp2Session, type ClientSessionOptions } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import { LIMITS } from '../../kernel/limits.ts'
import type { Http2Exchange } from './http2-exchange.ts'

/** One HTTP/2 connection to an upstream. */
export type Http2Upstream = {
  /** Streams that it takes now: one until the upstream has said how many, none once it is closing. */
  readonly room: number
  /** Streams that run. */
  readonly load: number
  /** The upstream has sent its SETTINGS. */
  readonly isSettled: boolean
  /** Runs an exchange on a stream of its own. */
  run(exchange: Http2Exchange): void
  /** Nothing new; closes when the last stream has ended. */
  close(): void
  destroy(): void
}

export type Http2Events = {
  /** There may be room where there was none. */
  onRoom(): void
  /** The upstream did nothing with this one: it may run again, elsewhere. */
  onUnprocessed(exchange: Http2Exchange): void
  /** The connection is gone. */
  onEnd(session: Http2Upstream): void
}

/** Speaks HTTP/2 over a socket that is connected and verified. The session owns the socket. */
export function openHttp2Upstream(socket: TLSSocket, events: Http2Events): Http2Upstream {
  // Node has `strictSingleValueFields` for clients too; its types do not.
  const options: ClientSessionOptions & { strictSingleValueFields: boolean } = {
    createConnection: () => socket,
    // Fields that an agent sends twice reach HTTP/1.1 upstreams twice too.
    strictSingleValueFields: false,
    maxHeaderListPairs: LIMITS.headFieldsMax,
    maxReservedRemoteStreams: 0,
    maxSessionMemory: LIMITS.upstreamSessionMegabytesMax,
    settings: { enablePush: false, initialWindowSize: LIMITS.upstreamWindowBytes, maxHeaderListSize: LIMITS.headBytesMax },
  }
  // Every request names its own authority.
  const session = connect('https://upstream.invalid', options)
  session.setLocalWindowSize(LIMITS.upstreamSessionWindowBytes)
  return new Session(session, socket, events)
}

class Session implements Http2Upstream {
  readonly #session: ClientHttp2Session
  readonly #events: Http2Events
  readonly #running = new Set<Http2Exchange>()
  #isSettled = false
  #isClosing = false
  #idle: NodeJS.Timeout | undefined

  constructor(session: ClientHttp2Session, socket: TLSSocket, events: Http2Events) {
    this.#session = session
    this.#events = events
    // RFC 9113 §3.4: SETTINGS come first. An upstream that never sends any is none.
    const unsettled = setTimeout(() => session.destroy(), LIMITS.tlsHandshakeMs)
    session.once('remoteSettings', () => {
      clearTimeout(unsettled)
      this.#isSettled = true
      events.onRoom()
    })
    session.on('remoteSettings', () => this.#isSettled && events.onRoom())
    session.on('goaway', () => this.close())
    // What a stream has to say of it, its exchange says.
    session.on('error', () => {})
    // RFC 9113 §8.4: push was switched off. What is offered all the same is not looked at.
    session.on('stream', (stream) => stream.destroy())
    // An upstream that ended its side answers nothing any more, and sockets here are half-open otherwise.
    socket.once('end', () => socket.destroy())
    session.once('close', () => {
      clearTimeout(unsettled)
      clearTimeout(this.#idle)
      events.onEnd(this)
    })
    this.#rest()
  }

  get #isUsable(): boolean {
    return !this.#isClosing && !this.#session.closed && !this.#session.destroyed
  }

  get isSettled(): boolean {
    return this.#isSettled
  }

  get load(): number {
    return this.#running.size
  }

  get room(): number {
    if (!this.#isUsable) return 0
    const { maxConcurrentStreams = Infinity } = this.#isSettled ? this.#session.remoteSettings : { maxConcurrentStreams: 1 }
    return Math.max(0, Math.min(maxConcurrentStreams, LIMITS.upstreamStreamsMax) - this.load)
  }

  run(exchange: Http2Exchange): void {
    clearTimeout(this.#idle)
    this.#running.add(exchange)
    exchange.start(this.#session, (end) => {
      this.#running.delete(exchange)
      // It might go on sending what nobody looks at any more.
      if (end === 'invalid') this.close()
      if (this.load === 0) this.#rest()
      if (end === 'unprocessed') this.#events.onUnprocessed(exchange)
      else this.#events.onRoom()
    })
  }

  close(): void {
    this.#isClosing = true
    // Node's own graceful close would take back requests that were not written yet.
    if (this.load === 0) this.#session.close()
  }

  destroy(): void {
    this.#session.destroy()
  }

  /** Nothing runs. */
  #rest(): void {
    clearTimeout(this.#idle)
    if (this.#isClosing) this.#session.close()
    else if (this.#isUsable) this.#idle = setTimeout(() => this.close(), LIMITS.upstreamKeepAliveMs)
  }
}

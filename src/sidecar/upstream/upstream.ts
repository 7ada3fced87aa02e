import type { Duplex, Readable } from 'node:stream'

/** One request to an origin. */
export type UpstreamRequest = {
  readonly method: string
  /** With its query, as it stands in an HTTP/1.1 request line. */
  readonly path: string
  /** Name, value, name, value, … as on an HTTP/1.1 wire, with `host` in front. */
  readonly headers: readonly string[]
  /** Whole, or streamed: then it is destroyed when the exchange fails. */
  readonly body?: Buffer | Readable | null
  /** Name, value, … of the fields behind the body; asked for when the body has ended. Over HTTP/1.1 they are left out. */
  readonly trailers?: () => readonly string[]
  /** Lower-case names of fields with a secret in them, besides the usual ones: HPACK never indexes them (RFC 7541 §7.1.3). */
  readonly sensitive?: readonly string[]
  /** Asks for another protocol (WebSocket), always over HTTP/1.1: the handler's `onRequestUpgrade` gets the socket. */
  readonly upgrade?: string
}

/** One exchange, for its handler. */
export type UpstreamController = {
  /** Ends it: the handler gets `onResponseError` with this very error, unless it had its last call. */
  abort(reason: Error): void
  /** No more of the answer's body until `resume`; what was read already may still come. */
  pause(): void
  resume(): void
  /** The answer's head, while one that is interim is told its head, as latin1 text: name, value, … */
  readonly rawHeaders: readonly string[]
  /** The fields behind the answer's body, once it has ended. */
  readonly rawTrailers: readonly string[]
}

/**
 * Takes one exchange: either `onResponseEnd`, `onResponseError` or `onRequestUpgrade` is the last call. What it throws ends the
 * exchange with that error.
 */
export type UpstreamHandler = {
  /** Before anything is written; it may abort. */
  onRequestStart(controller: UpstreamController): void
  /** So many bytes of the request's body were handed to the connection. */
  onBodySent(bytes: number): void
  onRequestSent(): void
  /** The other protocol is spoken on the socket, which is the handler's from here on, and paused. */
  onRequestUpgrade(controller: UpstreamController, status: number, socket: Duplex): void
  /** Also for interim answers (1xx), any number of times before the answer. The reason phrase is empty where there is none. */
  onResponseStart(controller: UpstreamController, status: number, reason: string): void
  onResponseData(controller: UpstreamController, chunk: Buffer): void
  onResponseEnd(controller: UpstreamController): void
  onResponseError(controller: UpstreamController, error: Error): void
}

/** What sends requests to one origin. */
export type Upstream = {
  /** Faults go to the handler, as errors with a code. */
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): void
}

/** Connections to one origin that carry requests of one key. */
export type Origin = Upstream & {
  /** Requests that wait for a connection. */
  readonly pending: number
  /** Whether a request runs or waits. */
  readonly isBusy: boolean
  /** Nothing new; resolves when what runs and waits has ended. */
  close(): Promise<void>
  /** Ends everything at once. */
  destroy(): Promise<void>
}

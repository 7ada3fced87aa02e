import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'

/** One request to an origin. */
export type UpstreamRequest = {
  readonly method: string
  /** With its query, as it stands in an HTTP/1.1 request line. */
  readonly path: string
  /** Name, value, name, value, … as on an HTTP/1.1 wire, with `host` in front. */
  readonly headers: readonly string[]
  /** Destroyed when the exchange fails. */
  readonly body?: Readable | null
  /** Name, value, … of the fields behind the body; asked for when the body has ended. Over HTTP/1.1 they are left out. */
  readonly trailers?: () => readonly string[]
  /** Lower-case names of fields with a secret in them, besides the usual ones: HPACK never indexes them (RFC 7541 §7.1.3). */
  readonly sensitive?: readonly string[]
  /** Asks for another protocol (WebSocket), always over HTTP/1.1: the handler's `onRequestUpgrade` gets the socket. */
  readonly upgrade?: string
}

export type UpstreamController = Dispatcher.DispatchController

/** Takes the answer, in undici's manner: either `onResponseEnd`, `onResponseError` or `onRequestUpgrade` is the last call. */
export type UpstreamHandler = Dispatcher.DispatchHandler

/** What sends requests to one origin. */
export type Upstream = {
  /** Faults go to the handler, as coded errors or as undici's. `controller.rawHeaders` and `rawTrailers` are buffers: name, value, … */
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

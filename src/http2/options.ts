import type { RequestFields } from './fields.ts'
import type { HeaderLimits } from './hpack-decoder.ts'
import type { ConnectionError } from './protocol.ts'
import type { Http2Stream, StreamOwner } from './stream.ts'

export type ConnectionOptions = {
  readonly role: 'server' | 'client'
  /** Streams that a client may have open, and what it may send on one before it is taken; of a server, the latter. */
  readonly streamsMax: number
  readonly streamWindowBytes: number
  /** The same for all streams together. */
  readonly windowBytes: number
  readonly headers: HeaderLimits
  /** Resets, empty frames and the like, which cost more than they say: a burst of so many, then so many a second (CVE-2023-44487). */
  readonly noiseBurstMax: number
  readonly noisePerSecondMax: number
}

export type ConnectionEvents = {
  /** Bytes for the peer. False when it takes no more for now: `drained` says when it does. */
  send(bytes: Buffer): boolean
  /** A client has opened a stream: gives back who takes what comes on it. */
  onRequest(stream: Http2Stream, head: RequestFields, isEnd: boolean): StreamOwner
  /** The peer's settings are there, or new. */
  onSettings(): void
  /** The peer will take no new streams. */
  onGoaway(): void
  /** A stream has gone: there may be room for another, or none may be left. */
  onRoom(): void
  /** The last call: close the transport, once what was sent is out. `error` says how the peer broke the protocol. */
  onEnd(error: ConnectionError | undefined): void
}

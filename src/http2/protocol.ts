/** Frame types, flags, settings and codes of RFC 9113 §6 and §7. */
export const TYPE = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const FLAG = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const

export const SETTING = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const

export const CODE = {
  NO_ERROR: 0,
  PROTOCOL_ERROR: 1,
  INTERNAL_ERROR: 2,
  FLOW_CONTROL_ERROR: 3,
  SETTINGS_TIMEOUT: 4,
  STREAM_CLOSED: 5,
  FRAME_SIZE_ERROR: 6,
  REFUSED_STREAM: 7,
  CANCEL: 8,
  COMPRESSION_ERROR: 9,
  CONNECT_ERROR: 10,
  ENHANCE_YOUR_CALM: 11,
  INADEQUATE_SECURITY: 12,
  HTTP_1_1_REQUIRED: 13,
} as const

export const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
export const FRAME_HEAD_BYTES = 9
/** What a frame may have until SETTINGS say otherwise, and here always: ours do not. */
export const FRAME_BYTES_MAX = 16_384
export const WINDOW_BYTES_DEFAULT = 65_535
export const WINDOW_BYTES_MAX = 0x7f_ff_ff_ff
export const STREAM_ID_MAX = 0x7f_ff_ff_ff

/** What the peer does breaks the protocol, or a bound that holds it to: ends the connection with this code (RFC 9113 §5.4.1). */
export class ConnectionError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** Why a stream is over before it has ended both ways. */
export type Break = {
  /**
   * `reset`: by the peer. `refused`: the peer says that it did nothing with it (RFC 9113 §8.7). `invalid`: what came on it, or on its
   * connection, breaks the protocol. `lost`: its connection has ended.
   */
  readonly kind: 'reset' | 'refused' | 'invalid' | 'lost'
  /** RFC 9113 §7. */
  readonly code: number
  /** Says more, in words of ours. */
  readonly cause?: Error | undefined
}

const NAMES = new Map<number, string>(Object.entries(CODE).map(([name, code]) => [code, name]))

/** As RFC 9113 §7 calls it; one that is not there as its number. */
export function nameOfCode(code: number): string {
  return NAMES.get(code) ?? String(code)
}

/** The commonest of them. */
export function invalid(why: string): ConnectionError {
  return new ConnectionError(CODE.PROTOCOL_ERROR, why)
}

/** @throws ConnectionError for a frame whose type has another length */
export function checkLength(payload: Buffer, bytes: number): void {
  if (payload.length !== bytes) throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'a frame of a wrong length')
}

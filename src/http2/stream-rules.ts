import { areTrailers, readResponse } from './fields.ts'
import type { HpackDecoder } from './hpack-decoder.ts'
import { CODE } from './protocol.ts'
import type { Http2Stream } from './stream.ts'

/** How a peer breaks the protocol on one stream, which is reset with this code (RFC 9113 §5.4.2). */
export type Fault = { readonly code: number; readonly why: string }

export const NO_HEAD: Fault = { code: CODE.PROTOCOL_ERROR, why: 'a body before its head' }
export const NO_UPDATE: Fault = { code: CODE.PROTOCOL_ERROR, why: 'a window update of nothing' }
export const TOO_WIDE: Fault = { code: CODE.FLOW_CONTROL_ERROR, why: 'a window that cannot be' }
const TOO_MUCH: Fault = { code: CODE.FLOW_CONTROL_ERROR, why: 'more than the window of the stream' }
const OTHER_LENGTH: Fault = { code: CODE.PROTOCOL_ERROR, why: 'a body of another length than its head says' }
const TOO_LARGE: Fault = { code: CODE.ENHANCE_YOUR_CALM, why: 'a head of more than is taken' }
const MALFORMED: Fault = { code: CODE.PROTOCOL_ERROR, why: 'a field that none can be' }
const NO_ANSWER: Fault = { code: CODE.PROTOCOL_ERROR, why: 'a head that is none of an answer' }
const NO_TRAILERS: Fault = { code: CODE.PROTOCOL_ERROR, why: 'no trailers where only these can be' }

/** Counts a piece of a body; `bytes` are those of its frame, padding included. */
export function takeData(stream: Http2Stream, piece: Buffer, bytes: number, isEnd: boolean): Fault | undefined {
  stream.receiveWindow -= bytes
  if (stream.receiveWindow < 0) return TOO_MUCH
  stream.received += piece.length
  const { length, received } = stream
  return length >= 0 && (received > length || (isEnd && received < length)) ? OTHER_LENGTH : undefined
}

/** Gives an answer's head, or an interim one, to who waits for it (RFC 9113 §8.1). */
export function takeAnswer(stream: Http2Stream, { fields, isTooLarge, isMalformed }: HpackDecoder, isEnd: boolean): Fault | undefined {
  if (isTooLarge) return TOO_LARGE
  if (isMalformed) return MALFORMED
  const head = readResponse(fields)
  if (!head || (head.status < 200 && isEnd)) return NO_ANSWER
  if (head.status < 200) {
    stream.owner.onInterim(head.status, head.headers)
    return undefined
  }
  const hasNoBody = stream.hasNoBody || head.status === 204 || head.status === 304
  stream.length = hasNoBody ? 0 : head.length
  if (isEnd && stream.length > 0) return OTHER_LENGTH
  stream.hasHead = true
  stream.owner.onHead(head.status, head.headers)
  return undefined
}

/** Looks at what follows a body. */
export function takeTrailers(stream: Http2Stream, { fields, isTooLarge, isMalformed }: HpackDecoder, isEnd: boolean): Fault | undefined {
  if (isTooLarge) return TOO_LARGE
  if (isMalformed) return MALFORMED
  if (!isEnd || !areTrailers(fields)) return NO_TRAILERS
  return stream.received < stream.length ? OTHER_LENGTH : undefined
}

import { constants } from 'node:http2'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { valueOf } from './http2-fields.ts'

/** Codes that say that what came was wrong. nghttp2 resets with them what it cannot accept. */
const INVALID = new Set<number>([
  constants.NGHTTP2_PROTOCOL_ERROR,
  constants.NGHTTP2_FLOW_CONTROL_ERROR,
  constants.NGHTTP2_FRAME_SIZE_ERROR,
  constants.NGHTTP2_COMPRESSION_ERROR,
  constants.NGHTTP2_ENHANCE_YOUR_CALM,
])

const NAMES = new Map(
  Object.entries(constants)
    .filter(([name]) => /^NGHTTP2_(NO_ERROR|[A-Z]+(_[A-Z]+)*_ERROR|CANCEL|REFUSED_STREAM|ENHANCE_YOUR_CALM|SETTINGS_TIMEOUT)$/.test(name))
    .map(([name, code]) => [code as number, name.replace('NGHTTP2_', '')]),
)

/** The coded error for a stream that ended without an answer: with what it was reset, and what the session said. */
export function http2Error(rstCode: number, failure: Error | undefined, where: string): SallyportError {
  if (failure instanceof SallyportError) return failure
  const code = failure === undefined ? '' : codeOf(failure)
  // The cause of a cancelled stream is what ended its session.
  const cause = code === 'ERR_HTTP2_STREAM_CANCEL' && failure?.cause instanceof Error ? failure.cause : failure
  const options = cause === undefined ? {} : { cause }
  const causeCode = cause === undefined ? '' : codeOf(cause)
  const isReset = causeCode === '' || causeCode === 'ERR_HTTP2_STREAM_ERROR'
  const said = isReset ? (NAMES.get(rstCode) ?? String(rstCode)) : causeCode
  // ERR_HTTP2_ERROR is what nghttp2 says of frames that break the protocol; TOO_MANY_… are bounds of Node.
  const isInvalid = isReset ? INVALID.has(rstCode) : causeCode === 'ERR_HTTP2_ERROR' || causeCode.startsWith('ERR_HTTP2_TOO_MANY')
  if (isInvalid) return new SallyportError('upstream_invalid', `the answer of ${where} is not valid HTTP/2 (${said})`, options)
  return new SallyportError('upstream_unreachable', `the stream to ${where} broke (${said})`, options)
}

/** Whether the upstream, or a session that was closing, says that it did nothing with a stream (RFC 9113 §8.7). */
export function isUnprocessed(rstCode: number, failure: Error | undefined): boolean {
  const code = failure === undefined ? '' : codeOf(failure)
  if (code === 'ERR_HTTP2_GOAWAY_SESSION' || code === 'ERR_HTTP2_INVALID_SESSION' || code === 'ERR_HTTP2_OUT_OF_STREAMS') return true
  return rstCode === constants.NGHTTP2_REFUSED_STREAM && (code === '' || code === 'ERR_HTTP2_STREAM_ERROR')
}

/** The error of a request whose body is not as long as its head says, if so. */
export function brokenLength(headers: readonly string[], bytes: number): Error | undefined {
  const length = valueOf(headers, 'content-length')
  if (length === undefined || Number(length) === bytes) return undefined
  return new Error(`the body of the request has ${bytes} bytes, not ${length}`)
}

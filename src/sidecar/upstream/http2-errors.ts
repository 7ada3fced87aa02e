import { CODE, nameOfCode, type Break } from '../../http2/protocol.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { valueOf } from './http2-fields.ts'

/** Codes that say that what came was wrong. */
const INVALID = new Set<number>([
  CODE.PROTOCOL_ERROR,
  CODE.FLOW_CONTROL_ERROR,
  CODE.FRAME_SIZE_ERROR,
  CODE.COMPRESSION_ERROR,
  CODE.ENHANCE_YOUR_CALM,
])

/** The coded error for a stream that ended without an answer. */
export function http2Error({ kind, code, cause }: Break, where: string): SallyportError {
  const options = cause === undefined ? {} : { cause }
  const said = kind === 'lost' && cause !== undefined ? codeOf(cause) : nameOfCode(code)
  const isInvalid = kind === 'invalid' || (kind === 'reset' && INVALID.has(code))
  if (isInvalid) return new SallyportError('upstream_invalid', `the answer of ${where} is not valid HTTP/2 (${said})`, options)
  return new SallyportError('upstream_unreachable', `the stream to ${where} broke (${said})`, options)
}

/** The error of a request whose body is not as long as its head says, if so. */
export function brokenLength(headers: readonly string[], bytes: number): Error | undefined {
  const length = valueOf(headers, 'content-length')
  if (length === undefined || Number(length) === bytes) return undefined
  return new Error(`the body of the request has ${bytes} bytes, not ${length}`)
}

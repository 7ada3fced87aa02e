import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'

/** What llhttp found wrong, here and in Node's own server. */
export function refusalOfParser(error: Error): Refusal {
  const code = codeOf(error)
  if (code === 'HPE_HEADER_OVERFLOW')
    return { code: 'head_too_large', message: `the request head is longer than ${LIMITS.headBytesMax} bytes` }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { code: 'head_timeout', message: 'the request head did not arrive in time' }
  if (code === 'HPE_PAUSED_H2_UPGRADE') return { code: 'upgrade_refused', message: 'HTTP/2 without TLS (h2c)' }
  return { code: 'request_malformed', message: `the request is not valid HTTP/1.1 (${code})` }
}

import type { Duplex } from 'node:stream'
import { ERRORS, SallyportError, type Refusal, type RefusalCode } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { Agent } from './agent.ts'

/** Who was refused what, as far as it is known. */
export type RefusedRequest = {
  readonly requestId: string
  readonly host?: string | undefined
  readonly port?: number | undefined
  /** Code of the system's error behind it, where there is one. */
  readonly cause?: string | undefined
}

/** Proxy-Status error types (RFC 9209 §2.3) where one fits better than `http_request_denied`. */
const PROXY_STATUS: Partial<Record<RefusalCode, string>> = {
  address_refused: 'destination_ip_prohibited',
  name_refused: 'destination_ip_prohibited',
  request_malformed: 'http_request_error',
  target_invalid: 'http_request_error',
  host_invalid: 'http_request_error',
  head_too_large: 'http_request_error',
  head_timeout: 'http_request_error',
  upstream_name_failed: 'dns_error',
  upstream_unreachable: 'destination_unavailable',
  upstream_proxy_failed: 'destination_unavailable',
  upstream_tls_failed: 'tls_certificate_error',
  upstream_invalid: 'http_protocol_error',
  upstream_timeout: 'http_response_timeout',
  secret_unavailable: 'proxy_configuration_error',
  audit_unavailable: 'proxy_internal_error',
  overloaded: 'connection_limit_reached',
  host_busy: 'connection_limit_reached',
  internal: 'proxy_internal_error',
}

export function statusOf(code: RefusalCode): number {
  return ERRORS[code].status
}

/** The refusal that an error amounts to. Errors without a code of the table are faults of ours: their text stays here. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof SallyportError && isRefusalCode(error.code)) {
    const { code, message, hint, retryAfterMs } = error
    return { code, message, ...(hint !== undefined && { hint }), ...(retryAfterMs !== undefined && { retryAfterMs }) }
  }
  return { code: 'internal', message: 'the request could not be handled' }
}

/** Answers with problem+json (RFC 9457) and Proxy-Status (RFC 9209). */
export function answerRefusal(agent: Agent, refusal: Refusal, request: RefusedRequest): void {
  const { status, headers, body } = problem(refusal, request)
  agent.refuse(status, headers, body)
}

/** The same on a bare socket, which it ends: for CONNECT and for what never became a request. */
export function writeRefusal(socket: Duplex, refusal: Refusal, request: RefusedRequest): void {
  const { status, headers, body } = problem(refusal, request)
  const fields = Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`)
  // The reason phrase is all that some clients show of a refused CONNECT.
  socket.end(`HTTP/1.1 ${status} Refused by Sallyport: ${refusal.code}\r\n${fields.join('')}\r\n${body}`)
  sayFarewell(socket)
}

/**
 * Waits for the other side to close, `LIMITS.farewellMs` at most. What it still sends is read away: closing over unread bytes
 * would reset the connection before the answer is read, and a socket that nobody reads never notices that its peer is gone.
 */
export function sayFarewell(socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), LIMITS.farewellMs)
  socket.once('close', () => clearTimeout(timer))
  socket.on('error', () => socket.destroy())
  socket.resume()
}

/** The answer that a refusal is. */
export function problem(refusal: Refusal, request: RefusedRequest): { status: number; headers: Record<string, string>; body: string } {
  const status = statusOf(refusal.code)
  const document = {
    type: `urn:sallyport:error:${refusal.code}`,
    title: ERRORS[refusal.code].means,
    status,
    detail: refusal.message,
    code: refusal.code,
    host: request.host,
    port: request.port,
    rule: refusal.rule,
    hint: refusal.hint,
    request_id: request.requestId,
  }
  const body = `${JSON.stringify(document)}\n`
  const details = shown(`${refusal.code}: ${refusal.message}`).replace(/["\\]/g, "'")
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      'content-length': String(Buffer.byteLength(body)),
      'proxy-status': `sallyport; error=${PROXY_STATUS[refusal.code] ?? 'http_request_denied'}; details="${details}"`,
      'cache-control': 'no-store',
      ...retryAfter(refusal, status),
      ...(status === 401 && { 'www-authenticate': 'Bearer realm="sallyport"' }),
      ...(status === 407 && { 'proxy-authenticate': 'Basic realm="sallyport", charset="UTF-8"' }),
    },
    body,
  }
}

/** In whole seconds (RFC 9110 §10.2.3). Used up for good is used up: then there is none. */
function retryAfter({ code, retryAfterMs }: Refusal, status: number): Record<string, string> {
  if (retryAfterMs !== undefined) return { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) }
  if (code === 'approval_pending') return { 'retry-after': '2' }
  return (status === 429 && code !== 'budget_exhausted') || status === 503 ? { 'retry-after': '1' } : {}
}

/** Whether an agent is told of it as it is. */
export function isRefusalCode(code: keyof typeof ERRORS): code is RefusalCode {
  return ERRORS[code].to === 'agent'
}

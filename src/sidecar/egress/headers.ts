import { SallyportError } from '../../kernel/errors.ts'
import { fieldName, foldName, isCredentialField } from '../../wire/credential-fields.ts'

export { valuesOf } from '../../wire/credential-fields.ts'

/** Header fields as they stand on the wire: name, value, name, value, … */
export type RawHeaders = readonly string[]

/** Fields that end at this hop (RFC 9110 §7.6.1), or that this proxy answers itself. */
const HOP_BY_HOP = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'http2-settings',
  'expect',
  'proxy-authorization',
  'proxy-authenticate',
  'proxy-authentication-info',
])

/** Fields by which a request says that it is another one than its first line says: what was decided on is what is done. */
const OVERRIDES = new Set(['x-http-method-override', 'x-http-method', 'x-method-override', 'x-original-url', 'x-rewrite-url'])

/** Fields of a response that would lead the agent past the gate (RFC 7838). */
const STRIPPED_FROM_RESPONSES = new Set(['alt-svc'])

/** What a trailer must not say, as whoever merges trailers into the head would take it for the head's (RFC 9110 §6.5.1). */
const NOT_IN_TRAILERS = new Set(['content-length', 'host', 'cookie', 'content-type', 'content-encoding', 'content-range'])

/** The fields of a request that go on to the upstream, with the one canonical Host in front. */
export function forwardedRequestHeaders(headers: RawHeaders, host: string): string[] {
  const forwarded = ['host', host]
  const named = namedByConnection(headers)
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const { lower, folded } = fieldName(name)
    // gRPC's servers insist on it, and it is the one value that HTTP/2 has (RFC 9113 §8.2.2).
    if (lower === 'te' && headers[i + 1]?.trim().toLowerCase() === 'trailers') forwarded.push('te', 'trailers')
    if (lower === 'host' || HOP_BY_HOP.has(lower) || OVERRIDES.has(folded)) continue
    // A client must not be able to strip framing by naming it in Connection.
    if (named?.has(lower) === true && lower !== 'content-length') continue
    forwarded.push(name, headers[i + 1] ?? '')
  }
  return forwarded
}

/**
 * The fields of a response that go on to the agent.
 * @throws upstream_invalid for a transfer coding that would be lost with its field
 */
export function forwardedResponseHeaders(headers: RawHeaders, status: number): string[] {
  // RFC 9112 §5: white space around a value is no part of it, and HTTP/2 takes a field that has some for broken.
  const forwarded: string[] = []
  const named = namedByConnection(headers)
  for (let i = 0; i < headers.length; i += 2) {
    const name = trimmed(headers[i] ?? '')
    const value = trimmed(headers[i + 1] ?? '')
    const { lower } = fieldName(name)
    if (lower === 'transfer-encoding' && value.toLowerCase() !== 'chunked') {
      // I24: without words of the answer, which may have a secret in them.
      throw new SallyportError('upstream_invalid', 'the answer has a Transfer-Encoding that is not "chunked"')
    }
    // RFC 9110 §8.6, §15.3.6: nothing follows these. A client that believed a length would wait for bytes that never come.
    if (lower === 'content-length' && (status < 200 || status === 204 || status === 205)) continue
    if (HOP_BY_HOP.has(lower) || STRIPPED_FROM_RESPONSES.has(lower)) continue
    if (named?.has(lower) === true && lower !== 'content-length') continue
    forwarded.push(name, value)
  }
  return forwarded
}

/** The trailers that go on, either way. */
export function forwardedTrailers(trailers: RawHeaders): string[] {
  const forwarded: string[] = []
  for (let i = 0; i < trailers.length; i += 2) {
    const name = trailers[i] ?? ''
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || STRIPPED_FROM_RESPONSES.has(lower) || OVERRIDES.has(foldName(name))) continue
    if (NOT_IN_TRAILERS.has(foldName(name)) || isCredentialField(name)) continue
    forwarded.push(name, trimmed(trailers[i + 1] ?? ''))
  }
  return forwarded
}

/** Without what the agent sent in a credential's field, in any case and any number, and in its siblings. */
export function withoutCredentials(headers: readonly string[], field: string): string[] {
  const place = foldName(field)
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    if (foldName(name) !== place && !isCredentialField(name)) kept.push(name, headers[i + 1] ?? '')
  }
  return kept
}

function trimmed(value: string): string {
  let from = 0
  let to = value.length
  // No expression does this in one pass: white space in the middle would be looked at from each of its beginnings.
  while (from < to && isSpace(value.charCodeAt(from))) from += 1
  while (to > from && isSpace(value.charCodeAt(to - 1))) to -= 1
  return to - from === value.length ? value : value.slice(from, to)
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09
}

function namedByConnection(headers: RawHeaders): Set<string> | undefined {
  let named: Set<string> | undefined
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]
    if (name?.length !== 10 || fieldName(name).lower !== 'connection') continue
    for (const token of (headers[i + 1] ?? '').split(',')) {
      named ??= new Set()
      named.add(token.trim().toLowerCase())
    }
  }
  return named
}

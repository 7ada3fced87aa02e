/** A head as it came, its fields in order: name, value, … */
export type RequestFields = {
  readonly method: string
  readonly scheme: string | undefined
  readonly authority: string | undefined
  readonly path: string
  readonly headers: string[]
  /** Of `content-length`; -1 without one. */
  readonly length: number
}

export type ResponseFields = { readonly status: number; readonly headers: string[]; readonly length: number }

/** RFC 9113 §8.2.2: fields of HTTP/1.1 connections. */
const OF_HOPS = new Set(['connection', 'proxy-connection', 'keep-alive', 'transfer-encoding', 'upgrade'])
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const PATH = /^[\x21-\x7e\x80-\xff]+$/
const AUTHORITY = /^[\x21-\x7e\x80-\xff]*$/
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]*$/
const STATUS = /^[1-9][0-9]{2}$/
const DIGITS = /^[0-9]{1,15}$/
const MALFORMED = -2

/** Reads the fields of a request (RFC 9113 §8.3.1), or gives back nothing for one that is malformed. */
export function readRequest(fields: readonly string[]): RequestFields | undefined {
  let method: string | undefined
  let scheme: string | undefined
  let authority: string | undefined
  let path: string | undefined
  let at = 0
  for (; at < fields.length && isPseudo(fields[at] as string); at += 2) {
    const value = fields[at + 1] as string
    switch (fields[at]) {
      case ':method':
        if (method !== undefined || !TOKEN.test(value)) return undefined
        method = value
        break
      case ':scheme':
        if (scheme !== undefined || !SCHEME.test(value)) return undefined
        scheme = value
        break
      case ':authority':
        if (authority !== undefined || !AUTHORITY.test(value)) return undefined
        authority = value
        break
      case ':path':
        if (path !== undefined || !PATH.test(value)) return undefined
        path = value
        break
      default:
        // `:protocol` too: RFC 8441 is not offered.
        return undefined
    }
  }
  const headers = fields.slice(at)
  const length = checkHeaders(headers)
  if (length === MALFORMED || method === undefined) return undefined
  if (method === 'CONNECT') {
    return scheme !== undefined || path !== undefined || !authority ? undefined : { method, scheme, authority, path: '', headers, length }
  }
  if (scheme === undefined || path === undefined || (authority === undefined && hostOf(headers) === undefined)) return undefined
  if (!path.startsWith('/') && !(path === '*' && method === 'OPTIONS')) return undefined
  return { method, scheme, authority, path, headers, length }
}

/** Reads the fields of a response (RFC 9113 §8.3.2), or gives back nothing for one that is malformed. */
export function readResponse(fields: readonly string[]): ResponseFields | undefined {
  const status = fields[1]
  // RFC 9113 §8.6: there is no switch of protocols.
  if (fields[0] !== ':status' || status === undefined || !STATUS.test(status) || status === '101') return undefined
  const headers = fields.slice(2)
  const length = checkHeaders(headers)
  return length === MALFORMED ? undefined : { status: Number(status), headers, length }
}

/** True for the fields behind a body (RFC 9113 §8.1). */
export function areTrailers(fields: readonly string[]): boolean {
  return checkHeaders(fields) !== MALFORMED
}

/** The length they tell of, -1 without one, `MALFORMED` where no HTTP/2 message has such fields. */
function checkHeaders(headers: readonly string[]): number {
  let length = -1
  let isHosted = false
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    const value = headers[i + 1] as string
    if (isPseudo(name) || OF_HOPS.has(name)) return MALFORMED
    if (name === 'te' && value.toLowerCase() !== 'trailers') return MALFORMED
    if (name === 'content-length') {
      // RFC 9110 §8.6: two lengths are one too many, also when they agree.
      if (length !== -1 || !DIGITS.test(value)) return MALFORMED
      length = Number(value)
    } else if (name === 'host') {
      if (isHosted || !AUTHORITY.test(value)) return MALFORMED
      isHosted = true
    }
  }
  return length
}

function hostOf(headers: readonly string[]): string | undefined {
  const at = headers.findIndex((name, i) => i % 2 === 0 && name === 'host')
  return at < 0 ? undefined : headers[at + 1]
}

const isPseudo = (name: string): boolean => name.charCodeAt(0) === 0x3a

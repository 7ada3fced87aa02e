import { validateHeaderName, validateHeaderValue } from 'node:http'
import { sensitiveHeaders, type OutgoingHttpHeaders } from 'node:http2'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { UpstreamRequest } from './upstream.ts'

/** Fields that HPACK may keep in its tables: all others, whatever an agent calls its credentials, are never indexed (RFC 7541 §7.1.3). */
const INDEXED = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'content-type',
  'grpc-accept-encoding',
  'grpc-encoding',
  'te',
  'user-agent',
])

/** The header block of a request: pseudo-header fields in front, names in lower case, `host` as `:authority`. @throws on what HTTP/2 cannot carry */
export function http2Headers({ method, path, headers, sensitive }: UpstreamRequest, authority: string): string[] {
  // Node checks none of these when it writes HTTP/2, and takes NUL for the end of a field.
  validateHeaderName(method)
  if (/[^\x21-\x7e\x80-\xff]/.test(path)) throw Object.assign(new Error('the path cannot be written'), { code: 'ERR_INVALID_CHAR' })
  const fields: string[] = []
  const unindexed = new Set([':path', ...(sensitive ?? [])])
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] ?? '').toLowerCase()
    const value = headers[i + 1] ?? ''
    if (name === 'host' || (name === 'te' && value.trim().toLowerCase() !== 'trailers')) continue
    validateHeaderName(name)
    validateHeaderValue(name, value)
    if (!INDEXED.has(name)) unindexed.add(name)
    fields.push(name, value)
  }
  const host = valueOf(headers, 'host') ?? authority
  validateHeaderValue(':authority', host)
  const block = [':method', method, ':scheme', 'https', ':authority', host, ':path', path, ...fields]
  return Object.assign(block, { [sensitiveHeaders]: [...unindexed] })
}

/** Trailer fields as Node takes them, every one of them never indexed. @throws on what HTTP/2 cannot carry */
export function http2Trailers(trailers: readonly string[]): OutgoingHttpHeaders {
  const fields: Record<string, string[]> = Object.create(null) as Record<string, string[]>
  for (let i = 0; i < trailers.length; i += 2) {
    const name = (trailers[i] ?? '').toLowerCase()
    validateHeaderName(name)
    validateHeaderValue(name, trailers[i + 1] ?? '')
    ;(fields[name] ??= []).push(trailers[i + 1] ?? '')
  }
  return { ...fields, [sensitiveHeaders]: Object.keys(fields) }
}

/**
 * Fields as they came, without pseudo-header fields: name, value, …
 * @throws upstream_invalid when they are too long: nghttp2 holds an upstream to our limit only once it has acknowledged it
 */
export function rawFields(raw: readonly string[]): string[] {
  const bytes = raw.reduce((sum, part) => sum + part.length, 0)
  if (bytes > LIMITS.headBytesMax) throw new SallyportError('upstream_invalid', `a head of the answer has ${bytes} bytes`)
  const fields: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]?.startsWith(':') === true) continue
    fields.push(raw[i] ?? '', raw[i + 1] ?? '')
  }
  return fields
}

/** The first value of a field. `name` is lower case. */
export function valueOf(headers: readonly string[], name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === name) return headers[i + 1]
  }
  return undefined
}

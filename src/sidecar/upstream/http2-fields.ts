import { validateHeaderName, validateHeaderValue } from 'node:http'
import type { RequestBlock } from '../../http2/frame-writer.ts'
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
const isIndexed = (name: string): boolean => INDEXED.has(name)

/** Names that were found to be some, and what they are in lower case. */
const known = new Map<string, string>()
const KNOWN_MAX = 1_000
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** The head of a request: names in lower case, `host` as the authority. @throws on what HTTP/2 cannot carry */
export function http2Head({ method, path, headers, sensitive }: UpstreamRequest, authority: string): RequestBlock {
  // What is written is not looked at again.
  validateHeaderName(method)
  if (path === '' || /[^\x21-\x7e\x80-\xff]/.test(path))
    throw Object.assign(new Error('the path cannot be written'), { code: 'ERR_INVALID_CHAR' })
  const fields: string[] = []
  let host: string | undefined
  for (let i = 0; i < headers.length; i += 2) {
    const name = lowerName(headers[i] ?? '')
    const value = headers[i + 1] ?? ''
    checkValue(name, value)
    if (name === 'host') host ??= value
    else if (name !== 'te' || value.trim().toLowerCase() === 'trailers') fields.push(name, value)
  }
  const isPlain =
    sensitive === undefined || sensitive.length === 0 ? isIndexed : (name: string) => isIndexed(name) && !sensitive.includes(name)
  return { method, authority: host ?? authority, path, headers: fields, isPlain }
}

/** Fields as HTTP/2 has them: names in lower case. @throws on what it cannot carry */
export function writableFields(headers: readonly string[]): string[] {
  const fields: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = lowerName(headers[i] ?? '')
    const value = headers[i + 1] ?? ''
    checkValue(name, value)
    fields.push(name, value)
  }
  return fields
}

function lowerName(name: string): string {
  const found = known.get(name)
  if (found !== undefined) return found
  validateHeaderName(name)
  const lower = name.toLowerCase()
  if (known.size < KNOWN_MAX && name.length < 64) known.set(name, lower)
  return lower
}

function checkValue(name: string, value: string): void {
  // Node has the words for it.
  if (!VALUE.test(value)) validateHeaderValue(name, value)
}

/** The first value of a field. `name` is lower case. */
export function valueOf(headers: readonly string[], name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === name) return headers[i + 1]
  }
  return undefined
}

import { fieldName } from '../../../wire/credential-fields.ts'
import type { RawHeaders } from '../headers.ts'

/** Content codings that answers can be looked into with. */
const READABLE = new Set(['gzip', 'x-gzip', 'deflate', 'br', 'zstd', 'identity'])

/**
 * Fields of a request that would have the upstream send what cannot be looked into: parts (RFC 9110 §14.2), which could be cut
 * in the middle of a secret, differences (RFC 3229), compressed WebSocket messages (RFC 7692).
 */
const DROPPED = new Set(['range', 'if-range', 'a-im', 'sec-websocket-extensions'])

/** Fields that offer compressed messages inside a body: gRPC, Connect. */
const MESSAGE_CODINGS = new Set(['grpc-accept-encoding', 'connect-accept-encoding'])

/** The fields of a request, flat, so that its answer can be looked into for secrets. */
export function scrubbableRequest(headers: RawHeaders): string[] {
  const asked: string[] = []
  const accepted: string[] = []
  let acceptAt = -1
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const value = headers[i + 1] ?? ''
    const { lower } = fieldName(name)
    if (DROPPED.has(lower)) continue
    if (lower === 'accept-encoding') {
      accepted.push(...value.split(',').filter(isReadable))
      if (acceptAt >= 0) continue
      acceptAt = asked.length + 1
    }
    asked.push(name, MESSAGE_CODINGS.has(lower) ? 'identity' : value)
  }
  if (acceptAt >= 0) asked[acceptAt] = accepted.length === 0 ? 'identity' : accepted.map((item) => item.trim()).join(', ')
  return asked
}

function isReadable(item: string): boolean {
  return READABLE.has((item.split(';', 1)[0] ?? '').trim().toLowerCase())
}

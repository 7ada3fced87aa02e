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

/** Fields of a response that would lead the agent past the gate (RFC 7838). */
const STRIPPED_FROM_RESPONSES = new Set(['alt-svc'])

/**
 * Fields in which services take credentials. Where one is injected the agent's own value in any of them is dropped: a
 * service that reads two of them may prefer the agent's.
 */
const CREDENTIAL_FIELDS = new Set([
  'authorization',
  'x-api-key',
  'api-key',
  'x-auth-token',
  'x-goog-api-key',
  'private-token',
  'job-token',
  'x-access-token',
])

/** Every value of a field, in order. `name` is lower case. */
export function valuesOf(headers: RawHeaders, name: string): string[] {
  const values: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === name) values.push(headers[i + 1] ?? '')
  }
  return values
}

/** The fields of a request that go on to the upstream, with the one canonical Host in front. */
export function forwardedRequestHeaders(headers: RawHeaders, host: string): string[] {
  const forwarded = ['host', host]
  const named = namedByConnection(headers)
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const lower = name.toLowerCase()
    if (lower === 'host' || HOP_BY_HOP.has(lower)) continue
    // A client must not be able to strip framing by naming it in Connection.
    if (named?.has(lower) === true && lower !== 'content-length') continue
    forwarded.push(name, headers[i + 1] ?? '')
  }
  return forwarded
}

/** The fields of a response that go on to the agent. */
export function forwardedResponseHeaders(headers: readonly Buffer[]): string[] {
  const raw = headers.map((part) => part.toString('latin1'))
  const forwarded: string[] = []
  const named = namedByConnection(raw)
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] ?? ''
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || STRIPPED_FROM_RESPONSES.has(lower)) continue
    if (named?.has(lower) === true && lower !== 'content-length') continue
    forwarded.push(name, raw[i + 1] ?? '')
  }
  return forwarded
}

/** Writes a credential into its field. What the agent sent there, in any case and any number, and in sibling fields, goes. */
export function withCredential(headers: readonly string[], field: string, value: string): string[] {
  const lowerField = field.toLowerCase()
  const written: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const lower = name.toLowerCase()
    if (lower === lowerField || CREDENTIAL_FIELDS.has(lower)) continue
    written.push(name, headers[i + 1] ?? '')
  }
  written.push(field, value)
  return written
}

function namedByConnection(headers: RawHeaders): Set<string> | undefined {
  let named: Set<string> | undefined
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]
    if (name?.length !== 10 || name.toLowerCase() !== 'connection') continue
    for (const token of (headers[i + 1] ?? '').split(',')) {
      named ??= new Set()
      named.add(token.trim().toLowerCase())
    }
  }
  return named
}

import type { BodyPlace, SwapPlace } from '../wire/credential.ts'

/** Where a placeholder is swapped for which the policy says no place. */
export const DEFAULT_PLACES: readonly SwapPlace[] = [{ kind: 'header' }, { kind: 'basic' }]

const KINDS = ['header', 'basic', 'query', 'path', 'body'] as const
/** Unreserved characters (RFC 3986 §2.3), and those of names like "user[token]" and "$key". */
const PARAMETER = /^[A-Za-z0-9._~$:[\]-]{1,128}$/
const POINTER_MAX = 512
/** Deeper than real requests, and short enough to walk. */
const POINTER_DEPTH_MAX = 32
/** Fields that belong to one connection (RFC 9110 §7.6.1), or that say where a message goes and ends. */
const REFUSED_HEADERS = new Set(
  'connection proxy-connection keep-alive te trailer transfer-encoding upgrade host content-length proxy-authorization proxy-authenticate expect'.split(
    ' ',
  ),
)

/** What is a header field to every service, and no field of a form. */
const HEADERS_ONLY = /^(?:authorization|cookie|(?:x|private|job)-.*)$/i

/** Why a credential cannot go into this header field, or `undefined`. */
export function headerProblem(value: string): string | undefined {
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/.test(value)) return `header "${value}" is not the name of a header field`
  return REFUSED_HEADERS.has(value.toLowerCase())
    ? `header "${value}" belongs to the connection or frames the message: no credential goes there`
    : undefined
}

/** Why this is not the name of a query parameter, or `undefined`. */
export function queryProblem(value: string): string | undefined {
  if (PARAMETER.test(value)) return undefined
  const bare = value.replace(/^[?&]+/, '').replace(/=.*$/s, '')
  const hint = bare !== value && PARAMETER.test(bare) ? `: write "${bare}"` : ''
  return `query "${value}" is not the name of a parameter: letters, digits and ._~$:[]- only, 128 at most${hint}`
}

/** Reads `/json/pointer` (RFC 6901) or the name of a form field. A string is why it is refused. */
export function parseBodyPlace(text: string): BodyPlace | string {
  if (!text.startsWith('/')) {
    if (HEADERS_ONLY.test(text)) return `body "${text}" is the name of a header field: use header: ${text}`
    return PARAMETER.test(text)
      ? { kind: 'form', field: text }
      : `body "${text}" is neither a JSON pointer like "/auth/token" nor the name of a form field (letters, digits and ._~$:[]-)`
  }
  if (text.length > POINTER_MAX || !/^[\x20-\x7e\u00a0-\u{10ffff}]*$/u.test(text))
    return `body pointers are ${POINTER_MAX} characters at most, without control characters`
  if (/~(?![01])/.test(text)) return `body "${text}" has a "~" that is none of JSON pointers: write "~0" for "~" and "~1" for "/"`
  const pointer = text
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'))
  return pointer.length > POINTER_DEPTH_MAX ? `body "${text}" is more than ${POINTER_DEPTH_MAX} levels deep` : { kind: 'json', pointer }
}

/** Reads an entry of `in`: where a placeholder may stand. A string is why it is refused. */
export function parsePlace(text: string): SwapPlace | string {
  const colon = text.indexOf(':')
  const kind = colon === -1 ? text : text.slice(0, colon)
  const name = colon === -1 ? undefined : text.slice(colon + 1)
  switch (kind) {
    case 'header':
      if (name === undefined) return { kind }
      return headerProblem(name) ?? { kind, header: name }
    case 'basic':
    case 'path':
      return name === undefined ? { kind } : `"${text}" in in: "${kind}" stands alone`
    case 'query':
      if (name === undefined) return '"query" in in needs the name of the parameter: write for example "query:key"'
      return queryProblem(name) ?? { kind, name }
    case 'body': {
      if (name === undefined) return '"body" in in needs a JSON pointer or form field: write for example "body:/auth/token" or "body:token"'
      const at = parseBodyPlace(name)
      return typeof at === 'string' ? at : { kind, at }
    }
    default: {
      const right = KINDS.find((known) => known === kind.trim().toLowerCase())
      const meant = right === undefined ? '' : `; write "${right}${name === undefined ? '' : `:${name.trim()}`}"`
      return `"${text}" in in is none of header, header:NAME, basic, query:NAME, path, body:/POINTER and body:FIELD${meant}`
    }
  }
}

/** As it is written in a policy file. */
export function formatSwapPlace(place: SwapPlace): string {
  switch (place.kind) {
    case 'header':
      return place.header === undefined ? 'header' : `header:${place.header}`
    case 'query':
      return `query:${place.name}`
    case 'body':
      return `body:${formatBodyPlace(place.at)}`
    case 'basic':
    case 'path':
      return place.kind
  }
}

/** As it is written in a policy file. */
export function formatBodyPlace(at: BodyPlace): string {
  return at.kind === 'form' ? at.field : at.pointer.map((segment) => `/${segment.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** A path of a request as rules see it: split into segments, hex digits of triplets in upper case. */
export type PathSegments = readonly string[]

/** A path pattern of a rule or a credential. */
export type PathPattern = {
  /** As it stands in the file. */
  readonly text: string
  readonly segments: readonly SegmentPattern[]
  /** Characters before the first wildcard. */
  readonly literalLength: number
  readonly isLiteral: boolean
}

/** `any`: `**`, any number of segments. `glob`: the literal pieces between the stars of one segment. */
export type SegmentPattern =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'glob'; readonly pieces: readonly string[] }
  | { readonly kind: 'one' }
  | { readonly kind: 'any' }

/** RFC 3986 pchar and "/", plus what URL parsers leave as it is. Everything else has a second, encoded spelling. */
const PLAIN = /^[A-Za-z0-9\-._~!$&'()*+,;=:@/[\]|%]*$/
const UNRESERVED = /^[A-Za-z0-9\-._~]$/

/** The path part of a request target. */
export function pathOf(target: string): string {
  const query = target.indexOf('?')
  return query === -1 ? target : target.slice(0, query)
}

/**
 * Why a path could be read in two ways, or `undefined` when it is canonical. `%2f` stays a character of its segment,
 * but counts as a separator in the search for dot segments: some upstreams decode it.
 */
export function pathProblem(path: string): string | undefined {
  if (!path.startsWith('/')) return 'it does not start with "/"'
  if (path.includes('\\')) return 'it has a backslash, which some servers take for "/"'
  if (!PLAIN.test(path)) return 'it has a character that must be percent-encoded'
  if (path.includes('//')) return 'it has an empty segment ("//")'
  if (path.includes('%')) {
    const problem = tripletProblem(path)
    if (problem !== undefined) return problem
  }
  // CVE-2019-9901, and "/..;/" of servers that cut parameters off before they resolve dots.
  if (path.includes('.') && path.split(/\/|%(?:25)*2f/i).some((piece) => /^\.{1,2}(?:;|%(?:25)*3b|$)/i.test(piece)))
    return 'it has a dot segment'
  return undefined
}

/** The spelling that a non-canonical path probably means, or `undefined` where it has none. Settled: again gives the same. */
export function canonicalPath(path: string): string | undefined {
  let text = path.replaceAll('\\', '/').replace(/%5c/gi, '/')
  text = text.replace(/%([0-9a-f]{2})/gi, (triplet, hex: string) => {
    const char = String.fromCharCode(Number.parseInt(hex, 16))
    return UNRESERVED.test(char) ? char : triplet.toUpperCase()
  })
  text = text.replace(/[^\x21-\x7e]|["<>^`{}]/gu, (char) => encodeSafely(char))
  const kept: string[] = []
  for (const segment of text.split('/')) {
    if (segment === '' || segment === '.') continue
    if (segment === '..') kept.pop()
    else kept.push(segment)
  }
  const isFolder = kept.length > 0 && /\/(?:\.{0,2})$/.test(text)
  const settled = `/${kept.join('/')}${isFolder ? '/' : ''}`
  return pathProblem(settled) === undefined ? settled : undefined
}

/** Segments for matching, of a canonical path. */
export function splitPath(path: string): PathSegments {
  return upperHex(path).slice(1).split('/')
}

/** Reads a path pattern of a policy file. A string is why it is refused, with the right spelling. */
export function parsePathPattern(text: string): PathPattern | string {
  if (!text.startsWith('/')) return `path "${text}" must start with "/"`
  if (/[?#]/.test(text))
    return `path "${text}" has a "${/[?#]/.exec(text)?.[0]}": patterns see the path only, without query; write "${text.replace(/[?#].*$/s, '')}"`
  const problem = pathProblem(text)
  if (problem !== undefined) {
    const right = canonicalPath(text)
    return `path "${text}" is not canonical: ${problem}${right === undefined ? '' : `; write "${right}"`}`
  }
  const segments: SegmentPattern[] = []
  for (const segment of splitPath(text)) {
    if (segment === '**') {
      if (segments.at(-1)?.kind === 'any') return `path "${text}" has "**" twice in a row: once is enough`
      segments.push({ kind: 'any' })
    } else if (segment.includes('**')) {
      return `path "${text}": "**" must be a whole segment; "*" matches within one`
    } else {
      segments.push(
        segment === '*'
          ? { kind: 'one' }
          : segment.includes('*')
            ? { kind: 'glob', pieces: segment.split('*') }
            : { kind: 'literal', text: segment },
      )
    }
  }
  const star = text.indexOf('*')
  return { text, segments, literalLength: star === -1 ? text.length : star, isLiteral: star === -1 }
}

/** Whether the path matches. Linear in its segments for each `**`: the last `**` alone is ever tried again. */
export function matchesPath(pattern: PathPattern, path: PathSegments): boolean {
  const { segments } = pattern
  let at = 0
  let next = 0
  let retryAt = -1
  let retryNext = -1
  while (at < path.length) {
    const segment = segments[next]
    if (segment?.kind === 'any') {
      retryAt = at
      retryNext = next + 1
      next += 1
    } else if (segment !== undefined && matchesSegment(segment, path[at] ?? '')) {
      at += 1
      next += 1
    } else if (retryNext !== -1) {
      retryAt += 1
      at = retryAt
      next = retryNext
    } else return false
  }
  while (segments[next]?.kind === 'any') next += 1
  return next === segments.length
}

/** Whether some path matches both patterns. */
export function pathsOverlap(a: PathPattern, b: PathPattern): boolean {
  return overlap(a.segments, b.segments, (segment) => segment.kind === 'any', segmentsOverlap)
}

function matchesSegment(pattern: SegmentPattern, text: string): boolean {
  if (pattern.kind === 'literal') return pattern.text === text
  if (pattern.kind === 'one') return text !== ''
  return pattern.kind === 'any' || matchesGlob(pattern.pieces, text)
}

/** The first and last piece stand at the ends, those between are found from left to right: nothing is tried twice. */
function matchesGlob(pieces: readonly string[], text: string): boolean {
  const first = pieces[0] ?? ''
  const last = pieces.at(-1) ?? ''
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) return false
  const end = text.length - last.length
  let from = first.length
  for (const piece of pieces.slice(1, -1)) {
    const found = text.indexOf(piece, from)
    if (found === -1 || found + piece.length > end) return false
    from = found + piece.length
  }
  return true
}

/** Whether two sequences with wild elements (any run of elements) have a common instance. */
function overlap<T>(a: readonly T[], b: readonly T[], isWild: (item: T) => boolean, meet: (x: T, y: T) => boolean): boolean {
  // below[j]: whether a from i + 1 and b from j have one; filled from the ends.
  let below: boolean[] = []
  for (let i = a.length; i >= 0; i--) {
    const row: boolean[] = []
    for (let j = b.length; j >= 0; j--) {
      const x = a[i]
      const y = b[j]
      if (x === undefined && y === undefined) row[j] = true
      else if (x !== undefined && isWild(x)) row[j] = (below[j] ?? false) || (row[j + 1] ?? false)
      else if (y !== undefined && isWild(y)) row[j] = (row[j + 1] ?? false) || (below[j] ?? false)
      else row[j] = x !== undefined && y !== undefined && meet(x, y) && (below[j + 1] ?? false)
    }
    below = row
  }
  return below[0] ?? false
}

type Atom = string | typeof STAR
const STAR = Symbol('any characters')

function segmentsOverlap(a: SegmentPattern, b: SegmentPattern): boolean {
  if (a.kind === 'one') return b.kind !== 'literal' || b.text !== ''
  if (b.kind === 'one') return a.kind !== 'literal' || a.text !== ''
  return overlap(
    atomsOf(a),
    atomsOf(b),
    (atom) => atom === STAR,
    (x, y) => x === y,
  )
}

function atomsOf(pattern: SegmentPattern): readonly Atom[] {
  if (pattern.kind === 'literal') return pattern.text.split('')
  if (pattern.kind !== 'glob') return [STAR]
  return pattern.pieces.flatMap((piece, index): Atom[] => (index === 0 ? piece.split('') : [STAR, ...piece.split('')]))
}

function tripletProblem(path: string): string | undefined {
  for (let at = path.indexOf('%'); at !== -1; at = path.indexOf('%', at + 1)) {
    const hex = path.slice(at + 1, at + 3)
    if (!/^[0-9a-f]{2}$/i.test(hex)) return 'it has a "%" that does not begin a percent-encoded byte'
    const byte = Number.parseInt(hex, 16)
    const char = String.fromCharCode(byte)
    if (UNRESERVED.test(char)) return `it has "%${hex}", which is "${char}"`
    if (char === '\\' || byte < 0x20 || byte === 0x7f) return `it has "%${hex}", a backslash or control character`
    // Encoded twice: some servers decode twice.
    const twice = byte === 0x25 ? /^(?:25)*([0-9a-f]{2})/i.exec(path.slice(at + 3))?.[1] : undefined
    if (twice !== undefined && /^(?:2e|5c|7f|[01][0-9a-f])$/i.test(twice)) return `it has "%${twice}" encoded twice`
  }
  try {
    // RFC 3629 §3: overlong forms (%c0%ae is ".") and stray bytes are not UTF-8.
    decodeURIComponent(path)
    return undefined
  } catch {
    return 'its percent-encoded bytes are not valid UTF-8'
  }
}

/** The same path with the hex digits of its triplets in upper case: RFC 3986 §6.2.2.1. */
export function upperHex(path: string): string {
  return path.includes('%') ? path.replace(/%[0-9a-f]{2}/gi, (triplet) => triplet.toUpperCase()) : path
}

function encodeSafely(char: string): string {
  return char < ' ' || char === '\x7f' || /^[\ud800-\udfff]$/.test(char) ? char : encodeURIComponent(char)
}

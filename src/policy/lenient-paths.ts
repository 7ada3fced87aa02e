import { upperHex, type PathPattern, type PathSegments, type SegmentPattern } from './paths.ts'

/** What a lenient server does to a path, besides decoding reserved characters and dropping empty segments. */
type Leniency = { readonly splitsEncodedSlash: boolean; readonly cutsParameters: boolean }

const LENIENCIES: readonly Leniency[] = [
  { splitsEncodedSlash: false, cutsParameters: false },
  { splitsEncodedSlash: false, cutsParameters: true },
  { splitsEncodedSlash: true, cutsParameters: false },
  { splitsEncodedSlash: true, cutsParameters: true },
]

/**
 * The ways in which lenient servers may read a canonical path, apart from the exact one: reserved characters decoded, empty
 * segments dropped, `;parameters` cut off or not, `%2F` a separator or not. Denials look at all of them, so that `/admin;x`,
 * `/;/admin`, `/x%2Fadmin` and `/%40admin` don't pass by a rule that denies `/admin`, `/x/admin` or `/@admin`.
 * None when every server reads it as `splitPath` does.
 */
export function splitPathLoosely(path: string): readonly PathSegments[] {
  if (!path.includes('%') && !path.includes(';') && !path.endsWith('/')) return []
  const exact = upperHex(path)
  const decoded = decodeReserved(exact)
  // Split before parameters are cut: "/x;%2Fadmin" is "/x/admin" to a server that decodes first, and "/x" to others.
  const texts = [decoded, decoded.replaceAll('%2F', '/')].flatMap((text) => [text, text.replace(/;[^/]*/g, '')])
  return [...new Set(texts)].filter((text) => text !== exact || path.endsWith('/')).map((text) => text.split('/').filter(Boolean))
}

/** A pattern as lenient servers may read it: what a path of `splitPathLoosely` is matched with. Without the pattern itself. */
export function loosen(pattern: PathPattern): PathPattern[] {
  const seen = new Set([JSON.stringify(pattern.segments)])
  return LENIENCIES.flatMap((leniency) => {
    const segments = pattern.segments.flatMap((segment) => loosenSegment(segment, leniency))
    const key = JSON.stringify(segments)
    if (seen.has(key)) return []
    seen.add(key)
    return [{ ...pattern, segments }]
  })
}

/** Piece by piece, as a star that is decoded from `%2A` is no wildcard. */
function loosenSegment(segment: SegmentPattern, leniency: Leniency): SegmentPattern[] {
  if (segment.kind === 'any' || segment.kind === 'one') return [segment]
  const pieces = segment.kind === 'literal' ? [segment.text] : segment.pieces
  return (leniency.splitsEncodedSlash ? splitPieces(pieces) : [pieces]).flatMap((part): SegmentPattern[] => {
    const decoded = part.map(decodeReserved)
    const read = leniency.cutsParameters ? cutPieces(decoded) : decoded
    const [text = ''] = read
    if (read.length === 1) return text === '' ? [] : [{ kind: 'literal', text }]
    return [read.every((piece) => piece === '') ? { kind: 'one' } : { kind: 'glob', pieces: read }]
  })
}

/** Segments between encoded slashes, each as the literal pieces between its stars. */
function splitPieces(pieces: readonly string[]): string[][] {
  const segments: string[][] = [[]]
  for (const piece of pieces) {
    const [first = '', ...rest] = piece.split('%2F')
    segments.at(-1)?.push(first)
    for (const text of rest) segments.push([text])
  }
  return segments
}

function cutPieces(pieces: readonly string[]): readonly string[] {
  const at = pieces.findIndex((piece) => piece.includes(';'))
  return at === -1 ? pieces : [...pieces.slice(0, at), (pieces[at] ?? '').replace(/;.*$/s, '')]
}

/** Characters that stand in a path as they are as well as encoded, and mean the same to most servers. Hex digits in upper case. */
function decodeReserved(text: string): string {
  return text.replace(/%(?:2[146-9A-C]|3[ABD]|40|5[BD]|7C)/g, (triplet) => String.fromCharCode(Number.parseInt(triplet.slice(1), 16)))
}

import { shown } from '../kernel/shown.ts'
import type { SwapPlace } from '../wire/credential.ts'
import { foldName, isCredentialField } from '../wire/credential-fields.ts'
import { mapParameters } from './parameters.ts'

/** What of a request is read and written here. `path` is as on the wire, `headers` are name, value, name, value, … */
export type Head = { readonly path: string; readonly headers: readonly string[] }

/** Where in a head a placeholder stands. `header` is as it was written, `elsewhere` is where none is ever swapped. */
export type FoundPlace =
  | { readonly kind: 'header'; readonly header: string }
  | { readonly kind: 'basic' }
  | { readonly kind: 'query'; readonly name: string }
  | { readonly kind: 'path' }
  | { readonly kind: 'elsewhere'; readonly what: string }

/** A part of a head that is read by itself. */
export type Piece = {
  readonly text: string
  readonly place: FoundPlace
  /** `opaque` text is base64 whose meaning is a piece of its own. */
  readonly coding: 'plain' | 'percent' | 'opaque'
}

/** RFC 7617, and what servers take for it: any case, more space, no padding, either alphabet. */
const BASIC = /^[ \t]*basic[ \t]+([A-Za-z0-9+/_-]+={0,2})[ \t]*$/i

/**
 * The head with every piece replaced by what `edit` makes of it. Finding and swapping both go this way, so that what is swapped
 * is what was found.
 */
export function mapHead({ path, headers }: Head, edit: (piece: Piece) => string): { path: string; headers: string[] } {
  const mapped: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    mapped.push(
      edit({ text: name, place: { kind: 'elsewhere', what: 'the name of a header field' }, coding: 'plain' }),
      mapValue(name, headers[i + 1] ?? '', edit),
    )
  }
  return { path: mapPath(path, edit), headers: mapped }
}

/**
 * All of a head, and what its basic credentials mean: whatever stands in a head stands in this text too. The values of fields follow
 * one another, as fields of one name are one value in parts (RFC 9110 §5.3).
 */
export function textOf(head: Head): string {
  const meanings: string[] = []
  mapHead(head, (piece) => {
    if (piece.place.kind === 'basic') meanings.push(piece.text)
    return piece.text
  })
  const [names, values] = [0, 1].map((rest) => head.headers.filter((_, i) => i % 2 === rest).join('\n'))
  return [head.path, names, values, ...meanings].join('\n')
}

/** Whether one of the listed places is this one. Names of header fields are compared as lenient servers read them. I23 */
export function isListed(listed: readonly SwapPlace[], found: FoundPlace): boolean {
  return listed.some((place) => {
    switch (place.kind) {
      case 'header':
        if (found.kind !== 'header') return false
        return place.header === undefined ? isCredentialField(found.header) : foldName(place.header) === foldName(found.header)
      case 'query':
        return found.kind === 'query' && found.name === place.name
      case 'basic':
      case 'path':
        return found.kind === place.kind
      case 'body':
        return false
    }
  })
}

/** A place in words, for the agent: "the header referer". */
export function describePlace(place: FoundPlace): string {
  switch (place.kind) {
    case 'header':
      return `the header ${shown(place.header)}`
    case 'basic':
      return 'basic credentials'
    case 'query':
      return `the query parameter ${shown(place.name)}`
    case 'path':
      return 'the path'
    case 'elsewhere':
      return place.what
  }
}

function mapValue(name: string, value: string, edit: (piece: Piece) => string): string {
  const place: FoundPlace = { kind: 'header', header: name }
  const [, token] = foldName(name) === 'authorization' ? (BASIC.exec(value) ?? []) : []
  if (token === undefined) return edit({ text: value, place, coding: 'plain' })
  const text = Buffer.from(token, 'base64').toString('latin1')
  const edited = edit({ text, place: { kind: 'basic' }, coding: 'plain' })
  // Written anew in the one form that has one reading.
  return edited === text ? edit({ text: value, place, coding: 'opaque' }) : `Basic ${Buffer.from(edited, 'latin1').toString('base64')}`
}

function mapPath(path: string, edit: (piece: Piece) => string): string {
  const at = path.indexOf('?')
  const segments = (at === -1 ? path : path.slice(0, at)).split('/').map((text) => {
    // What follows ";" is the segment's to some servers, and a parameter of its own to others (RFC 3986 §3.3).
    const place: FoundPlace = text.includes(';') ? { kind: 'elsewhere', what: 'a path segment with ";"' } : { kind: 'path' }
    return edit({ text, place, coding: 'percent' })
  })
  if (at === -1) return segments.join('/')
  const query = mapParameters(path.slice(at + 1), (text, name) => {
    const place: FoundPlace =
      name === undefined ? { kind: 'elsewhere', what: 'the name of a query parameter, or one with ";"' } : { kind: 'query', name }
    return edit({ text, place, coding: 'percent' })
  })
  return `${segments.join('/')}?${query}`
}

import { isUtf8 } from 'node:buffer'
import { SallyportError } from '../kernel/errors.ts'
import type { Secret } from '../kernel/secret.ts'
import type { BodyPlace } from '../wire/credential.ts'
import { hiddenIn, needleOf, percentEncoded, replacedInPercent } from './encodings.ts'
import { locate } from './json-place.ts'
import { mapParameters, withoutParameter } from './parameters.ts'

/** A worthless value, one place where it may stand in a body, and what takes its place there. */
export type BodySwap = { readonly placeholder: string; readonly at: BodyPlace; readonly secret: Secret }

/**
 * The body with the secret at its place, instead of what the agent wrote there. Of JSON only the bytes of that value change; a
 * member that an object does not have is added. Of a form every field of that name goes. I1, I5
 * @throws body_unfit for a body that is not of the place's kind, that readers could take for different things, or has no such place
 */
export function setInBody(body: Buffer, contentType: string | undefined, at: BodyPlace, secret: Secret): Buffer {
  const text = textOf(body, contentType, at.kind)
  if (at.kind === 'form') {
    const rest = withoutParameter(text, at.field)
    return Buffer.from(`${rest}${rest === '' ? '' : '&'}${percentEncoded(at.field)}=${percentEncoded(secret.reveal())}`, 'latin1')
  }
  const place = locate(text, at.pointer)
  const value = JSON.stringify(secret.reveal())
  switch (place.kind) {
    case 'value':
      return splice(text, place.start, place.end, value)
    case 'member':
      return splice(text, place.at, place.at, `${place.isFirst ? '' : ','}${JSON.stringify(place.key)}:${value}`)
    case 'none':
      throw unfit(`it has nothing at ${textOfPlace(at)}`, 'send a body of the form that the service expects')
  }
}

/**
 * The body with secrets in the place of placeholders. One that stands in none of its places is an error; a body without any is given
 * back as it is, whatever its type. I1, I23
 * @throws body_unfit as above, placeholder_misplaced when one is left anywhere in the body, in any spelling
 */
export function swapInBody(body: Buffer, contentType: string | undefined, swaps: readonly BodySwap[]): Buffer {
  const needles = swaps.map(({ placeholder, secret }) => needleOf(secret.name, placeholder))
  if (hiddenIn(body.toString('latin1'), needles).length === 0) return body
  let swapped = body
  for (const swap of swaps) {
    if (kindOf(contentType) !== swap.at.kind) continue
    const text = textOf(swapped, contentType, swap.at.kind)
    swapped = swap.at.kind === 'form' ? swapInForm(text, swap.at.field, swap) : swapInJson(text, swap.at.pointer, swap)
  }
  if (hiddenIn(swapped.toString('latin1'), needles).length === 0) return swapped
  throw new SallyportError('placeholder_misplaced', 'a placeholder stands in the body outside of the places that the policy lists', {
    hint: `it may stand at ${placesText(swaps)}`,
  })
}

function swapInJson(text: string, pointer: readonly string[], { placeholder, secret }: BodySwap): Buffer {
  const place = locate(text, pointer)
  const value: unknown = place.kind === 'value' && place.isString ? JSON.parse(text.slice(place.start, place.end)) : undefined
  if (place.kind !== 'value' || typeof value !== 'string' || !value.includes(placeholder)) return Buffer.from(text)
  return splice(text, place.start, place.end, JSON.stringify(value.replaceAll(placeholder, () => secret.reveal())))
}

function swapInForm(text: string, field: string, { placeholder, secret }: BodySwap): Buffer {
  const swapped = mapParameters(text, (part, name) =>
    name === field ? replacedInPercent(part, placeholder, percentEncoded(secret.reveal())) : part,
  )
  return Buffer.from(swapped, 'latin1')
}

/** The text of a body: of JSON its characters, of a form its bytes. */
function textOf(body: Buffer, contentType: string | undefined, kind: BodyPlace['kind']): string {
  if (kindOf(contentType) !== kind) {
    const wanted = kind === 'json' ? 'application/json' : 'application/x-www-form-urlencoded'
    throw unfit(`its type is not ${wanted}, or is not plain UTF-8`, `send it with "Content-Type: ${wanted}"`)
  }
  // RFC 8259 §8.1: what other readers would decode in their own ways.
  if (!isUtf8(body)) throw unfit('it is not UTF-8', 'send it as UTF-8')
  if (kind === 'form') return body.toString('latin1')
  const text = body.toString()
  if (text.startsWith('\uFEFF')) throw unfit('it begins with a byte order mark', 'send it without')
  return text
}

/** RFC 9110 §5.6.6, without escapes in quotes: whatever else follows a type has more than one reading. */
const PARAMETER = /[ \t]*;[ \t]*(?:([a-z0-9!#$%&'*+.^_`|~-]+)=("[^"\\]*"|[a-z0-9!#$%&'*+.^_`|~-]+))?[ \t]*/gy

/** Which kind of place a body of this type has, by the media type and its charset. */
function kindOf(contentType: string | undefined): BodyPlace['kind'] | undefined {
  const lower = contentType?.toLowerCase() ?? ''
  const [, type = '', parameters = ''] = /^[ \t]*([a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+)[ \t]*(;.*)?$/s.exec(lower) ?? []
  let read = 0
  for (const match of parameters.matchAll(PARAMETER)) {
    read += match[0].length
    if (match[1] === 'charset' && !/^"?utf-?8"?$/.test(match[2] ?? '')) return undefined
  }
  if (read !== parameters.length) return undefined
  if (type === 'application/x-www-form-urlencoded') return 'form'
  return type === 'application/json' || /^[^/]+\/[^/]+\+json$/.test(type) ? 'json' : undefined
}

function splice(text: string, start: number, end: number, value: string): Buffer {
  return Buffer.from(text.slice(0, start) + value + text.slice(end))
}

function textOfPlace(at: BodyPlace): string {
  return at.kind === 'form' ? `the field "${at.field}"` : `"/${at.pointer.join('/')}"`
}

function placesText(swaps: readonly BodySwap[]): string {
  return swaps.map(({ at }) => textOfPlace(at)).join(' or ')
}

function unfit(problem: string, hint: string): SallyportError {
  return new SallyportError('body_unfit', `the body cannot take its credential: ${problem}`, { hint })
}

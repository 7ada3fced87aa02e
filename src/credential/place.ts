import { SallyportError } from '../kernel/errors.ts'
import type { Secret } from '../kernel/secret.ts'
import { foldName } from '../wire/credential-fields.ts'
import type { CredentialPlace, HeaderPlace, SwapPlace } from '../wire/credential.ts'
import { hiddenIn, needleOf, percentEncoded, replacedInPercent } from './encodings.ts'
import { isListed, mapHead, textOf, type Head, type Piece } from './head-places.ts'
import { withoutParameter } from './parameters.ts'

/** A head with secrets in it. `sensitive` are the header fields that have one, in lower case; the path may have one too. */
export type WrittenHead = Head & { readonly sensitive: readonly string[] }

/** What is written, and where: `secret` is the name of the one that belongs into `place`. */
export type Credential = {
  readonly secret: string
  readonly place: CredentialPlace
  readonly also: readonly { readonly secret: string; readonly place: HeaderPlace }[]
}

/** A worthless value, where it may stand, and what takes its place there. */
export type HeadSwap = { readonly placeholder: string; readonly places: readonly SwapPlace[]; readonly secret: Secret }

/**
 * The head with a credential of the kinds header, basic and query, in place of what the agent sent there. Kinds that are not
 * written into the head leave it as it is. I1, I5
 * @throws secret_unavailable for a value that would change the shape of the head
 */
export function applyCredential(head: Head, { secret, place, also }: Credential, secretOf: (name: string) => Secret): WrittenHead {
  const written = writeOne(head, place, () => secretOf(secret))
  return also.reduce((before, more) => {
    const after = writeOne(before, more.place, () => secretOf(more.secret))
    return { ...after, sensitive: [...before.sensitive, ...after.sensitive] }
  }, written)
}

/**
 * The head with secrets in the place of placeholders, wherever these stand in a listed place. I1, I23: one that is anywhere else
 * is no reason to send the rest.
 * @throws placeholder_misplaced when one is left, or its place cannot hold the secret; secret_unavailable as above
 */
export function swapInHead(head: Head, swaps: readonly HeadSwap[]): WrittenHead {
  const sensitive = new Set<string>()
  const needles = swaps.map(({ placeholder, secret }) => needleOf(secret.name, placeholder))
  const swapped = mapHead(head, (piece) => {
    let { text } = piece
    for (const swap of swaps) {
      if (!isListed(swap.places, piece.place)) continue
      const next = swapInPiece({ ...piece, text }, swap)
      if (next !== text && piece.place.kind === 'header') sensitive.add(piece.place.header.toLowerCase())
      if (next !== text && piece.place.kind === 'basic') sensitive.add('authorization')
      text = next
    }
    return text
  })
  if (hiddenIn(textOf(swapped), needles).length > 0) throw misplaced('another place of the request')
  return { ...swapped, sensitive: [...sensitive] }
}

function writeOne(head: Head, place: CredentialPlace, secret: () => Secret): WrittenHead {
  switch (place.kind) {
    case 'header':
      return writeField(head, place.header, `${place.prefix}${valueOf(secret())}`)
    case 'basic':
      // RFC 7617 §2: UTF-8 is what servers that say so expect, and ASCII is the same in it.
      return writeField(head, 'Authorization', `Basic ${Buffer.from(`${place.username}:${valueOf(secret())}`).toString('base64')}`)
    case 'query':
      return { path: writeQuery(head.path, place.name, valueOf(secret())), headers: head.headers, sensitive: [] }
    case 'body':
    case 'placeholder':
    case 'aws':
      return { path: head.path, headers: head.headers, sensitive: [] }
  }
}

function writeField({ path, headers }: Head, field: string, value: string): WrittenHead {
  const folded = foldName(field)
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    if (foldName(headers[i] ?? '') !== folded) kept.push(headers[i] ?? '', headers[i + 1] ?? '')
  }
  return { path, headers: [...kept, field, value], sensitive: [field.toLowerCase()] }
}

function writeQuery(path: string, name: string, value: string): string {
  const at = path.indexOf('?')
  const pair = `${percentEncoded(name)}=${percentEncoded(value)}`
  if (at === -1) return `${path}?${pair}`
  const query = withoutParameter(path.slice(at + 1), name)
  return `${path.slice(0, at)}?${query === '' ? '' : `${query}&`}${pair}`
}

function swapInPiece({ text, place, coding }: Piece, { placeholder, secret }: HeadSwap): string {
  if (coding !== 'percent') {
    if (!text.includes(placeholder)) return text
    const value = valueOf(secret)
    if (place.kind === 'basic') refuseUserName(text, placeholder, value)
    return text.replaceAll(placeholder, () => value)
  }
  // A colon is a character of any segment (RFC 3986 §3.3), and services with tokens in the path expect it as it is.
  const written = percentEncoded(valueOf(secret)).replaceAll('%3A', ':')
  return replacedInPercent(text, placeholder, written)
}

/** RFC 7617 §2: the first colon ends the user's name. A secret must not move it, or part of it would be read as something else. */
function refuseUserName(text: string, placeholder: string, value: string): void {
  const colon = text.indexOf(':')
  const user = colon === -1 ? text : text.slice(0, colon)
  const isUser = user.includes(placeholder)
  // A worthless value that is user and password in one has a colon of its own, and so must what takes its place.
  const isBoth = !isUser && text.indexOf(placeholder) < colon
  if ((isUser && value.includes(':')) || (isBoth && !value.includes(':'))) throw misplaced('basic credentials')
}

function misplaced(where: string): SallyportError {
  return new SallyportError('placeholder_misplaced', `a placeholder stands in ${where}, where it cannot be swapped`, {
    hint: 'write it as it is, in a place that the policy lists',
  })
}

/** The value, which is to stand in one line whatever it was obtained from. */
function valueOf(secret: Secret): string {
  const value = secret.reveal()
  if (/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value)) return value
  throw new SallyportError('secret_unavailable', `the secret ${secret.name} has a value that cannot be written into a request`)
}

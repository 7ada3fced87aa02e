import { createHmac } from 'node:crypto'
import { SallyportError } from '../kernel/errors.ts'
import { parseShape, SHAPE_ALPHABETS, type PlaceholderShape, type ShapeSlot } from '../wire/placeholder-shape.ts'
import { hiddenIn, needleOf, replacedInPercent } from './encodings.ts'
import { describePlace, mapHead, textOf, type FoundPlace, type Head, type Piece } from './head-places.ts'

/** A placeholder in a request. `name` is that of its variable. */
export type Found = { readonly name: string; readonly place: FoundPlace }

/** The worthless values of a session. */
export type Placeholders = {
  /** By the name of their variable. */
  readonly values: Readonly<Record<string, string>>
  readonly isEmpty: boolean
  /**
   * Every place of a head where one stands. In any spelling that its place does not decode (another case, escapes over escapes,
   * base64 but that of basic credentials) it is `elsewhere`.
   */
  find(head: Head): readonly Found[]
  /** The names of those that stand in a body, in any spelling: whether one is where it may be is for `swapInBody` to say. */
  inBody(body: Buffer): readonly string[]
  /** The name of one that is part of a host's name, where case is lost. */
  inHostname(host: string): string | undefined
}

/** By this whoever comes upon a value knows where it is from. */
const MARK = 'SALLYPORT'
/** A slot that holds the mark has room for as many others that differ. */
const MARKED_SLOT_MIN = 16
/** 2100-01-01: clients that look at the end of a token's life see none, and still take the number for a date. */
const EXPIRY_SECONDS = 4_102_444_800

/**
 * The placeholders of a policy. The same seed, name and shape give the same value; without the seed none can be told.
 * @throws policy_invalid for a shape that is none
 */
export function createPlaceholders(definitions: readonly { readonly name: string; readonly shape: string }[], seed: string): Placeholders {
  const entries = definitions.map(({ name, shape }) => [name, placeholder(name, shape, seed)] as const)
  const needles = entries.map(([name, value]) => needleOf(name, value))
  return {
    values: Object.fromEntries(entries),
    isEmpty: needles.length === 0,
    find(head) {
      if (needles.length === 0) return []
      const met = hiddenIn(textOf(head), needles)
      const found = new Map<string, Found>()
      const add = (name: string, place: FoundPlace): Map<string, Found> => found.set(JSON.stringify([name, place]), { name, place })
      if (met.length === 0) return []
      mapHead(head, (piece) => {
        for (const needle of met) {
          const rest = without(piece, needle.value)
          if (rest !== piece.text) add(needle.name, piece.place)
          // Beside one in its place there may be another one that hides.
          if (piece.coding !== 'opaque' && hiddenIn(rest, [needle]).length > 0) add(needle.name, spelledOtherwise(piece.place))
        }
        return piece.text
      })
      // What is in the whole and in no part of it is put together from parts.
      for (const { name } of met) {
        if ([...found.values()].every((entry) => entry.name !== name)) add(name, { kind: 'elsewhere', what: 'several parts of the head' })
      }
      return [...found.values()]
    },
    inBody: (body) => hiddenIn(body.toString('latin1'), needles).map(({ name }) => name),
    inHostname(host) {
      const lower = host.toLowerCase()
      return needles.find(({ folded }) => lower.includes(folded))?.name
    },
  }
}

/** The text of a piece with a gap wherever its reader finds the value: just what a swap takes. */
function without({ text, coding }: Piece, value: string): string {
  return coding === 'percent' ? replacedInPercent(text, value, '\n') : text.replaceAll(value, '\n')
}

function spelledOtherwise(place: FoundPlace): FoundPlace {
  return place.kind === 'elsewhere' ? place : { kind: 'elsewhere', what: `${describePlace(place)}, in another spelling` }
}

function placeholder(name: string, text: string, seed: string): string {
  const shape = parseShape(text)
  if (typeof shape === 'string') throw new SallyportError('policy_invalid', `the shape of the placeholder ${name}: ${shape}`)
  const next = createStream(JSON.stringify(['placeholder', name, text]), seed)
  return shape.kind === 'jwt' ? token(next) : filled(shape, next)
}

function filled({ parts }: Extract<PlaceholderShape, { kind: 'template' }>, next: () => number): string {
  const marked = parts.find((part) => typeof part !== 'string' && canBeMarked(part))
  return parts
    .map((part) => {
      if (typeof part === 'string') return part
      const mark = part === marked ? MARK : ''
      return mark + letters(SHAPE_ALPHABETS[part.alphabet], part.count - mark.length, next)
    })
    .join('')
}

function canBeMarked({ alphabet, count }: ShapeSlot): boolean {
  return count >= MARKED_SLOT_MIN && MARK.split('').every((letter) => SHAPE_ALPHABETS[alphabet].includes(letter))
}

/** RFC 7519, signed by nobody: what clients decode of a token is there. */
function token(next: () => number): string {
  const subject = letters(SHAPE_ALPHABETS.hex, 32, next)
  const parts = [
    { alg: 'HS256', typ: 'JWT' },
    { iss: MARK, sub: subject, iat: 0, exp: EXPIRY_SECONDS },
  ]
  const signature = Buffer.from(Array.from({ length: 32 }, next)).toString('base64url')
  return [...parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')), signature].join('.')
}

function letters(alphabet: string, count: number, next: () => number): string {
  // Bytes that would make some letters likelier than others are passed over.
  const end = 256 - (256 % alphabet.length)
  let text = ''
  while (text.length < count) {
    const byte = next()
    if (byte < end) text += alphabet.charAt(byte % alphabet.length)
  }
  return text
}

/** Bytes that nobody without the seed can tell, in the order in which they are asked for. */
function createStream(label: string, seed: string): () => number {
  let block = Buffer.alloc(0)
  let used = 0
  let count = 0
  return () => {
    if (used === block.length) {
      block = createHmac('sha256', seed).update(`${count}:${label}`).digest()
      count += 1
      used = 0
    }
    const byte = block[used] ?? 0
    used += 1
    return byte
  }
}

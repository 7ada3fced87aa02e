import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Secret } from '../kernel/secret.ts'
import { base64Spellings, hexSpelling, LINE_BREAKS, spellingsOf, type Unit } from './spellings.ts'

/** The byte that each byte of a match becomes: a letter that keeps the encoding around it well-formed. */
export const MARKS = { text: 0x2a /* * */, base64: 0x41 /* A */, hex: 0x30 /* 0 */ } as const
export type Mark = (typeof MARKS)[keyof typeof MARKS]

/** What is looked for: units one after the other. Units are shared: the same object is the same unit. */
export type Pattern = { readonly mark: Mark; readonly units: readonly Unit[] }

/**
 * What is looked for to find the secrets in every encoding: of each value (a long one in pieces) its text, its hex digits,
 * and its base64 at the three offsets that it may have in a longer text. Empty values are left out.
 * @throws secret_invalid when they are larger than `LIMITS.redactorSecretsBytesMax` together
 */
export function patternsOf(secrets: readonly Secret[]): readonly Pattern[] {
  const unit = createUnits()
  const pieces = new Set(secrets.flatMap((secret) => piecesOf(secret.reveal().toWellFormed())))
  // A byte has about six units in all patterns; positions have room for 2^23.
  if ([...pieces].reduce((sum, piece) => sum + Buffer.byteLength(piece), 0) > LIMITS.redactorSecretsBytesMax) {
    throw new SallyportError('secret_invalid', 'the secrets of one host are too large to be looked for in its answers', {
      hint: `they may have ${LIMITS.redactorSecretsBytesMax} bytes together`,
    })
  }
  return [...pieces].flatMap((piece): Pattern[] => {
    const bytes = Buffer.from(piece)
    return [
      { mark: MARKS.text, units: Array.from(piece, unit.character) },
      { mark: MARKS.hex, units: Array.from(bytes, unit.hexByte) },
      ...[0, 1, 2].map((offset): Pattern => ({
        mark: MARKS.base64,
        units: sextetsOf(bytes, offset).map((sextet, i) => unit.letter(sextet, i > 0)),
      })),
    ]
  })
}

/**
 * The value, or pieces of it, all about as long, each at least half of the longest. A piece is found by itself: what is
 * held back at the end of a chunk is never longer than one, however long the value is.
 */
function piecesOf(value: string): string[] {
  const characters = Array.from(value)
  const count = Math.ceil(characters.length / LIMITS.redactorPieceCharsMax)
  return Array.from({ length: count }, (_, i) =>
    characters.slice(Math.floor((i * characters.length) / count), Math.floor(((i + 1) * characters.length) / count)).join(''),
  )
}

/** Six bits of base64; bits that are not in `known` are those of a neighbour of the value. */
type Sextet = { readonly known: number; readonly bits: number }

/** The letters of base64 that have bits of `bytes` when `offset` bytes stand before them (RFC 4648 §4). */
function sextetsOf(bytes: Buffer, offset: number): Sextet[] {
  const first = Math.floor((offset * 8) / 6)
  const last = Math.ceil(((offset + bytes.length) * 8) / 6)
  return Array.from({ length: last - first }, (_, i) => {
    let known = 0
    let bits = 0
    for (let bit = 0; bit < 6; bit++) {
      const at = (first + i) * 6 + bit - offset * 8
      const byte = at < 0 ? undefined : bytes[at >> 3]
      if (byte === undefined) continue
      known |= 32 >> bit
      if ((byte & (128 >> (at & 7))) !== 0) bits |= 32 >> bit
    }
    return { known, bits }
  })
}

/** Makes each unit once. */
function createUnits() {
  const made = new Map<string, Unit>()
  const once = (key: string, make: () => Unit): Unit => {
    const unit = made.get(key) ?? make()
    made.set(key, unit)
    return unit
  }
  return {
    character: (character: string) => once(`text ${character}`, () => ({ spellings: spellingsOf(character), before: [] })),
    hexByte: (byte: number) => once(`hex ${byte}`, () => ({ spellings: [hexSpelling(byte)], before: [] })),
    letter: ({ known, bits }: Sextet, isWithin: boolean) =>
      once(`base64 ${known} ${bits} ${isWithin}`, () => ({
        spellings: base64Spellings(Array.from({ length: 64 }, (_, sextet) => sextet).filter((sextet) => (sextet & known) === bits)),
        // One before any letter. Two in a row end the match, so that the end of an event or of a paragraph is never held back.
        before: isWithin ? LINE_BREAKS : [],
      })),
  }
}

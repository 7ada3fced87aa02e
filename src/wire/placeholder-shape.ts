/** The letters that a slot of a shape may be filled with. `upper` is what AWS makes its key ids of (base32, RFC 4648 §6). */
export const SHAPE_ALPHABETS = {
  alnum: 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789',
  base64url: 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_',
  upper: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567',
  hex: '0123456789abcdef',
  digits: '0123456789',
} as const

export type ShapeAlphabet = keyof typeof SHAPE_ALPHABETS

/** A run of characters that are chosen anew for every session. */
export type ShapeSlot = { readonly alphabet: ShapeAlphabet; readonly count: number }

/** What a worthless value looks like: literal text and slots in turn, or a JSON Web Token. */
export type PlaceholderShape = { readonly kind: 'template'; readonly parts: readonly (string | ShapeSlot)[] } | { readonly kind: 'jwt' }

/** The shape of a placeholder for which the policy says none. */
export const DEFAULT_SHAPE = '<alnum:40>'

/** Fewer could be met by chance in a request that means no placeholder, or be guessed for another session. */
const SLOT_CHARACTERS_MIN = 16
const CHARACTERS_MIN = 8
const CHARACTERS_MAX = 512
/** What needs no escape in a URL (RFC 3986 §2.3), and the colon of bot tokens: so a placeholder is one text everywhere. */
const LITERAL = /^[A-Za-z0-9._~:-]+$/
const SLOT = /^([a-z0-9]+):([0-9]{1,3})$/

/** The shape that `text` describes, as `ghp_<alnum:36>` or `jwt`; or, as a string, what is wrong with it. */
export function parseShape(text: string): PlaceholderShape | string {
  if (text === 'jwt') return { kind: 'jwt' }
  const parts: (string | ShapeSlot)[] = []
  // Every other piece stands between "<" and ">".
  for (const [i, piece] of text.split(/[<>]/).entries()) {
    if (i % 2 === 0) {
      if (piece === '') continue
      if (!LITERAL.test(piece)) return `"${piece}" has a character that is not a letter, a digit or one of . _ ~ : -`
      parts.push(piece)
    } else {
      const slot = parseSlot(piece)
      if (typeof slot === 'string') return slot
      parts.push(slot)
    }
  }
  // The pieces were cut at either bracket: only the text itself says whether they stand in pairs.
  if (!/^(?:[^<>]*<[^<>]*>)*[^<>]*$/.test(text)) return 'its "<" and ">" do not stand in pairs'
  return sizeProblem(parts) ?? { kind: 'template', parts }
}

function parseSlot(text: string): ShapeSlot | string {
  const [, alphabet = '', digits = ''] = SLOT.exec(text) ?? []
  if (alphabet === '') return `"<${text}>" is not <alphabet:count>, as <alnum:36>`
  if (!isAlphabet(alphabet)) return `"${alphabet}" is not one of the alphabets ${Object.keys(SHAPE_ALPHABETS).join(', ')}`
  const count = Number(digits)
  return count === 0 ? `"<${text}>" has no characters` : { alphabet, count }
}

function isAlphabet(text: string): text is ShapeAlphabet {
  return Object.hasOwn(SHAPE_ALPHABETS, text)
}

function sizeProblem(parts: readonly (string | ShapeSlot)[]): string | undefined {
  const slots = parts.reduce((sum, part) => sum + (typeof part === 'string' ? 0 : part.count), 0)
  const all = parts.reduce((sum, part) => sum + (typeof part === 'string' ? part.length : part.count), 0)
  if (slots < SLOT_CHARACTERS_MIN)
    return `its slots have ${slots} characters in all, at least ${SLOT_CHARACTERS_MIN} must differ by session`
  if (all < CHARACTERS_MIN || all > CHARACTERS_MAX) return `it is ${all} characters long, and not ${CHARACTERS_MIN} to ${CHARACTERS_MAX}`
  return undefined
}

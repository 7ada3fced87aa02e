/** One way to write a unit of a value: for each byte of it the values that it may have. */
export type Spelling = readonly (readonly number[])[]

/** A part of a value that is always written as a whole, in one of several ways. */
export type Unit = {
  readonly spellings: readonly Spelling[]
  /** What may stand once before it, and belongs to the match. */
  readonly before: readonly Spelling[]
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
/** RFC 4648 §5: the two letters of base64url that differ. */
const URL_SAFE = new Map([
  [62, '-'],
  [63, '_'],
])
/** What HTML knows by name without a DTD (`&apos;` since HTML5). */
const NAMED = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&apos;'],
])
/** RFC 8259 §7, and `\'`, which JavaScript and Python write. */
const JSON_SHORT = new Map([
  ['"', '\\"'],
  ['\\', '\\\\'],
  ['/', '\\/'],
  ["'", "\\'"],
  ['\b', '\\b'],
  ['\f', '\\f'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
])

/**
 * A line break within base64: MIME and PEM wrap it. LF or CR LF, as JSON escapes it (also twice), as URLs encode it (also twice).
 */
export const LINE_BREAKS: readonly Spelling[] = [
  ...['\n', '\r\n', '\\n', '\\r\\n', '\\\\n', '\\\\r\\\\n'].map((text) => exactly(text)),
  ...['%', '%25'].flatMap((sign) => [
    [...exactly(sign), ...hexDigits('0a')],
    [...exactly(sign), ...hexDigits('0d'), ...exactly(sign), ...hexDigits('0a')],
  ]),
]

/**
 * All ways in which a character (one code point) may be written in text: as it is; `%HH`, also encoded twice (`%25HH`);
 * `\u00HH`, `\xHH`, `\"` and their like, also escaped twice; `&#DD;`, `&#xHH;` and `&name;`; a space as `+`; and a line
 * feed as the two characters that forms (WHATWG URL-encoded) and mail make of it.
 */
export function spellingsOf(character: string): readonly Spelling[] {
  const ways = ownSpellingsOf(character)
  return character === '\n' ? [...ways, ...LINE_BREAKS.filter((lineBreak) => lineBreak.length > 1)] : ways
}

function ownSpellingsOf(character: string): Spelling[] {
  const code = character.codePointAt(0) ?? 0
  const bytes = [...Buffer.from(character)].map((byte) => byte.toString(16).padStart(2, '0'))
  const utf16 = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i).toString(16).padStart(4, '0'))
  const each = (prefix: string, digits: readonly string[]): Spelling => digits.flatMap((hex) => [...exactly(prefix), ...hexDigits(hex)])
  return [
    exactly(character),
    each('%', bytes),
    each('%25', bytes),
    each('\\x', bytes),
    each('\\u', utf16),
    each('\\\\u', utf16),
    ...numberedInHtml(code),
    ...withShort(character),
    ...(character === ' ' ? [exactly('+')] : []),
    // JavaScript's \xHH is a code point, Python's is a byte.
    ...(code >= 0x80 && code <= 0xff ? [each('\\x', [code.toString(16)])] : []),
  ]
}

function withShort(character: string): Spelling[] {
  const short = JSON_SHORT.get(character)
  const twice = short === undefined ? [] : [short, `\\${short}`, Array.from(short, (letter) => JSON_SHORT.get(letter) ?? letter).join('')]
  const named = NAMED.get(character)
  return [...new Set([...twice, ...(named === undefined ? [] : [named])])].map((text) => exactly(text))
}

/** `&#39;`, `&#039;` (PHP), `&#x27;`, `&#x0027;`. */
function numberedInHtml(code: number): Spelling[] {
  const decimal = code.toString()
  const hex = code.toString(16)
  return [
    ...[decimal, `0${decimal}`].map((digits) => exactly(`&#${digits};`)),
    ...[...new Set([hex, hex.padStart(2, '0'), hex.padStart(4, '0')])].map((digits) => [
      ...exactly('&#'),
      bothCases('x'),
      ...hexDigits(digits),
      ...exactly(';'),
    ]),
  ]
}

/** A byte as two hexadecimal digits. */
export function hexSpelling(byte: number): Spelling {
  return hexDigits(byte.toString(16).padStart(2, '0'))
}

/**
 * The ways to write one letter of base64 or base64url.
 * @param sextets the values 0..63 that the letter may have: several where bits of it are not the secret's
 */
export function base64Spellings(sextets: readonly number[]): readonly Spelling[] {
  const letters = sextets.map((sextet) => BASE64.charAt(sextet))
  const plain = [...letters, ...sextets.flatMap((sextet) => URL_SAFE.get(sextet) ?? [])]
  // Letters and digits are written as they are by every encoder; "+" and "/" are not.
  const escaped = letters.filter((letter) => letter === '+' || letter === '/').flatMap((letter) => spellingsOf(letter))
  return [[plain.flatMap((letter) => [...Buffer.from(letter)])], ...escaped]
}

function exactly(text: string): Spelling {
  return Array.from(Buffer.from(text), (byte) => [byte])
}

function hexDigits(digits: string): Spelling {
  return Array.from(digits, bothCases)
}

function bothCases(letter: string): readonly number[] {
  return [...new Set([letter.toLowerCase(), letter.toUpperCase()])].map((one) => one.charCodeAt(0))
}

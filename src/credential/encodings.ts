/** A worthless value and what of it can be seen in other spellings. */
export type Needle = {
  readonly name: string
  readonly value: string
  readonly folded: string
  /** What any base64 text with the value in it has, by where in a group of three bytes the value begins. */
  readonly base64: readonly string[]
}

/** Text escaped more often than this is nothing that a server gets to see as the value. */
const ROUNDS = 4
export function needleOf(name: string, value: string): Needle {
  const base64 = [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), Buffer.from(value, 'latin1')]).toString('base64')
    // The first characters hold bits of what stands before, the last one bits of what comes after.
    return text.slice(Math.ceil((offset * 4) / 3), Math.floor(((offset + value.length) * 4) / 3))
  })
  return { name, value, folded: value.toLowerCase(), base64 }
}

/** Those of the needles that stand in the text: as they are, in another case, escaped up to four times over, or in base64. */
export function hiddenIn(text: string, needles: readonly Needle[]): Needle[] {
  const found = new Set<Needle>()
  let reading = text
  for (let round = 0; round <= ROUNDS; round += 1) {
    const folded = reading.toLowerCase()
    const bare = bareBase64(reading)
    for (const needle of needles) {
      if (folded.includes(needle.folded) || needle.base64.some((part) => bare.includes(part))) found.add(needle)
    }
    const next = unescaped(reading)
    if (next === reading) break
    reading = next
  }
  return [...found]
}

/** What percent escapes mean, one character a byte. Broken ones stand for themselves. */
export function percentDecoded(text: string): string {
  return text.includes('%') ? decodedBy(text, percentAt) : text
}

/** The text with `written` in the place of the value, wherever that stands as it is or percent-encoded. The rest keeps its bytes. */
export function replacedInPercent(text: string, value: string, written: string): string {
  const decoded = percentDecoded(text)
  let replaced = ''
  // The same place in both texts.
  let read = 0
  let done = 0
  const pass = (to: number): string => {
    const from = done
    for (; read < to; read += 1) done += percentAt((at) => text.charCodeAt(at), done)?.length ?? 1
    return text.slice(from, done)
  }
  for (let at = decoded.indexOf(value); at !== -1; at = decoded.indexOf(value, read)) {
    replaced += pass(at) + written
    pass(at + value.length)
  }
  return replaced + text.slice(done)
}

/** RFC 3986 §2.3: what stands for itself in any part of a URL and in a form. */
export function percentEncoded(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
}

/** Without percent escapes, those of JSON, and what IIS and old JavaScript take for one. */
function unescaped(text: string): string {
  return text.includes('%') || text.includes('\\u') ? decodedBy(text, escapeAt) : text
}

/** Letters of base64 alone: lenient decoders take either alphabet (RFC 4648 §5) and skip what is in none. */
function bareBase64(text: string): string {
  const bytes = Buffer.from(text, 'latin1')
  let end = 0
  for (const byte of bytes) {
    const letter = BASE64_LETTERS[byte] ?? 0
    if (letter !== 0) bytes[end++] = letter
  }
  return bytes.toString('latin1', 0, end)
}

/** For each byte the letter of base64 that it is, or 0. */
const BASE64_LETTERS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const letter = String.fromCharCode(byte).replace('-', '+').replace('_', '/')
  return /[A-Za-z0-9+/]/.test(letter) ? letter.charCodeAt(0) : 0
})

type Escape = { readonly byte: number; readonly length: number }
/** The byte at an index; NaN behind the end. */
type ByteAt = (at: number) => number

/** By the byte, as bodies may be full of escapes. */
function decodedBy(text: string, read: (byteAt: ByteAt, at: number) => Escape | undefined): string {
  const bytes = Buffer.from(text, 'latin1')
  const byteAt: ByteAt = (at) => bytes[at] ?? Number.NaN
  let end = 0
  for (let at = 0; at < bytes.length; end += 1) {
    const escape = read(byteAt, at)
    bytes[end] = escape === undefined ? (bytes[at] ?? 0) : escape.byte
    at += escape?.length ?? 1
  }
  return bytes.toString('latin1', 0, end)
}

const [PERCENT_SIGN, BACKSLASH, LETTER_U, ZERO] = [0x25, 0x5c, 0x75, 0x30] as const

function percentAt(byteAt: ByteAt, at: number): Escape | undefined {
  return byteAt(at) === PERCENT_SIGN ? hexAt(byteAt, at, 3) : undefined
}

function escapeAt(byteAt: ByteAt, at: number): Escape | undefined {
  const sign = byteAt(at)
  if (sign !== PERCENT_SIGN && sign !== BACKSLASH) return undefined
  const isUnicode = (byteAt(at + 1) | 0x20) === LETTER_U && byteAt(at + 2) === ZERO && byteAt(at + 3) === ZERO
  if (!isUnicode && sign === BACKSLASH) return undefined
  return hexAt(byteAt, at, isUnicode ? 6 : 3)
}

/** An escape of so many bytes, the last two of which are its digits. */
function hexAt(byteAt: ByteAt, at: number, length: number): Escape | undefined {
  const [high, low] = [hexDigit(byteAt(at + length - 2)), hexDigit(byteAt(at + length - 1))]
  return high === undefined || low === undefined ? undefined : { byte: high * 16 + low, length }
}

function hexDigit(byte: number): number | undefined {
  if (byte >= ZERO && byte < ZERO + 10) return byte - ZERO
  const letter = (byte | 0x20) - 0x61
  return letter >= 0 && letter < 6 ? letter + 10 : undefined
}

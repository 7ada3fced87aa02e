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
const PERCENT = /%([0-9a-f]{2})/gi
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
    // Lenient decoders take either alphabet (RFC 4648 §5) and skip what is in none.
    const bare = reading
      .replaceAll('-', '+')
      .replaceAll('_', '/')
      .replaceAll(/[^A-Za-z0-9+/]+/g, '')
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
  return text.includes('%') ? text.replaceAll(PERCENT, (_, hex: string) => characterOf(hex)) : text
}

/** The text with `written` in the place of the value, wherever that stands as it is or percent-encoded. The rest keeps its bytes. */
export function replacedInPercent(text: string, value: string, written: string): string {
  const characters = text.match(/%[0-9a-f]{2}|[\s\S]/gi) ?? []
  const decoded = percentDecoded(text)
  let replaced = ''
  let done = 0
  for (let at = decoded.indexOf(value); at !== -1; at = decoded.indexOf(value, done)) {
    replaced += characters.slice(done, at).join('') + written
    done = at + value.length
  }
  return replaced + characters.slice(done).join('')
}

/** RFC 3986 §2.3: what stands for itself in any part of a URL and in a form. */
export function percentEncoded(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
}

function characterOf(hex: string): string {
  return String.fromCharCode(Number.parseInt(hex, 16))
}

/** Without percent escapes, those of JSON, and what IIS and old JavaScript take for one. By the byte, as bodies may be full of them. */
function unescaped(text: string): string {
  if (!text.includes('%') && !text.includes('\\u')) return text
  const bytes = Buffer.from(text, 'latin1')
  let end = 0
  for (let at = 0; at < bytes.length; end += 1) {
    const escape = escapeAt(bytes, at)
    bytes[end] = escape === undefined ? (bytes[at] ?? 0) : escape.byte
    at += escape?.length ?? 1
  }
  return bytes.toString('latin1', 0, end)
}

const [PERCENT_SIGN, BACKSLASH, LETTER_U, ZERO] = [0x25, 0x5c, 0x75, 0x30] as const

function escapeAt(bytes: Buffer, at: number): { byte: number; length: number } | undefined {
  const sign = bytes[at]
  if (sign !== PERCENT_SIGN && sign !== BACKSLASH) return undefined
  const isUnicode = ((bytes[at + 1] ?? 0) | 0x20) === LETTER_U && bytes[at + 2] === ZERO && bytes[at + 3] === ZERO
  if (!isUnicode && sign === BACKSLASH) return undefined
  const length = isUnicode ? 6 : 3
  const [high, low] = [hexDigit(bytes[at + length - 2]), hexDigit(bytes[at + length - 1])]
  return high === undefined || low === undefined ? undefined : { byte: high * 16 + low, length }
}

function hexDigit(byte = 0): number | undefined {
  if (byte >= ZERO && byte < ZERO + 10) return byte - ZERO
  const letter = (byte | 0x20) - 0x61
  return letter >= 0 && letter < 6 ? letter + 10 : undefined
}

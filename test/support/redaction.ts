import { Secret } from '../../src/kernel/secret.ts'
import { MARKS, patternsOf, type Pattern } from '../../src/redactor/patterns.ts'
import { createRedactor } from '../../src/redactor/redactor.ts'
import type { Spelling } from '../../src/redactor/spellings.ts'

export const secretsOf = (values: readonly string[]): Secret[] => values.map((value, i) => new Secret(`S${i}`, value))

export type Redaction = {
  readonly out: Buffer
  readonly hits: number
  /** Bytes that each push gave, then flush. */ readonly sizes: number[]
}

/** Redacts bytes that come in chunks of the sizes, in turn; without sizes in one. */
export function redact(values: readonly string[], bytes: Buffer, sizes: readonly number[] = []): Redaction {
  const stream = createRedactor(secretsOf(values)).open()
  const parts: Buffer[] = []
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes.length === 0 ? bytes.length : (sizes[i % sizes.length] ?? 1)
    // A copy that is written over: nothing may be read of a chunk after its push.
    const chunk = Buffer.from(bytes.subarray(at, at + size))
    parts.push(Buffer.from(stream.push(chunk)))
    chunk.fill(0x5a)
    at += size
  }
  parts.push(stream.flush())
  return { out: Buffer.concat(parts), hits: stream.hits, sizes: parts.map((part) => part.length) }
}

/**
 * Which bytes belong to a match, by trying every pattern at every byte, in time without bound. Which spellings there are it
 * takes from the product; how they are found, and what happens where matches overlap, is written anew.
 */
export function matchedBytes(values: readonly string[], bytes: Buffer): boolean[] {
  const matched = Array.from(bytes, () => false)
  for (const pattern of patternsOf(secretsOf(values))) {
    for (let start = 0; start < bytes.length; start++) {
      for (const end of endsOf(pattern, bytes, start)) {
        const text = bytes.toString('latin1', start, end)
        const lineBreaks = pattern.mark === MARKS.base64 ? [...text.matchAll(/\\+[nr]|[\r\n]/g)] : []
        const isKept = (at: number): boolean => lineBreaks.some(({ index, 0: all }) => index <= at && at < index + all.length)
        for (let i = 0; i < text.length; i++) if (!isKept(i)) matched[start + i] = true
      }
    }
  }
  return matched
}

/** Where matches that begin at `start` end. */
function endsOf(pattern: Pattern, bytes: Buffer, start: number): number[] {
  let ends = [start]
  for (const { before, spellings } of pattern.units) {
    const begins = [...ends, ...ends.flatMap((at) => after(before, bytes, at))]
    ends = [...new Set(begins.flatMap((at) => after(spellings, bytes, at)))]
    if (ends.length === 0) break
  }
  return ends
}

function after(spellings: readonly Spelling[], bytes: Buffer, at: number): number[] {
  return spellings
    .filter((spelling) => spelling.every((one, i) => one.includes(bytes[at + i] ?? -1)))
    .map((spelling) => at + spelling.length)
}

const each = (text: string, write: (code: number) => string): string => Array.from(text, (one) => write(one.codePointAt(0) ?? 0)).join('')
const hexOf = (number: number, digits: number): string => number.toString(16).padStart(digits, '0')
const bytesOf = (text: string, write: (byte: number) => string): string => Array.from(Buffer.from(text), write).join('')
const wrapped = (text: string, width: number, end: string): string => text.match(new RegExp(`.{1,${width}}`, 'g'))?.join(end) ?? ''
const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)
const NAMED: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;' }

/** Encodings of a text letter by letter: none depends on what stands around it. */
export const SPELLINGS: Readonly<Record<string, (text: string) => string>> = {
  'as it is': (text) => text,
  hex: (text) => Buffer.from(text).toString('hex'),
  'hex, capitals': (text) => Buffer.from(text).toString('hex').toUpperCase(),
  'URL component': encodeURIComponent,
  'URL, every byte': (text) => bytesOf(text, (byte) => `%${hexOf(byte, 2).toUpperCase()}`),
  'URL, every byte, small letters': (text) => bytesOf(text, (byte) => `%${hexOf(byte, 2)}`),
  'URL, some bytes': (text) =>
    bytesOf(text, (byte) => (byte > 126 || byte === 0x25 || byte % 3 === 0 ? `%${hexOf(byte, 2)}` : String.fromCharCode(byte))),
  'URL form': (text) => new URLSearchParams({ k: text }).toString().slice(2),
  'URL component twice': (text) => encodeURIComponent(encodeURIComponent(text)),
  'URL, every byte twice': (text) => bytesOf(text, (byte) => `%25${hexOf(byte, 2)}`),
  JSON: inJson,
  'JSON with escaped slashes': (text) => inJson(text).replaceAll('/', '\\/'),
  'JSON, every letter by number': (text) => numbered(text),
  'JSON, capital digits': (text) => numbered(text).toUpperCase().replaceAll('\\U', '\\u'),
  'JSON in JSON': (text) => inJson(inJson(text)),
  'JSON in JSON, every letter by number': (text) => inJson(numbered(text)),
  'bytes escaped': (text) => bytesOf(text, (byte) => `\\x${hexOf(byte, 2)}`),
  'HTML by name': (text) => text.replaceAll(/[&<>"']/g, (one) => NAMED[one] ?? one),
  'HTML, decimal': (text) => each(text, (code) => `&#${code};`),
  'HTML, decimal with a zero': (text) => each(text, (code) => `&#0${code};`),
  'HTML, hex': (text) => each(text, (code) => `&#x${code.toString(16)};`),
  'HTML, hex, capitals': (text) => each(text, (code) => `&#X${hexOf(code, 4).toUpperCase()};`),
}

/** `\u00HH` for each UTF-16 unit. */
function numbered(text: string): string {
  return Array.from({ length: text.length }, (_, i) => `\\u${hexOf(text.charCodeAt(i), 4)}`).join('')
}

/** Encodings of a whole text, of which the secret is a part: where its letters fall depends on the bytes before it. */
export const WRAPPINGS: Readonly<Record<string, (text: string) => string>> = {
  base64: (text) => Buffer.from(text).toString('base64'),
  base64url: (text) => Buffer.from(text).toString('base64url'),
  'base64 in a URL': (text) => encodeURIComponent(Buffer.from(text).toString('base64')),
  'base64 in JSON with escaped slashes': (text) => Buffer.from(text).toString('base64').replaceAll('/', '\\/'),
  'base64 in lines of 76 (CR LF)': (text) => wrapped(Buffer.from(text).toString('base64'), 76, '\r\n'),
  'base64 in lines of 76 (LF)': (text) => wrapped(Buffer.from(text).toString('base64'), 76, '\n'),
  'base64 in lines of 64': (text) => wrapped(Buffer.from(text).toString('base64'), 64, '\n'),
  'base64 in lines of 76 in JSON': (text) => inJson(wrapped(Buffer.from(text).toString('base64'), 76, '\r\n')),
  'base64 in lines of 64 in JSON in JSON': (text) => inJson(inJson(wrapped(Buffer.from(text).toString('base64'), 64, '\n'))),
  'base64 in lines of 64 in a URL': (text) => encodeURIComponent(wrapped(Buffer.from(text).toString('base64'), 64, '\r\n')),
  'base64 in lines of one': (text) => wrapped(Buffer.from(text).toString('base64'), 1, '\n'),
}

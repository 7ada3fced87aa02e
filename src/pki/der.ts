/** DER (ITU-T X.690): writers for what our certificates and trust stores hold, and a reader for single values. */

/** Tags of the universal class; `SEQUENCE` and `SET` with the constructed bit. */
export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  bmpString: 0x1e,
  sequence: 0x30,
  set: 0x31,
} as const

/** One value: tag, length in its shortest form, contents. */
export function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const body = contents.length === 1 && contents[0] !== undefined ? contents[0] : Buffer.concat(contents)
  return Buffer.concat([header(tag, body.length), body])
}

export const sequence = (...items: readonly Uint8Array[]): Buffer => der(TAG.sequence, ...items)

/** SET OF: the items in the order of their encodings (X.690 §11.6). */
export const setOf = (...items: readonly Buffer[]): Buffer => der(TAG.set, ...items.toSorted((a, b) => Buffer.compare(a, b)))

export const octetString = (bytes: Uint8Array): Buffer => der(TAG.octetString, bytes)
export const utf8String = (text: string): Buffer => der(TAG.utf8String, Buffer.from(text, 'utf8'))
export const bmpString = (text: string): Buffer => der(TAG.bmpString, Buffer.from(text, 'utf16le').swap16())
export const boolean = (value: boolean): Buffer => der(TAG.boolean, Buffer.of(value ? 0xff : 0))
export const nothing = (): Buffer => der(TAG.null, Buffer.alloc(0))

/** A BIT STRING of whole bytes, or with so many unused bits at the end of the last one. */
export const bitString = (bytes: Uint8Array, unusedBits = 0): Buffer => der(TAG.bitString, Buffer.of(unusedBits), bytes)

/** Context tag with other contents than the type's own: `[n] EXPLICIT`. */
export const explicit = (n: number, ...contents: readonly Uint8Array[]): Buffer => der(0xa0 | n, ...contents)

/** Context tag on a primitive value: `[n] IMPLICIT`. */
export const implicit = (n: number, bytes: Uint8Array): Buffer => der(0x80 | n, bytes)

/** A non-negative INTEGER from big-endian bytes: no needless zeros in front, one where the high bit would mean "negative". */
export function unsigned(bytes: Uint8Array): Buffer {
  let start = 0
  while (start < bytes.length - 1 && bytes[start] === 0) start += 1
  const magnitude = bytes.subarray(start)
  const first = magnitude[0]
  if (first === undefined) return der(TAG.integer, Buffer.of(0))
  return first >= 0x80 ? der(TAG.integer, Buffer.of(0), magnitude) : der(TAG.integer, magnitude)
}

export function integer(value: number): Buffer {
  const hex = value.toString(16)
  return unsigned(Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex'))
}

/** An OBJECT IDENTIFIER from its dotted form. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return der(TAG.oid, Buffer.from([first * 40 + second, ...rest].flatMap(base128)))
}

/** UTCTime up to 2049, GeneralizedTime from 2050 and before 1950 (RFC 5280 §4.1.2.5), whole seconds, rounded down. */
export function time(ms: number): Buffer {
  const date = new Date(ms)
  const text = `${date.toISOString().slice(0, 19).replaceAll(/\D/g, '')}Z`
  const year = date.getUTCFullYear()
  return year >= 1950 && year < 2050 ? der(TAG.utcTime, Buffer.from(text.slice(2))) : der(TAG.generalizedTime, Buffer.from(text))
}

/** One value as it stands in `bytes`. `whole` has tag and length too. */
export type Value = { readonly tag: number; readonly contents: Buffer; readonly whole: Buffer }

/** The values that stand side by side in `bytes`. `undefined` where that is not what the bytes are. */
export function readValues(bytes: Buffer): readonly Value[] | undefined {
  const values: Value[] = []
  for (let start = 0; start < bytes.length;) {
    const tag = bytes[start]
    const short = bytes[start + 1]
    if (tag === undefined || short === undefined || (tag & 0x1f) === 0x1f) return undefined
    const lengthBytes = short < 0x80 ? 0 : short & 0x7f
    const from = start + 2 + lengthBytes
    if (short === 0x80 || lengthBytes > 4 || from > bytes.length) return undefined
    const length = lengthBytes === 0 ? short : bytes.readUIntBE(start + 2, lengthBytes)
    if (from + length > bytes.length) return undefined
    values.push({ tag, contents: bytes.subarray(from, from + length), whole: bytes.subarray(start, from + length) })
    start = from + length
  }
  return values
}

/** A PEM block with lines of 64 characters (RFC 7468). */
export function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`
}

function header(tag: number, length: number): Buffer {
  if (length < 0x80) return Buffer.of(tag, length)
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  return Buffer.of(tag, 0x80 | bytes.length, ...bytes)
}

function base128(value: number): number[] {
  const digits = [value % 128]
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) digits.unshift((rest % 128) | 0x80)
  return digits
}

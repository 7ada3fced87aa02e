import { decodeHuffman } from './huffman.ts'
import { CODE, ConnectionError } from './protocol.ts'
import { STATIC_ENTRIES, STATIC_TABLE } from './static-table.ts'

/** The table that we offer: what SETTINGS_HEADER_TABLE_SIZE is without being said. */
const TABLE_BYTES_MAX = 4096
/** RFC 7541 §4.1. */
const ENTRY_BYTES = 32
/** A ring: no more entries than this fit. */
const RING = TABLE_BYTES_MAX / ENTRY_BYTES
/** More than any bound here: a number beyond is an attack. */
const NUMBER_MAX = 0xff_ff_ff

/** Bytes of names (lower case only: RFC 9113 §8.2.1) and of values: no NUL, CR, LF, nor other controls but TAB. */
const NAME_BYTES = new Uint8Array(256)
for (const letter of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") NAME_BYTES[letter.charCodeAt(0)] = 1
const VALUE_BYTES = new Uint8Array(256).fill(1, 0x20, 0x7f).fill(1, 0x80)
VALUE_BYTES[9] = 1

export type HeaderLimits = {
  /** As SETTINGS_MAX_HEADER_LIST_SIZE counts them (RFC 9113 §6.5.2). */
  readonly bytesMax: number
  readonly fieldsMax: number
}

/** Reads field blocks (RFC 7541) of one connection, in the order in which they came. */
export class HpackDecoder {
  /** Of the last block: names and values in turn, as latin1. Empty where the block is too large. */
  fields: string[] = []
  /** The last block is beyond the limits. It was read all the same: the table goes on. */
  isTooLarge = false
  /** A field of it has bytes that no field may have. */
  isMalformed = false
  readonly #limits: HeaderLimits
  readonly #names: string[] = Array.from({ length: RING }, () => '')
  readonly #values: string[] = Array.from({ length: RING }, () => '')
  readonly #isBad = new Uint8Array(RING)
  #newest = 0
  #count = 0
  #bytes = 0
  #bytesMax = TABLE_BYTES_MAX
  #block: Buffer = Buffer.alloc(0)
  #at = 0
  #isBadText = false
  #listBytes = 0

  constructor(limits: HeaderLimits) {
    this.#limits = limits
  }

  /** @throws ConnectionError for a block that does not decode: what comes behind it cannot be read either */
  decode(block: Buffer): void {
    this.#block = block
    this.#at = 0
    this.#listBytes = 0
    this.fields = []
    this.isTooLarge = false
    this.isMalformed = false
    let hasField = false
    while (this.#at < block.length) {
      const first = block[this.#at] as number
      if ((first & 0xe0) === 0x20) {
        // §4.2: only at the beginning.
        if (hasField) throw broken('the table changes its size behind a field')
        this.#resize(this.#number(5))
        continue
      }
      hasField = true
      if (first >= 0x80) this.#indexed(this.#number(7))
      else if (first >= 0x40) this.#literal(6, true)
      else this.#literal(4, false)
    }
    this.#block = EMPTY
    if (this.isTooLarge) this.fields = []
  }

  #indexed(index: number): void {
    if (index > 0 && index <= STATIC_ENTRIES) {
      return this.#add(STATIC_TABLE[index * 2 - 2] as string, STATIC_TABLE[index * 2 - 1] as string)
    }
    const slot = this.#slot(index)
    if (this.#isBad[slot] === 1) this.isMalformed = true
    this.#add(this.#names[slot] as string, this.#values[slot] as string)
  }

  #literal(prefix: number, isKept: boolean): void {
    const index = this.#number(prefix)
    this.#isBadText = false
    let name: string
    if (index === 0) {
      name = this.#text(NAME_BYTES)
    } else if (index <= STATIC_ENTRIES) {
      name = STATIC_TABLE[index * 2 - 2] as string
    } else {
      const slot = this.#slot(index)
      name = this.#names[slot] as string
      this.#isBadText = this.#isBad[slot] === 1
    }
    const value = this.#text(VALUE_BYTES)
    if (isKept) this.#keep(name, value, this.#isBadText)
    if (this.#isBadText) this.isMalformed = true
    this.#add(name, value)
  }

  #add(name: string, value: string): void {
    this.#listBytes += name.length + value.length + ENTRY_BYTES
    if (this.#listBytes > this.#limits.bytesMax || this.fields.length >= 2 * this.#limits.fieldsMax) this.isTooLarge = true
    // A block of a few bytes can name an entry of kilobytes many times.
    else this.fields.push(name, value)
  }

  #slot(index: number): number {
    const back = index - STATIC_ENTRIES - 1
    if (back < 0 || back >= this.#count) throw broken('a field that is in no table')
    return (this.#newest - back + RING) % RING
  }

  #keep(name: string, value: string, isBad: boolean): void {
    const bytes = name.length + value.length + ENTRY_BYTES
    this.#evict(this.#bytesMax - bytes)
    // §4.4: one that is larger than the table empties it.
    if (bytes > this.#bytesMax) return
    this.#newest = (this.#newest + 1) % RING
    this.#names[this.#newest] = name
    this.#values[this.#newest] = value
    this.#isBad[this.#newest] = isBad ? 1 : 0
    this.#count += 1
    this.#bytes += bytes
  }

  #resize(bytes: number): void {
    if (bytes > TABLE_BYTES_MAX) throw broken('the table is made larger than was offered')
    this.#bytesMax = bytes
    this.#evict(bytes)
  }

  #evict(bytesLeft: number): void {
    while (this.#count > 0 && this.#bytes > bytesLeft) {
      const oldest = (this.#newest - this.#count + 1 + RING) % RING
      this.#bytes -= (this.#names[oldest] as string).length + (this.#values[oldest] as string).length + ENTRY_BYTES
      this.#names[oldest] = ''
      this.#values[oldest] = ''
      this.#count -= 1
    }
  }

  /** §5.1 */
  #number(prefix: number): number {
    const most = (1 << prefix) - 1
    let value = (this.#block[this.#at++] ?? 0) & most
    if (value < most) return value
    for (let shift = 0; ; shift += 7) {
      const byte = this.#block[this.#at++]
      if (byte === undefined) throw broken('it ends in a number')
      value += (byte & 0x7f) * 2 ** shift
      if (value > NUMBER_MAX || shift > 21) throw broken('a number is too large')
      if (byte < 0x80) return value
    }
  }

  /** §5.2 */
  #text(allowed: Uint8Array): string {
    const isCoded = ((this.#block[this.#at] ?? 0) & 0x80) !== 0
    const length = this.#number(7)
    const start = this.#at
    const end = start + length
    if (end > this.#block.length) throw broken('it ends in a text')
    this.#at = end
    if (!isCoded) return this.#checked(this.#block, start, end, allowed)
    const room = Math.ceil((length * 8) / 5)
    if (scratch.length < room) scratch = Buffer.allocUnsafeSlow(room)
    const decoded = decodeHuffman(this.#block, start, end, scratch)
    if (decoded < 0) throw broken('a text is no Huffman code')
    return this.#checked(scratch, 0, decoded, allowed)
  }

  #checked(bytes: Buffer, start: number, end: number, allowed: Uint8Array): string {
    let isAllowed = 1
    // The names of pseudo-header fields begin with a colon; which there are is for the reader of the fields.
    const from = allowed === NAME_BYTES && bytes[start] === COLON ? start + 1 : start
    for (let i = from; i < end; i++) isAllowed &= allowed[bytes[i] as number] as number
    const isEmptyName = allowed === NAME_BYTES && from === end
    // RFC 9113 §8.2.1: white space around a value is an error here.
    const isPadded = allowed === VALUE_BYTES && start < end && (isSpace(bytes[start]) || isSpace(bytes[end - 1]))
    if (isAllowed === 0 || isEmptyName || isPadded) this.#isBadText = true
    return bytes.latin1Slice(start, end)
  }
}

const EMPTY = Buffer.alloc(0)
const COLON = 0x3a
/** Where decoded texts stand until they are strings. */
let scratch: Buffer = Buffer.allocUnsafeSlow(1024)

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || byte === 9

function broken(why: string): ConnectionError {
  return new ConnectionError(CODE.COMPRESSION_ERROR, `a field block does not decode: ${why}`)
}

import type { Output } from './output.ts'
import { STATIC_INDEX } from './static-table.ts'

/** How a field is written (RFC 7541 §6.2): both never enter a table, and the latter may not on any hop behind this one either. */
export const LITERAL = { plain: 0, neverIndexed: 0x10 } as const

/** Says that our table is empty and stays so (RFC 7541 §6.3): for a peer that allows less than the default. */
export function encodeEmptyTable(out: Output): void {
  out.byte(0x20)
}

/** A field that is in the static table with its value, or else as a literal. */
export function encodeIndexed(out: Output, name: string, value: string): void {
  const index = STATIC_INDEX.get(`${name}\0${value}`)
  if (index === undefined) encodeField(out, name, value, LITERAL.plain)
  else out.byte(0x80 | index)
}

/**
 * A field as a literal. Nothing is ever kept in a dynamic table, by which lengths of compressed heads tell of their secrets, and no
 * Huffman code is used: bytes are cheaper here than time. `name` is lower case, both are latin1.
 */
export function encodeField(out: Output, name: string, value: string, kind: number): void {
  const index = STATIC_INDEX.get(name)
  if (index === undefined) {
    out.byte(kind)
    number(out, 0, 7, name.length)
    out.text(name)
  } else {
    number(out, kind, 4, index)
  }
  number(out, 0, 7, value.length)
  out.text(value)
}

/** RFC 7541 §5.1 */
function number(out: Output, bits: number, prefix: number, value: number): void {
  const most = (1 << prefix) - 1
  if (value < most) return out.byte(bits | value)
  out.byte(bits | most)
  let left = value - most
  for (; left >= 0x80; left >>>= 7) out.byte((left & 0x7f) | 0x80)
  out.byte(left)
}

import type { Automaton } from './automaton.ts'

const GRAM_BYTES = 3
/** A table of 16 KB: with less, 20 secrets fill a fifth of it; with more it pushes everything else out of the first cache. */
const HASH_BITS = 17
/** The most bytes at the beginning of a match that are asked for. More would be hardly faster and take longer to prepare. */
const WINDOW_BYTES_MAX = 16
/** With shorter matches too little is skipped. */
const WINDOW_BYTES_MIN = 5
/** A table that is fuller lets too much through. */
const GRAMS_MAX = (1 << HASH_BITS) * 0.6

/**
 * Finds where matches may begin without reading every byte. Each run of three bytes (gram) within the first bytes of any match
 * is in a table, by a hash. Where one is not, none of the matches begins that would have it within their first bytes.
 */
export class Sieve {
  readonly #table: Int32Array
  /** So far from the first gram of a match to the last one that is asked for. */
  readonly #reach: number

  constructor(table: Int32Array, windowBytes: number) {
    this.#table = table
    this.#reach = windowBytes - GRAM_BYTES
  }

  /**
   * The first index, from `from` on, at which a match may begin. Near the end of the data, where the first bytes of a match are
   * not there yet, the first one that is not decided.
   */
  next(data: Buffer, from: number): number {
    const table = this.#table
    const reach = this.#reach
    const last = data.length - GRAM_BYTES
    // A match that begins at `from` or behind it has this gram, or begins behind it.
    let at = from + reach
    while (at <= last) {
      if (!has(table, data, at)) {
        at += reach + 1
        continue
      }
      // A match that has it has as many others around it.
      let first = at
      while (first > at - reach && has(table, data, first - 1)) first--
      let other = at + 1
      while (other <= first + reach && other <= last && has(table, data, other)) other++
      if (other > first + reach || other > last) return first
      at = other + 1 + reach
    }
    return at - reach
  }
}

/** A sieve for the matches of the automaton, where one is worth it. */
export function createSieve(automaton: Automaton): Sieve | undefined {
  const windowBytes = Math.min(automaton.shortest, WINDOW_BYTES_MAX)
  if (windowBytes < WINDOW_BYTES_MIN) return undefined
  const grams = new Grams(automaton)
  for (const [unit, bytes] of automaton.beforeMin.entries()) {
    if (bytes > windowBytes - GRAM_BYTES) continue
    grams.addUnit(unit)
    if (grams.count > GRAMS_MAX) return undefined
  }
  return new Sieve(grams.table, windowBytes)
}

class Grams {
  count = 0
  readonly table = new Int32Array((1 << HASH_BITS) / 32)
  readonly #automaton: Automaton

  constructor(automaton: Automaton) {
    this.#automaton = automaton
  }

  /** Those that begin in the unit, at any byte of any spelling. */
  addUnit(unit: number): void {
    const { nodesOf, depths } = this.#automaton
    const first = nodesOf[unit] as number
    // Only the first node of a unit has no depth.
    for (let node = 0; node === 0 || (depths[first + node] ?? 0) > 0; node++) this.#addFrom(unit, node, 0, 0, GRAM_BYTES)
  }

  /** All ways to go on for `missing` bytes. A match that ends before has no such gram. */
  #addFrom(unit: number, node: number, a: number, b: number, missing: number): void {
    const { nodesOf, edgesOf, edges, marks } = this.#automaton
    const index = (nodesOf[unit] as number) + node
    const last = edgesOf[index + 1] as number
    for (let e = edgesOf[index] as number; e < last; e++) {
      const edge = edges[e] as number
      const byte = edge & 255
      if (missing === 1) this.#add(hashOf(a, b, byte))
      else {
        if (edge > 511) this.#addFrom(unit, edge >> 9, b, byte, missing - 1)
        if ((edge & 256) !== 0 && marks[unit] === 0) this.#addFrom(unit + 1, 0, b, byte, missing - 1)
      }
    }
  }

  #add(hash: number): void {
    const bit = 1 << (hash & 31)
    const word = this.table[hash >>> 5] as number
    if ((word & bit) !== 0) return
    this.table[hash >>> 5] = word | bit
    this.count++
  }
}

function has(table: Int32Array, data: Buffer, at: number): boolean {
  const hash = hashOf(data[at] as number, data[at + 1] as number, data[at + 2] as number)
  return ((table[hash >>> 5] as number) & (1 << (hash & 31))) !== 0
}

function hashOf(a: number, b: number, c: number): number {
  return ((a << 12) ^ (b << 6) ^ c) & ((1 << HASH_BITS) - 1)
}

import { LIMITS } from '../kernel/limits.ts'
import { createThreads, depthOf, step, type Automaton, type Threads } from './automaton.ts'
import { createSieve, type Sieve } from './sieve.ts'

/** Entries of the table: not known yet, no partial match; from `MATCH` on a match ended with the byte, and the rest is the state. */
export const UNKNOWN = 0
export const ROOT = 1
export const MATCH = 0x8000

/** A set of positions that a text has led to. */
type State = {
  readonly positions: Int32Array
  /** The most bytes of its partial matches, and of the match that ended. */
  readonly depth: number
  readonly hasMatch: boolean
  /** The next older state with the same hash. */
  readonly older: number
}

const FIRST_ROWS = 16
/** So many bytes are read where a match may begin, before it is asked whether to look for the next such place. */
const STRETCH_BYTES = 64

/**
 * The automaton made deterministic as far as texts need it: a row of 256 entries for each set of positions that occurred,
 * filled entry by entry. Never more than `LIMITS.redactorStatesMax` rows: then all are forgotten, so that no text makes it grow.
 */
export class StateCache {
  readonly automaton: Automaton
  readonly #sieve: Sieve | undefined
  /** `#table[state << 8 | byte]`; replaced when it grows. */
  #table = new Uint16Array(FIRST_ROWS << 8)
  readonly #statesMax: number
  readonly #positionsMax: number
  #states: State[] = []
  #newest = new Map<number, number>()
  #positionCount = 0
  readonly #from = createThreads()
  readonly #to = createThreads()

  /** @param statesMax, positionsMax of all states together: at these limits everything is forgotten */
  constructor(automaton: Automaton, statesMax: number = LIMITS.redactorStatesMax, positionsMax: number = LIMITS.redactorPositionsMax) {
    this.automaton = automaton
    this.#sieve = createSieve(automaton)
    this.#statesMax = statesMax
    this.#positionsMax = positionsMax
    this.#forget()
  }

  /** States that are kept. */
  get stateCount(): number {
    return this.#states.length
  }

  /**
   * What `run` gives, found faster: bytes are skipped that no match can begin with or go over. Of the partial matches in
   * `first` none may begin before the data.
   * @param isWhole nothing follows the data: then the state at its end is of no meaning
   */
  find(data: Buffer, from: number, first: number, isWhole: boolean): { at: number; state: number } {
    const sieve = this.#sieve
    const end = data.length
    if (sieve === undefined) return this.run(data, from, first)
    let at = from
    let state = first
    for (;;) {
      if (state === ROOT) at = sieve.next(data, at)
      if (isWhole && state === ROOT && at + this.automaton.shortest > end) return { at: end, state: ROOT }
      ;({ at, state } = this.run(data, at, state, Math.min(at + STRETCH_BYTES, end)))
      if (at === end || state >= MATCH) return { at, state }
      // What is alive is looked for again. No byte is read more than twice on average.
      const depth = this.depth(state)
      if (depth > STRETCH_BYTES / 2) continue
      at = Math.max(0, at - depth)
      state = ROOT
    }
  }

  /** Reads to `end`, or to just past the first byte that ends a match: then the state is `MATCH` and more. */
  run(data: Buffer, from: number, first: number, end: number = data.length): { at: number; state: number } {
    let table = this.#table
    let state = first
    let at = from
    while (at < end) {
      let next = ROOT
      // One look-up a byte, and one comparison for all that is out of the ordinary.
      while (at < end) {
        next = table[(state << 8) | (data[at] as number)] as number
        if ((next - ROOT) >>> 0 >= MATCH - ROOT) break
        state = next
        at++
      }
      if (at === end) break
      if (next === UNKNOWN) {
        next = this.#fill(state, data[at] as number)
        table = this.#table
      }
      state = next
      at++
      if (state >= MATCH) break
    }
    return { at, state }
  }

  /**
   * Where a trace has to begin that is to know what is alive at `to`, when nothing is that began before `from`: partial
   * matches that begin after `from` and are gone again need not be traced.
   */
  lastRoot(data: Buffer, from: number, to: number): number {
    let root = from
    let state = ROOT
    for (let at = from; at < to; at++) {
      if (state === ROOT) root = at
      const byte = data[at] as number
      state = (this.#table[(state << 8) | byte] || this.#fill(state, byte)) & ~MATCH
    }
    return root
  }

  /** The most bytes that a partial match in the state may have, or the match that led to it. */
  depth(state: number): number {
    return this.#states[state & ~MATCH]?.depth ?? 0
  }

  /** Fills an entry of the table and gives it. Other states may be forgotten by that. */
  #fill(state: number, byte: number): number {
    const { positions } = this.#states[state] as State
    const from = this.#from
    from.positions = positions
    from.starts = new Int32Array(positions.length)
    from.count = positions.length
    step(this.automaton, from, byte, 0, this.#to)
    const before = this.#states
    const next = this.stateOf(this.#to)
    const entry = this.#to.ended.length > 0 ? next | MATCH : next
    if (before === this.#states) this.#table[(state << 8) | byte] = entry
    return entry
  }

  /** The state of partial matches; `ROOT` when there are none. Other states may be forgotten by that. */
  stateOf(threads: Threads): number {
    const hasMatch = threads.ended.length > 0
    let depth = threads.endedDepth
    let hash = depth
    for (let i = 0; i < threads.count; i++) {
      const position = threads.positions[i] as number
      depth = Math.max(depth, depthOf(this.automaton, position))
      hash = Math.imul(hash ^ position, 0x01000193) ^ (hash >>> 15)
    }
    if (threads.count === 0 && !hasMatch) return ROOT
    for (let known = this.#newest.get(hash) ?? UNKNOWN; known !== UNKNOWN; known = this.#states[known]?.older ?? UNKNOWN) {
      const state = this.#states[known] as State
      if (state.hasMatch === hasMatch && state.depth === depth && isSame(state.positions, threads)) return known
    }
    const isFull = this.#states.length >= this.#statesMax || this.#positionCount + threads.count > this.#positionsMax
    if (isFull) this.#forget()
    return this.#keep(hash, {
      positions: threads.positions.slice(0, threads.count),
      depth,
      hasMatch,
      older: this.#newest.get(hash) ?? UNKNOWN,
    })
  }

  #keep(hash: number, state: State): number {
    const id = this.#states.push(state) - 1
    this.#newest.set(hash, id)
    this.#positionCount += state.positions.length
    if (id << 8 === this.#table.length) {
      const larger = new Uint16Array(this.#table.length * 2)
      larger.set(this.#table)
      this.#table = larger
    }
    return id
  }

  #forget(): void {
    const root = { positions: new Int32Array(0), depth: 0, hasMatch: false, older: UNKNOWN }
    // The first one stands for UNKNOWN and is never a state.
    this.#states = [root, root]
    this.#newest = new Map()
    this.#positionCount = 0
    this.#table = new Uint16Array(FIRST_ROWS << 8)
  }
}

function isSame(positions: Int32Array, threads: Threads): boolean {
  if (positions.length !== threads.count) return false
  for (let i = 0; i < positions.length; i++) if (positions[i] !== threads.positions[i]) return false
  return true
}

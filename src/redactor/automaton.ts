import type { Mark, Pattern } from './patterns.ts'
import type { Spelling, Unit } from './spellings.ts'

/**
 * A nondeterministic automaton of all patterns. A position is `unit * 256 + node`: a unit of a pattern, and how far into
 * one of its spellings. Units that are spelled the same share their nodes; node 0 is where a unit begins.
 */
export type Automaton = {
  /** For each unit the index of its node 0. */
  readonly nodesOf: Int32Array
  /** For each unit the mark of its pattern when it is the last one, else 0. */
  readonly marks: Uint8Array
  /** For each unit the most bytes that the units before it may take. */
  readonly before: Int32Array
  /** For each unit the fewest bytes that the units before it take, 255 for more. */
  readonly beforeMin: Uint8Array
  /** For each node the most bytes from the beginning of its unit: 0 for the first one alone. */
  readonly depths: Uint8Array
  /** For each node its first edge; one more at the end. An edge is `byte | whether the unit ends << 8 | next node << 9` (0: none). */
  readonly edgesOf: Int32Array
  readonly edges: Int32Array
  /** For each byte the first positions of patterns that may begin with it, ascending. */
  readonly beginnings: readonly Int32Array[]
  /** 1 for each byte that a match may have in it, and for all letters, digits and letters of base64; 0 for CR and LF. */
  readonly alphabet: Uint8Array
  /** A control character that no match may have in it, if there is one. */
  readonly separator: number | undefined
  /** The most bytes that a match can have, or more. */
  readonly longest: number
  /** The fewest bytes that a match can have. */
  readonly shortest: number
}

/**
 * Partial matches: positions, ascending, each with the earliest beginning of a match that leads there (an index into the
 * data searched). `ended` are the matches that ended with the last byte.
 */
export type Threads = {
  positions: Int32Array
  starts: Int32Array
  count: number
  readonly ended: { start: number; mark: Mark }[]
  /** The most bytes of a match in `ended`. */
  endedDepth: number
}

export function createThreads(): Threads {
  // Arrays of up to 64 bytes are made many times as fast as larger ones.
  return { positions: new Int32Array(16), starts: new Int32Array(16), count: 0, ended: [], endedDepth: 0 }
}

/**
 * Reads one byte: `to` becomes what is left of `from` after it, and what begins with it.
 * @param at index of the byte, the beginning of new matches
 */
export function step(automaton: Automaton, from: Threads, byte: number, at: number, to: Threads): void {
  to.count = 0
  to.ended.length = 0
  to.endedDepth = 0
  const beginnings = automaton.beginnings[byte] as Int32Array
  let begun = 0
  // Both lists ascend, and a position only leads to itself or higher: what is added is nearly in order.
  for (let i = 0; i < from.count; i++) {
    const position = from.positions[i] as number
    while (begun < beginnings.length && (beginnings[begun] as number) < position)
      follow(automaton, beginnings[begun++] as number, at, byte, to)
    follow(automaton, position, from.starts[i] as number, byte, to)
  }
  while (begun < beginnings.length) follow(automaton, beginnings[begun++] as number, at, byte, to)
}

function follow(automaton: Automaton, position: number, start: number, byte: number, to: Threads): void {
  const unit = position >>> 8
  const node = (automaton.nodesOf[unit] as number) + (position & 255)
  const last = automaton.edgesOf[node + 1] as number
  for (let e = automaton.edgesOf[node] as number; e < last; e++) {
    const edge = automaton.edges[e] as number
    if ((edge & 255) !== byte) continue
    if (edge > 511) add(to, (unit << 8) | (edge >> 9), start)
    if ((edge & 256) === 0) return
    const mark = automaton.marks[unit] as Mark | 0
    if (mark === 0) add(to, (unit + 1) << 8, start)
    else end(to, mark, start, (automaton.before[unit] as number) + (automaton.depths[node] as number) + 1)
    return
  }
}

function add(to: Threads, position: number, start: number): void {
  let at = to.count
  while (at > 0 && (to.positions[at - 1] as number) > position) at--
  if (at > 0 && to.positions[at - 1] === position) {
    if (start < (to.starts[at - 1] as number)) to.starts[at - 1] = start
    return
  }
  if (to.count === to.positions.length) {
    to.positions = doubled(to.positions)
    to.starts = doubled(to.starts)
  }
  if (at < to.count) {
    to.positions.copyWithin(at + 1, at, to.count)
    to.starts.copyWithin(at + 1, at, to.count)
  }
  to.positions[at] = position
  to.starts[at] = start
  to.count++
}

function end(to: Threads, mark: Mark, start: number, depth: number): void {
  const same = to.ended.find((other) => other.mark === mark)
  if (same === undefined) to.ended.push({ start, mark })
  else same.start = Math.min(same.start, start)
  to.endedDepth = Math.max(to.endedDepth, depth)
}

function doubled(array: Int32Array): Int32Array {
  const larger = new Int32Array(array.length * 2)
  larger.set(array)
  return larger
}

/** The most bytes that a partial match at the position may have. */
export function depthOf(automaton: Automaton, position: number): number {
  const unit = position >>> 8
  return (automaton.before[unit] as number) + (automaton.depths[(automaton.nodesOf[unit] as number) + (position & 255)] as number)
}

/** An automaton that finds the patterns, all at once. */
export function compile(patterns: readonly Pattern[]): Automaton {
  const unitCount = patterns.reduce((sum, pattern) => sum + pattern.units.length, 0)
  const nodes = createNodes()
  const nodesOf = new Int32Array(unitCount)
  const marks = new Uint8Array(unitCount)
  const before = new Int32Array(unitCount)
  const beforeMin = new Uint8Array(unitCount).fill(255)
  const beginnings = Array.from({ length: 256 }, (): number[] => [])
  let longest = 0
  let shortest = Infinity
  let unit = 0
  for (const { mark, units } of patterns) {
    for (const byte of nodes.of(units[0] as Unit).firstBytes) beginnings[byte]?.push(unit << 8)
    let bytesMin = 0
    let bytesMax = 0
    for (const one of units) {
      const compiled = nodes.of(one)
      nodesOf[unit] = compiled.index
      before[unit] = bytesMax
      if (bytesMin < 255) beforeMin[unit] = bytesMin
      bytesMin += compiled.bytesMin
      bytesMax += compiled.bytesMax
      unit++
    }
    marks[unit - 1] = mark
    longest = Math.max(longest, bytesMax)
    shortest = Math.min(shortest, bytesMin)
  }
  const tables = nodes.tables()
  const alphabet = alphabetOf(tables.edges)
  return {
    nodesOf,
    marks,
    before,
    beforeMin,
    ...tables,
    beginnings: beginnings.map((list) => Int32Array.from(list)),
    alphabet,
    separator: CONTROLS.find((byte) => alphabet[byte] === 0),
    longest,
    shortest,
  }
}

/** But for line breaks, which are in matches and not in the alphabet. */
const CONTROLS = Array.from({ length: 32 }, (_, byte) => byte).filter((byte) => byte !== 0x0a && byte !== 0x0d)

function alphabetOf(edges: Int32Array): Uint8Array {
  const alphabet = Uint8Array.from({ length: 256 }, (_, byte) => (/[A-Za-z0-9+/_-]/.test(String.fromCharCode(byte)) ? 1 : 0))
  for (const edge of edges) alphabet[edge & 255] = 1
  alphabet[0x0a] = 0
  alphabet[0x0d] = 0
  return alphabet
}

type Edge = { next: number; ends: boolean }
type CompiledUnit = { readonly index: number; readonly bytesMin: number; readonly bytesMax: number; readonly firstBytes: readonly number[] }

/** Collects the nodes of units, each distinct unit once. */
function createNodes() {
  const compiled = new Map<Unit, CompiledUnit>()
  const depths: number[] = []
  const edgesOf: number[] = []
  const edges: number[] = []
  return {
    of(unit: Unit): CompiledUnit {
      const known = compiled.get(unit)
      if (known !== undefined) return known
      const built = buildUnit(unit)
      const bytesMin = Math.min(...unit.spellings.map((spelling) => spelling.length))
      const firstBytes = [...(built.nodes[0]?.keys() ?? [])]
      const made = { index: depths.length, bytesMin, bytesMax: built.bytesMax, firstBytes }
      for (const node of built.nodes) {
        edgesOf.push(edges.length)
        for (const [byte, { next, ends }] of node) edges.push(byte | (ends ? 256 : 0) | (next << 9))
      }
      depths.push(...built.depths)
      compiled.set(unit, made)
      return made
    },
    tables: () => ({
      depths: Uint8Array.from(depths),
      edgesOf: Int32Array.from([...edgesOf, edges.length]),
      edges: Int32Array.from(edges),
    }),
  }
}

/** The spellings of a unit as a tree; those of what may stand before it lead to one node, from which they all begin again. */
function buildUnit(unit: Unit) {
  const nodes: Map<number, Edge>[] = [new Map()]
  const depths = [0]
  let bytesMax = 0
  const addNode = (depth: number): number => {
    if (nodes.length > 255) throw new RangeError('a unit has more spellings than a position has room for')
    depths.push(depth)
    return nodes.push(new Map()) - 1
  }
  /** `to` is the node that the last byte leads to; without one the unit ends there. */
  const insert = (spelling: Spelling, from: number, to?: number): void => {
    let at = from
    for (const bytes of spelling.slice(0, -1)) {
      const next = nodes[at]?.get(bytes[0] as number)?.next || addNode((depths[at] as number) + 1)
      connect(nodes[at], bytes, next)
      at = next
    }
    const depth = (depths[at] as number) + 1
    const last = spelling.at(-1) as readonly number[]
    if (to === undefined) {
      for (const byte of last) nodes[at]?.set(byte, { next: nodes[at]?.get(byte)?.next ?? 0, ends: true })
      bytesMax = Math.max(bytesMax, depth)
    } else {
      connect(nodes[at], last, to)
      depths[to] = Math.max(depths[to] as number, depth)
    }
  }
  if (unit.before.length > 0) {
    const after = addNode(0)
    for (const spelling of unit.before) insert(spelling, 0, after)
    for (const spelling of unit.spellings) insert(spelling, after)
  }
  for (const spelling of unit.spellings) insert(spelling, 0)
  return { nodes, depths, bytesMax }
}

function connect(node: Map<number, Edge> | undefined, bytes: readonly number[], next: number): void {
  for (const byte of bytes) {
    const edge = node?.get(byte)
    if (edge !== undefined && edge.next !== 0 && edge.next !== next)
      throw new RangeError('two spellings of a unit part at a byte with two cases')
    node?.set(byte, { next, ends: edge?.ends ?? false })
  }
}

/** Length of the code of each byte and of EOS, in bits: 'a' is 5 (RFC 7541 Appendix B). The code is canonical, so these are all of it. */
const LENGTHS =
  'isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxxbffhibdgffdgdbbbaaabbbbbbbcdkbhf' +
  'ibccccccccccccccccccccccdcdioijbkabababbbaccbbbabcbaabccccckgjix' +
  'prpprrrsrssssststtrstssssqrsrsstrqprrssqsrrtqrssqqrqsrssprrrsrrs' +
  'vvporsruvvvwwvtuoqvwwvwtqqvvxwwwptpqrqqsrruuttvsvwvvwwwwwxwwwwwv' +
  'z'
const SHORTEST_BITS = 5
const EOS = 256

/** An entry of the table: the next state, whether a byte came out, and whether the bits are no code. */
const STATE = 0xff
const EMITS = 0x100
const BROKEN = 0x200

type Table = {
  /** 16 entries a state: one for each four bits that may follow. No code is shorter, so at most one byte comes out. */
  readonly steps: Uint16Array
  readonly bytes: Uint8Array
  /** States in which a text may end: up to seven bits of EOS behind the last byte (§5.2). */
  readonly isEnd: Uint8Array
}

/** Nodes of the code's tree: where 0 and 1 lead, a byte as -1 - byte. */
function createTree(): Int16Array[] {
  const tree = [new Int16Array(2)]
  const order = Array.from(LENGTHS, (letter, symbol) => ({ symbol, bits: letter.charCodeAt(0) - 97 + SHORTEST_BITS }))
  order.sort((a, b) => a.bits - b.bits || a.symbol - b.symbol)
  let code = 0
  let bits = 0
  for (const { symbol, bits: length } of order) {
    code <<= length - bits
    bits = length
    let at = 0
    for (let bit = length - 1; bit > 0; bit--) {
      const node = tree[at] as Int16Array
      const way = (code >>> bit) & 1
      if (node[way] === 0) node[way] = tree.push(new Int16Array(2)) - 1
      at = node[way] ?? 0
    }
    ;(tree[at] as Int16Array)[code & 1] = -1 - symbol
    code += 1
  }
  return tree
}

function createTable(): Table {
  const tree = createTree()
  const table = { steps: new Uint16Array(tree.length * 16), bytes: new Uint8Array(tree.length * 16), isEnd: new Uint8Array(tree.length) }
  for (let state = 0; state < tree.length; state++) {
    for (let bits = 0; bits < 16; bits++) {
      let at = state
      let entry = 0
      for (let bit = 3; bit >= 0; bit--) {
        const next = tree[at]?.[(bits >>> bit) & 1] ?? 0
        if (next === -1 - EOS) entry |= BROKEN
        if (next < 0) {
          entry |= EMITS
          table.bytes[state * 16 + bits] = -1 - next
        }
        at = Math.max(next, 0)
      }
      table.steps[state * 16 + bits] = entry | at
    }
  }
  let at = 0
  for (let ones = 0; ones <= 7; ones++) {
    table.isEnd[at] = 1
    at = tree[at]?.[1] ?? 0
  }
  return table
}

let shared: Table | undefined

/** Writes what `source` is the code of into `target`, which has room for 8/5 of it. Gives back how many bytes, or -1 if it is none. */
export function decodeHuffman(source: Uint8Array, start: number, end: number, target: Uint8Array): number {
  const { steps, bytes, isEnd } = (shared ??= createTable())
  let state = 0
  let written = 0
  for (let i = start; i < end; i++) {
    const byte = source[i] as number
    const high = state * 16 + (byte >>> 4)
    const first = steps[high] as number
    if ((first & EMITS) !== 0) target[written++] = bytes[high] as number
    const low = (first & STATE) * 16 + (byte & 15)
    const second = steps[low] as number
    if ((second & EMITS) !== 0) target[written++] = bytes[low] as number
    if (((first | second) & BROKEN) !== 0) return -1
    state = second & STATE
  }
  return isEnd[state] === 1 ? written : -1
}

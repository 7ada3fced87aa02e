import { chainFileName, parseChainFileName, type ChainName } from './chain-names.ts'
import type { Link } from './read-line.ts'

/** What the controller's chain says of one chain of a session. */
export type ChainRecord = {
  /** Hash of its first line; undefined when that record was deleted with its segment. */
  begun: string | undefined
  /** Hashes of its lines by their numbers: those that were countersigned. */
  readonly marks: Map<number, string>
  lastLine: number
}

/** What the controller's chain says of other files: gathered line by line. */
export type Records = {
  take(link: Link, line: Buffer): void
  of(chain: ChainName): ChainRecord | undefined
  /** Chains of which lines were countersigned. */
  signedChains(): ChainName[]
  isRetired(of: string, line: number, digest: string): boolean
  isChainRetired(chain: ChainName): boolean
  /** How many files. */
  retired(): number
  /** Nothing more is recorded of that session. */
  isOver(session: string): boolean
}

/** States behind which nothing of a session is left. */
const OVER: ReadonlySet<unknown> = new Set(['ended', 'failed', 'reaped'])

export function createRecords(): Records {
  const chains = new Map<string, ChainRecord>()
  const retired = new Map<string, string>()
  const retiredChains = new Set<string>()
  const over = new Set<string>()

  const recordOf = (chain: ChainName): ChainRecord => {
    const name = chainFileName(chain)
    const record = chains.get(name) ?? { begun: undefined, marks: new Map<number, string>(), lastLine: 0 }
    chains.set(name, record)
    return record
  }

  return {
    take(link, line) {
      if (!TAKEN.has(link.event)) return
      const fields = JSON.parse(line.latin1Slice()) as Record<string, unknown>
      const { of, chain = 1, line: number, digest, part, state } = fields
      if (typeof of !== 'string') return
      const name = typeof chain === 'number' ? { session: of, chain } : undefined
      switch (link.event) {
        case 'chain_begun':
          // Again under the same number: nothing of it had been kept.
          if (name !== undefined && typeof digest === 'string') recordOf(name).begun = digest
          return
        case 'countersigned': {
          if (name === undefined || typeof number !== 'number' || typeof digest !== 'string') return
          const record = recordOf(name)
          record.marks.set(number, digest)
          record.lastLine = Math.max(record.lastLine, number)
          return
        }
        case 'retired':
          if (typeof part !== 'number' || typeof number !== 'number' || typeof digest !== 'string') return
          retired.set(`${of} ${part}`, `${number} ${digest}`)
          if (of !== 'controller') retiredChains.add(chainFileName({ session: of, chain: part }))
          return
        case 'session':
          if (OVER.has(state)) over.add(of)
      }
    },
    of: (chain) => chains.get(chainFileName(chain)),
    signedChains: () => [...chains].flatMap(([name, { marks }]) => (marks.size > 0 ? (parseChainFileName(name) ?? []) : [])),
    isRetired: (of, line, digest) => [...retired].some(([key, value]) => key.startsWith(`${of} `) && value === `${line} ${digest}`),
    isChainRetired: (chain) => retiredChains.has(chainFileName(chain)),
    retired: () => retired.size,
    isOver: (session) => over.has(session),
  }
}

const TAKEN: ReadonlySet<string> = new Set(['chain_begun', 'countersigned', 'retired', 'session'])

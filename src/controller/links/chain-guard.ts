import { readAuditLine, sessionOfLine } from '../../audit/audit.ts'
import { SallyportError } from '../../kernel/errors.ts'
import type { ChainMark } from '../../wire/control.ts'
import type { LinkedSession } from './links.ts'

/**
 * What a sidecar says of itself is kept only where it is one chain: nothing twice, nothing left out. And only of itself: a copy of a line
 * elsewhere, or a list of many sessions, has nothing but the line's own word for whose it is. I15
 */
export type ChainGuard = {
  /** A sidecar has connected: the line that it goes on behind. */
  begin(): ChainMark | undefined
  /** Resolves when the lines are on disk. One call after the other, whoever calls. @throws control_broken, and what keeping them throws */
  accept(lines: readonly string[]): Promise<void>
}

const GENESIS = '0'.repeat(64)

export function createChainGuard({ id, lastLine, onLines }: Pick<LinkedSession, 'id' | 'lastLine' | 'onLines'>): ChainGuard {
  let last = lastLine?.()
  let isBeginning = true
  let queue: Promise<unknown> = Promise.resolve()

  async function keep(lines: readonly string[]): Promise<void> {
    let [end, mayBegin] = [last, isBeginning]
    for (const line of lines) {
      const link = readAuditLine(Buffer.from(line, 'latin1'))
      if (typeof link === 'string') throw broken(`an audit line does not hold: ${link}`)
      if (sessionOfLine(line) !== id) throw broken(`audit line ${link.seq} is not one of session ${id}`)
      const follows = end === undefined ? true : link.seq === end.seq + 1 && link.prev === end.hash
      // A sidecar without a volume begins a new chain when it is started again.
      const begins = mayBegin && link.seq === 1 && link.prev === GENESIS
      if (!follows && !begins) throw broken(`audit line ${link.seq} does not follow line ${end?.seq ?? 0}`)
      end = { seq: link.seq, hash: link.hash }
      mayBegin = false
    }
    await onLines(lines)
    last = end
    isBeginning = mayBegin
  }

  return {
    begin() {
      isBeginning = true
      return last
    },
    accept(lines) {
      const kept = queue.then(() => keep(lines))
      queue = kept.catch(() => undefined)
      return kept
    },
  }
}

function broken(problem: string): SallyportError {
  return new SallyportError('control_broken', problem)
}

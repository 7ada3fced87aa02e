import { LIMITS } from '../kernel/limits.ts'
import type { ChainFile } from './chain-file.ts'
import { GENESIS, sealLine } from './line.ts'
import { createBell, type Outgoing } from './outgoing.ts'

type Held = { readonly seq: number; readonly hash: string; readonly line: string }

/** A chain in memory, whose lines are forgotten when its keeper has them. Full means no: nothing is written then. I3 */
export function openHeldChain(): { readonly chain: ChainFile; readonly outgoing: Outgoing } {
  const held: Held[] = []
  const bell = createBell()
  let bytes = 0
  let seq = 0
  let head = GENESIS

  function drop(count: number): void {
    for (const { line } of held.splice(0, count)) bytes -= line.length
  }

  return {
    chain: {
      recoveredBytes: 0,
      check() {
        if (bytes >= LIMITS.auditSegmentBytesMax)
          throw Object.assign(new Error('too much of it waits for the controller'), { code: 'ENOSPC' })
      },
      write(bodies) {
        for (const body of bodies) {
          const { line, hash } = sealLine(seq + 1, body, head)
          seq += 1
          head = hash
          held.push({ seq, hash, line: line.slice(0, -1) })
          bytes += line.length - 1
        }
        bell.ring()
      },
      sync: () => Promise.resolve(),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
    outgoing: {
      async next(signal) {
        while (held.length === 0 && !signal.aborted) await bell.wait(bell.rings, signal)
        let taken = 0
        const fitting = held.slice(0, LIMITS.controlLinesMax).filter(({ line }, index) => {
          taken += line.length
          return index === 0 || taken <= LIMITS.controlLinesBytesMax
        })
        return fitting.map(({ line }) => line)
      },
      acknowledge: drop,
      resumeAfter(mark) {
        const at = held.findIndex((line) => line.seq === mark.seq && line.hash === mark.hash)
        drop(at + 1)
        return Promise.resolve()
      },
    },
  }
}

import { randomBytes } from 'node:crypto'

/** What the product takes from the outside besides sockets and files. Tests hand in their own clock and randomness. */
export type System = {
  /** Milliseconds since 1970. */
  now(): number
  /** Monotonic milliseconds, for durations. */
  elapsed(): number
  random(bytes: number): Buffer
}

export const system: System = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  random: (bytes) => randomBytes(bytes),
}

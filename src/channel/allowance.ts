import type { System } from '../kernel/system.ts'

/** So much in a second in the long run, and so much at once. */
export type Allowance = {
  /** Takes `amount` and gives 0, or takes nothing and gives the milliseconds until something can be taken again. */
  take(amount: number): number
}

/** What is taken last may be more than is left: it is owed, and nothing is given until that is made good. */
export function createAllowance(perSecond: number, burst: number, system: Pick<System, 'elapsed'>): Allowance {
  let left = burst
  let atMs = system.elapsed()
  return {
    take(amount) {
      const nowMs = system.elapsed()
      left = Math.min(burst, left + ((nowMs - atMs) * perSecond) / 1_000)
      atMs = nowMs
      if (left <= 0) return Math.max(1, Math.ceil((-left * 1_000) / perSecond))
      left -= amount
      return 0
    },
  }
}

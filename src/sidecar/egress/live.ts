import type { Enforced, Enforcement } from './enforced.ts'

/** Something that goes on while policies change: a tunnel, an exchange, a stream. */
export type LiveEntry = {
  /** Whether it could begin under this policy, as it is. */
  isAllowed(enforced: Enforced): boolean
  /** Ends it at once, as this does not allow it. */
  cut(enforced: Enforced): void
}

/** One entry's place among all that runs. */
export type LivePlace = {
  /** Looks again, after the entry has learned something of itself (its addresses): the policy may have changed meanwhile. */
  check(): void
  leave(): void
}

/** All that runs, so that a policy that no longer allows something ends it. I18 */
export type Live = {
  /** `begun` is what decided. It is cut at once when something else came into force since then that does not allow it. */
  add(entry: LiveEntry, begun: Enforced): LivePlace
  /** Cuts what is no longer allowed, and says how many were cut. */
  review(enforced: Enforced): number
}

export function createLive(enforcement: Enforcement): Live {
  const entries = new Set<LiveEntry>()
  function isCut(entry: LiveEntry, enforced: Enforced): boolean {
    if (entry.isAllowed(enforced)) return false
    entries.delete(entry)
    entry.cut(enforced)
    return true
  }
  return {
    add(entry, begun) {
      entries.add(entry)
      const check = (): void => {
        const enforced = enforcement()
        if (enforced !== begun && entries.has(entry)) isCut(entry, enforced)
      }
      check()
      return { check, leave: () => void entries.delete(entry) }
    },
    review: (enforced) => [...entries].filter((entry) => isCut(entry, enforced)).length,
  }
}

import type { Enforced } from './enforced.ts'

/** Something that goes on while policies change: a tunnel, an exchange, a stream. */
export type LiveEntry = {
  /** Whether it could begin under this policy, as it is. */
  isAllowed(enforced: Enforced): boolean
  /** Ends it at once. */
  cut(): void
}

/** All that runs, so that a policy that no longer allows something ends it. I18 */
export type Live = {
  /** Gives back what takes it out again. */
  add(entry: LiveEntry): () => void
  /** Cuts what is no longer allowed, and says how many were cut. */
  review(enforced: Enforced): number
}

export function createLive(): Live {
  const entries = new Set<LiveEntry>()
  return {
    add(entry) {
      entries.add(entry)
      return () => entries.delete(entry)
    },
    review(enforced) {
      let cut = 0
      for (const entry of entries) {
        if (entry.isAllowed(enforced)) continue
        entries.delete(entry)
        entry.cut()
        cut += 1
      }
      return cut
    },
  }
}

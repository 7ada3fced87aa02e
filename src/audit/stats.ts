import type { Entry } from './entries.ts'

/** What is counted over events. Names may be an agent's. */
export type AuditStats = {
  readonly events: number
  /** Times of the earliest and the latest. */
  readonly first?: string
  readonly last?: string
  readonly by: Readonly<Record<'event' | 'decision' | 'code' | 'rule' | 'host' | 'session', Readonly<Record<string, number>>>>
  /** Of hosts, codes and rules only the most frequent are kept: so many others there were at least. */
  readonly others: number
}

const MEMBERS = ['event', 'decision', 'code', 'rule', 'host', 'session'] as const
/** Different names that are counted at a time: an agent can make any number of them. */
const NAMES_MAX = 10_000
const SHOWN_MAX = 20

/** Counts in bounded memory. */
export function createStats(): { take(entry: Entry): void; result(): AuditStats } {
  const counts = new Map(MEMBERS.map((member) => [member, new Map<string, number>()]))
  let [events, others, first, last] = [0, 0, '', '']
  return {
    take({ fields }) {
      events += 1
      const { time } = fields
      if (typeof time === 'string') {
        if (first === '' || time < first) first = time
        if (time > last) last = time
      }
      for (const [member, names] of counts) {
        const name = fields[member]
        if (typeof name !== 'string') continue
        if (names.size >= NAMES_MAX && !names.has(name)) others += 1
        else names.set(name, (names.get(name) ?? 0) + 1)
      }
    },
    result() {
      const by = Object.fromEntries(
        [...counts].map(([member, names]) => {
          const ranked = [...names].toSorted((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
          if (ranked.length > SHOWN_MAX) others += ranked.slice(SHOWN_MAX).reduce((sum, [, count]) => sum + count, 0)
          return [member, Object.fromEntries(ranked.slice(0, SHOWN_MAX))]
        }),
      ) as AuditStats['by']
      return { events, ...(first !== '' && { first, last }), by, others }
    },
  }
}

import { SallyportError, type Refusal } from '../kernel/errors.ts'
import type { System } from '../kernel/system.ts'
import type { Budget } from '../wire/credential.ts'

/** Counts what one request moves against the budget of its credential. @throws budget_exhausted when that is used up */
export type Meter = { up(bytes: number): void; down(bytes: number): void }

/** What each credential has used in this session. Kept over reloads: a changed budget counts what was used before. I25 */
export type Budgets = {
  /** Charges one request. */
  open(id: string, budget: Budget | undefined): Meter | Refusal
}

const SLOTS = 60
const SLOT_MS = 1_000

/** How much of one thing was used, in all and in the last minute. */
type Count = { total: number; readonly slots: number[]; at: number }
type Used = { readonly requests: Count; readonly up: Count; readonly down: Count }

const KINDS = {
  requests: { inAll: 'requests', perMinute: 'requestsPerMinute', written: 'requests' },
  up: { inAll: 'bytesUp', perMinute: 'bytesUpPerMinute', written: 'bytes_up' },
  down: { inAll: 'bytesDown', perMinute: 'bytesDownPerMinute', written: 'bytes_down' },
} as const
type Kind = keyof typeof KINDS

export function createBudgets(system: Pick<System, 'elapsed'>): Budgets {
  const used = new Map<string, Used>()

  function usedBy(id: string): Used {
    const known = used.get(id)
    if (known) return known
    const fresh = { requests: newCount(), up: newCount(), down: newCount() }
    used.set(id, fresh)
    return fresh
  }

  function lastMinute(count: Count): number {
    const now = Math.floor(system.elapsed() / SLOT_MS)
    // Slots that the time has passed over hold what is more than a minute old.
    for (let passed = Math.max(count.at + 1, now - SLOTS + 1); passed <= now; passed += 1) count.slots[passed % SLOTS] = 0
    count.at = Math.max(count.at, now)
    return count.slots.reduce((sum, slot) => sum + slot, 0)
  }

  /** Which limit so much more would go over; counted only where none. */
  function charge(id: string, budget: Budget, kind: Kind, amount: number): Refusal | undefined {
    const count = usedBy(id)[kind]
    const { inAll, perMinute, written } = KINDS[kind]
    const total = budget[inAll]
    const minute = budget[perMinute]
    if (total !== undefined && count.total + amount > total) return exhausted(id, written, total, false)
    if (lastMinute(count) + amount > (minute ?? Infinity)) return exhausted(id, `${written}_per_minute`, minute ?? 0, true)
    count.total += amount
    const slot = count.at % SLOTS
    count.slots[slot] = (count.slots[slot] ?? 0) + amount
    return undefined
  }

  /** Once its bytes are used up a credential starts no further request either. */
  function spent(id: string, budget: Budget): Refusal | undefined {
    for (const kind of ['up', 'down'] as const) {
      const { inAll, perMinute, written } = KINDS[kind]
      const count = usedBy(id)[kind]
      const total = budget[inAll]
      const minute = budget[perMinute]
      if (total !== undefined && count.total >= total) return exhausted(id, written, total, false)
      if (minute !== undefined && lastMinute(count) >= minute) return exhausted(id, `${written}_per_minute`, minute, true)
    }
    return undefined
  }

  return {
    open(id, budget) {
      if (budget === undefined) return UNLIMITED
      const refusal = spent(id, budget) ?? charge(id, budget, 'requests', 1)
      if (refusal) return refusal
      const count = (kind: Kind, bytes: number): void => {
        const over = charge(id, budget, kind, bytes)
        if (!over) return
        // The bytes were on their way: they use up what was left, or small requests would go on beside a large one for ever.
        const counted = usedBy(id)[kind]
        counted.total += bytes
        counted.slots[counted.at % SLOTS] = (counted.slots[counted.at % SLOTS] ?? 0) + bytes
        throw new SallyportError('budget_exhausted', over.message, { ...(over.hint !== undefined && { hint: over.hint }) })
      }
      return { up: (bytes) => count('up', bytes), down: (bytes) => count('down', bytes) }
    },
  }
}

const UNLIMITED: Meter = { up() {}, down() {} }

function newCount(): Count {
  return { total: 0, slots: Array.from({ length: SLOTS }, () => 0), at: -1 }
}

function exhausted(id: string, limit: string, value: number, isPassing: boolean): Refusal {
  return {
    code: 'budget_exhausted',
    message: `the credential "${id}" has used up its budget (${limit}: ${value})`,
    hint: isPassing ? 'try again in a minute' : 'the operator can raise the budget in the policy, or start a new session',
  }
}

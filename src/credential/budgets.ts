import { SallyportError, type Refusal } from '../kernel/errors.ts'
import type { System } from '../kernel/system.ts'
import type { Budget } from '../wire/credential.ts'

/** Counts the bytes of one request's bodies. @throws budget_exhausted when they go over a limit */
export type Meter = { up(bytes: number): void; down(bytes: number): void }

/** What the credentials of a session were used for. Outlives changes of the policy: a new limit counts what was used before. I25 */
export type Budgets = {
  /** Charges one request to the credential, or says why not; then nothing is charged. */
  open(id: string, budget: Budget | undefined): Meter | Refusal
}

const UNLIMITED: Meter = { up() {}, down() {} }
const KINDS = ['requests', 'bytesUp', 'bytesDown'] as const
type Kind = (typeof KINDS)[number]

const SECOND_MS = 1_000
/** The running second and sixty whole ones: no minute, wherever it begins, has more than the limit. */
const SECONDS = 61

/** How the limits are called in a policy. */
const NAMES = { requests: 'requests', bytesUp: 'bytes_up', bytesDown: 'bytes_down' } as const

export function createBudgets(system: Pick<System, 'elapsed'>): Budgets {
  const accounts = new Map<string, Record<Kind, Use>>()
  const second = (): number => Math.floor(system.elapsed() / SECOND_MS)
  return {
    open(id, budget) {
      if (budget === undefined) return UNLIMITED
      let account = accounts.get(id)
      if (!account) accounts.set(id, (account = { requests: new Use(), bytesUp: new Use(), bytesDown: new Use() }))
      const { requests, bytesUp, bytesDown } = account
      for (const kind of KINDS) {
        const refusal = refusalOf(id, kind, account[kind], budget, system.elapsed())
        if (refusal) return refusal
      }
      requests.add(second(), 1)
      return {
        up(bytes) {
          // What would go over does not go: it uses up nothing, and smaller requests still pass.
          const limit = overrun('bytesUp', bytesUp, bytes, budget, second())
          if (limit !== undefined) throw exhausted(id, limit)
          bytesUp.add(second(), bytes)
        },
        down(bytes) {
          // What goes over has come all the same: the next request is refused before it begins, and not in its middle.
          const limit = overrun('bytesDown', bytesDown, bytes, budget, second())
          bytesDown.add(second(), bytes)
          if (limit !== undefined) throw exhausted(id, limit)
        },
      }
    },
  }
}

/** How much was used, in all and second by second. */
class Use {
  total = 0
  readonly #amounts = new Float64Array(SECONDS)
  readonly #seconds = new Float64Array(SECONDS).fill(-1)

  add(second: number, amount: number): void {
    const i = second % SECONDS
    if (this.#seconds[i] !== second) {
      this.#seconds[i] = second
      this.#amounts[i] = 0
    }
    this.#amounts[i] = (this.#amounts[i] ?? 0) + amount
    this.total += amount
  }

  /** What was used in this second. */
  #at(second: number): number {
    const i = second % SECONDS
    return second >= 0 && this.#seconds[i] === second ? (this.#amounts[i] ?? 0) : 0
  }

  lastMinute(second: number): number {
    let sum = 0
    for (let at = second - SECONDS + 1; at <= second; at += 1) sum += this.#at(at)
    return sum
  }

  /** The first second in which less than `limit` was used in the minute before, if nothing more is. */
  below(limit: number, second: number): number {
    let sum = this.lastMinute(second)
    for (let at = second - SECONDS + 1; at <= second; at += 1) {
      sum -= this.#at(at)
      if (sum < limit) return at + SECONDS
    }
    return second + SECONDS
  }
}

function limitsOf(kind: Kind, budget: Budget): { total: number; minute: number } {
  return { total: budget[kind] ?? Infinity, minute: budget[`${kind}PerMinute`] ?? Infinity }
}

function refusalOf(id: string, kind: Kind, use: Use, budget: Budget, elapsedMs: number): Refusal | undefined {
  const { total, minute } = limitsOf(kind, budget)
  if (use.total >= total) return describe(id, limitName(kind, total, ''))
  const second = Math.floor(elapsedMs / SECOND_MS)
  if (minute === Infinity || use.lastMinute(second) < minute) return undefined
  const refusal = describe(id, limitName(kind, minute, '_per_minute'))
  // With a limit of nothing no time is the right one.
  return minute > 0 ? { ...refusal, retryAfterMs: Math.ceil(use.below(minute, second) * SECOND_MS - elapsedMs) } : refusal
}

/** The limit that so much more goes over, if it does. */
function overrun(kind: Kind, use: Use, amount: number, budget: Budget, second: number): string | undefined {
  const { total, minute } = limitsOf(kind, budget)
  if (use.total + amount > total) return limitName(kind, total, '')
  if (minute !== Infinity && use.lastMinute(second) + amount > minute) return limitName(kind, minute, '_per_minute')
  return undefined
}

function limitName(kind: Kind, limit: number, suffix: '' | '_per_minute'): string {
  return `${NAMES[kind]}${suffix}: ${limit}`
}

function describe(id: string, limit: string): Refusal & { hint: string } {
  return {
    code: 'budget_exhausted',
    message: `the budget of the credential ${id} is used up`,
    hint: `the policy has ${limit}${limit.includes('per_minute') ? '; wait, and send less at once' : ' for the whole session'}`,
  }
}

function exhausted(id: string, limit: string): SallyportError {
  const { message, hint } = describe(id, limit)
  return new SallyportError('budget_exhausted', message, { hint })
}

import { SallyportError, type Refusal } from '../kernel/errors.ts'
import type { System } from '../kernel/system.ts'
import type { Budget } from '../wire/credential.ts'

/** Counts the bytes of one request's bodies. @throws budget_exhausted when they go over a limit */
export type Meter = { up(bytes: number): void; down(bytes: number): void }

/** What the credentials of a session were used for. Outlives changes of the policy: a new limit counts what was used before. I25 */
export type Budgets = {
  /** Charges one request to all of its credentials, or says why not; then none is charged. Undefined where none has a budget. */
  open(used: readonly Budgeted[]): Meter | Refusal | undefined
}

/** A credential, by its id. */
export type Budgeted = { readonly id: string; readonly budget?: Budget | undefined }

const KINDS = ['requests', 'bytesUp', 'bytesDown'] as const
type Kind = (typeof KINDS)[number]
type Account = Readonly<Record<Kind, Use>>
type Charged = { readonly id: string; readonly budget: Budget; readonly account: Account }

const SECOND_MS = 1_000
/** The running second and sixty whole ones: no minute, wherever it begins, has more than the limit. */
const SECONDS = 61

/** How the limits are called in a policy. */
const NAMES = { requests: 'requests', bytesUp: 'bytes_up', bytesDown: 'bytes_down' } as const

export function createBudgets(system: Pick<System, 'elapsed'>): Budgets {
  const accounts = new Map<string, Account>()
  const second = (): number => Math.floor(system.elapsed() / SECOND_MS)
  const accountOf = (id: string): Account => {
    let account = accounts.get(id)
    if (!account) accounts.set(id, (account = { requests: new Use(), bytesUp: new Use(), bytesDown: new Use() }))
    return account
  }
  return {
    open(used) {
      const charged: Charged[] = []
      for (const { id, budget } of used) {
        if (budget === undefined) continue
        const account = accountOf(id)
        for (const kind of KINDS) {
          const refusal = refusalOf(id, kind, account[kind], budget, system.elapsed())
          if (refusal) return refusal
        }
        charged.push({ id, budget, account })
      }
      if (charged.length === 0) return undefined
      for (const { account } of charged) account.requests.add(second(), 1)
      return {
        up(bytes) {
          // What would go over does not go: it uses up nothing, and smaller requests still pass.
          const over = overrun('bytesUp', bytes, charged, second())
          if (over) throw over
          for (const { account } of charged) account.bytesUp.add(second(), bytes)
        },
        down(bytes) {
          // What goes over has come all the same: the next request is refused before it begins, and not in its middle.
          const over = overrun('bytesDown', bytes, charged, second())
          for (const { account } of charged) account.bytesDown.add(second(), bytes)
          if (over) throw over
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

/** Why so much more is too much, if it is. */
function overrun(kind: Kind, amount: number, charged: readonly Charged[], second: number): SallyportError | undefined {
  for (const { id, budget, account } of charged) {
    const { total, minute } = limitsOf(kind, budget)
    if (account[kind].total + amount > total) return exhausted(id, limitName(kind, total, ''))
    if (minute !== Infinity && account[kind].lastMinute(second) + amount > minute)
      return exhausted(id, limitName(kind, minute, '_per_minute'))
  }
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

import { createAllowance, type Allowance } from '../../channel/channel.ts'
import { SallyportError } from '../../kernel/errors.ts'
import type { System } from '../../kernel/system.ts'

/** How often each session may do something: none takes what is another's. */
export type Allowances = {
  /** @throws overloaded */
  charge(session: string, perMinute: number, burst: number, what: string): void
  forget(session: string): void
}

export function createAllowances(system: Pick<System, 'elapsed'>): Allowances {
  const known = new Map<string, Allowance>()
  return {
    charge(session, perMinute, burst, what) {
      const allowance = known.get(session) ?? createAllowance(perMinute / 60, burst, system)
      known.set(session, allowance)
      if (allowance.take(1) > 0)
        throw new SallyportError('overloaded', `more than ${perMinute} ${what} a minute`, { hint: 'wait a little' })
    },
    forget: (session) => void known.delete(session),
  }
}

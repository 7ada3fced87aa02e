import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { AuditEvent } from '../../src/audit/audit.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { Log } from '../../src/kernel/log.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { system as real, type System } from '../../src/kernel/system.ts'
import { openPresence, type Presence, type ProofPurpose, type SystemPrompt } from '../../src/controller/presence/presence.ts'
import { temporaryFolder } from './audit.ts'

/** What a look at a password costs where nothing lowers it. */
export const REAL_COST = LIMITS.scryptBytes
// Few claims are about what a look costs: for all others one is 40 ms in place of 500.
Object.assign(LIMITS, { scryptBytes: 16 * 1024 * 1024 })

export const PASSWORD = 'correct horse battery'
export const password = (text = PASSWORD): { readonly kind: 'password'; readonly password: string } => ({
  kind: 'password',
  password: text,
})
export const secret = (text: string): Secret => new Secret('approver password', text)
export const never = new AbortController().signal

/** What a proof is given for, of a question that was never asked. */
export const purpose = (change: Partial<ProofPurpose> = {}): ProofPurpose => ({
  digest: createHash('sha256').update('a question').digest('hex'),
  decision: 'allow',
  scope: 'once',
  ...change,
})

export type Clock = System & { pass(ms: number): void; turn(ms: number): void }

/** A clock that stands until it is moved: `pass` as time does, `turn` as somebody who sets it. */
export function standingClock(): Clock {
  let now = 1_800_000_000_000
  let elapsed = 5_000
  return {
    now: () => now,
    elapsed: () => elapsed,
    random: (bytes) => real.random(bytes),
    pass(ms) {
      now += ms
      elapsed += ms
    },
    turn: (ms) => void (now += ms),
  }
}

/** A log whose lines are kept. */
export function keptLog(): Log & { readonly lines: string[] } {
  const lines: string[] = []
  const keep = (...parts: unknown[]): void => void lines.push(JSON.stringify(parts))
  return { lines, debug: keep, info: keep, warn: keep, error: keep }
}

export const noPrompt: SystemPrompt = { problem: () => 'none here', confirm: () => Promise.reject(new Error('nobody is asked here')) }

export type Home = AsyncDisposable & {
  readonly home: string
  readonly file: string
  readonly clock: Clock
  readonly log: ReturnType<typeof keptLog>
  readonly audited: AuditEvent[]
  /** Opens it as a daemon does that starts: again and again on the same home. */
  open(systemPrompt?: SystemPrompt): Promise<Presence>
}

export async function presenceHome(folder?: string): Promise<Home> {
  const own = folder === undefined ? await temporaryFolder() : undefined
  const home = folder ?? own?.path ?? ''
  const clock = standingClock()
  const log = keptLog()
  const audited: AuditEvent[] = []
  return {
    home,
    file: join(home, 'approver.json'),
    clock,
    log,
    audited,
    open: (systemPrompt = noPrompt) =>
      openPresence({ home, system: clock, log, audit: async (event) => void audited.push(event), systemPrompt }),
    [Symbol.asyncDispose]: async () => own?.[Symbol.asyncDispose](),
  }
}

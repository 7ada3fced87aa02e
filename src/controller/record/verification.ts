import { verifyAuditFolder } from '../../audit/audit.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { AuditStanding } from '../../wire/audit-views.ts'
import { createEventHub } from '../sessions/event-hub.ts'

/** Of the time that a look takes, it rests so many times. */
const REST_TIMES = 50

/** Whether the audit holds, looked at anew now and then for as long as somebody wants to know. */
export type Verification = Disposable & {
  /** What is known, and what becomes known until the signal. */
  tell(signal: AbortSignal): AsyncGenerator<AuditStanding, void>
  /** Looks now; one look at a time. */
  verify(): Promise<AuditStanding>
}

export function createVerification(folder: string, system: Pick<System, 'now' | 'elapsed'>, log: Pick<Log, 'error'>): Verification {
  const hub = createEventHub<AuditStanding>()
  let known: AuditStanding = { state: 'checking' }
  let looking: Promise<AuditStanding> | undefined
  let listeners = 0
  let dueMs = 0
  let timer: NodeJS.Timeout | undefined

  const look = async (): Promise<AuditStanding> => {
    const begun = system.elapsed()
    const before = known.state
    const found = await standingOf(folder, system)
    known = found
    if (found.state === 'broken' && before !== 'broken') log.error({ code: found.code }, `the audit does not hold: ${found.message}`)
    const ended = system.elapsed()
    dueMs = ended + Math.max(LIMITS.auditVerifyEveryMs, REST_TIMES * (ended - begun))
    looking = undefined
    hub.emit(found)
    plan()
    return found
  }
  const verify = (): Promise<AuditStanding> => (looking ??= look())
  const plan = (): void => {
    clearTimeout(timer)
    if (listeners > 0 && looking === undefined) timer = setTimeout(() => void verify(), Math.max(0, dueMs - system.elapsed())).unref()
  }

  return {
    async *tell(signal) {
      const events = hub.listen(signal)
      listeners += 1
      plan()
      try {
        yield known
        yield* events
      } finally {
        listeners -= 1
        plan()
      }
    },
    verify,
    [Symbol.dispose]() {
      listeners = 0
      clearTimeout(timer)
    },
  }
}

async function standingOf(folder: string, system: Pick<System, 'now'>): Promise<AuditStanding> {
  try {
    const { events, sessionEvents, chains, checkpoints, unsigned, uncountersigned, head, key } = await verifyAuditFolder(folder)
    const counts = { events, sessionEvents, chains, checkpoints, unsigned, uncountersigned }
    return { state: 'holds', at: system.now(), ...counts, head, ...(key !== undefined && { key }) }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { state: 'broken', at: system.now(), code: error instanceof SallyportError ? error.code : codeOf(error), message }
  }
}

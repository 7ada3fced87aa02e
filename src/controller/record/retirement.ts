import type { ControllerAudit } from '../../audit/audit.ts'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'

const DAY_MS = 86_400_000

export type RetirementParts = {
  readonly audit: Pick<ControllerAudit, 'retire'>
  readonly retentionDays: number
  readonly isLive: (session: string) => boolean
  readonly system: Pick<System, 'now' | 'elapsed'>
  readonly log: Pick<Log, 'info' | 'warn'>
}

/**
 * Looks for what is old enough to be deleted; each call is one look. A clock that was set since the last look, as one that was wrong at the
 * start and was put right, or that somebody moved, makes nothing old: the look after the next one believes it.
 */
export function createRetirement({ audit, retentionDays, isLive, system, log }: RetirementParts): () => Promise<number> {
  const offsetNow = (): number => system.now() - system.elapsed()
  let offset = offsetNow()
  return async () => {
    const before = offset
    offset = offsetNow()
    if (Math.abs(offset - before) > LIMITS.auditClockStepMs) {
      log.warn({ movedMs: Math.round(offset - before) }, 'audit: the clock was set, nothing is deleted for its age')
      return 0
    }
    try {
      const files = await audit.retire({ olderThanMs: system.now() - retentionDays * DAY_MS, isLive })
      if (files > 0) log.info({ files, retentionDays }, 'audit: files were deleted for their age')
      return files
    } catch (error) {
      log.warn({ cause: codeOf(error) }, 'audit: what is old could not be deleted')
      return 0
    }
  }
}

/** A look now and then, the first one after the first interval. */
export function retireInTime(look: () => Promise<number>): Disposable {
  const timer = setInterval(() => void look(), LIMITS.auditRetireMs).unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

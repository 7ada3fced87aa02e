import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'

/**
 * Logs names that are not allowed, each at most once in `LIMITS.dnsDeniedLogMs`, and at most `LIMITS.dnsDeniedNamesMax` of
 * them: an agent that asks for ever new names fills neither the log nor the memory. That some are left out is said.
 */
export function createDeniedNames(log: Pick<Log, 'info' | 'warn'>, system: Pick<System, 'elapsed'>): (name: string, type: string) => void {
  /** When each name was logged, the earliest first. */
  const loggedAtMs = new Map<string, number>()
  let overflowAtMs = -Infinity

  return (name, type) => {
    const nowMs = system.elapsed()
    const isRecent = (atMs: number | undefined): boolean => atMs !== undefined && nowMs - atMs < LIMITS.dnsDeniedLogMs
    // Case is the asker's dice (the "0x20" habit), not another name.
    const key = name.toLowerCase()
    if (isRecent(loggedAtMs.get(key))) return
    loggedAtMs.delete(key)
    const [earliest] = loggedAtMs
    if (loggedAtMs.size >= LIMITS.dnsDeniedNamesMax && earliest !== undefined) {
      if (isRecent(earliest[1])) {
        if (isRecent(overflowAtMs)) return
        overflowAtMs = nowMs
        return log.warn({ names: loggedAtMs.size }, 'more dns names not allowed than are logged')
      }
      loggedAtMs.delete(earliest[0])
    }
    loggedAtMs.set(key, nowMs)
    log.info({ name: shown(name), type }, 'dns name not allowed')
  }
}

import { join } from 'node:path'
import type { ControllerAudit } from '../../audit/audit.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import { openCopies } from './copies.ts'
import { openOwnAudit } from './own-audit.ts'
import { createRetirement, retireInTime } from './retirement.ts'
import { readAuditSettings } from './settings.ts'

/** The controller's record, as the operator has set it. */
export type HomeAudit = ControllerAudit & {
  /** Lines of a session's chain, which go where copies go. */
  readonly copySession: (lines: readonly string[]) => void
}

/** Opens `audit/` of a home with the key `audit.key`. @throws config_invalid, audit_key_invalid, audit_open_failed */
export async function openHomeAudit(
  home: string,
  isLive: (session: string) => boolean,
  system: System,
  log: Pick<Log, 'info' | 'warn' | 'error'>,
): Promise<HomeAudit> {
  const settings = readAuditSettings(join(home, 'audit.yaml'))
  await using parts = new AsyncDisposableStack()
  const copies = parts.use(openCopies(settings.copies, log))
  const audit = parts.use(await openOwnAudit(home, system, log, (text) => copies.accept(text)))
  const { retentionDays } = settings
  parts.use(retireInTime(createRetirement({ audit, retentionDays, isLive, system, log })))
  const open = parts.move()
  return {
    append: (event) => audit.append(event),
    flush: () => audit.flush(),
    retire: (options) => audit.retire(options),
    copySession: (lines) => copies.accept(`${lines.join('\n')}\n`),
    [Symbol.asyncDispose]: () => open.disposeAsync(),
  }
}

import { join } from 'node:path'
import { openControllerAudit, type ControllerAudit } from '../../audit/audit.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'

/** `audit/` of a home with the key `audit.key`: for a command that records one thing, and what `openHomeAudit` begins with. */
export function openOwnAudit(
  home: string,
  system: System,
  log: Pick<Log, 'info' | 'warn' | 'error'>,
  onWritten?: (text: string) => void,
): Promise<ControllerAudit> {
  const files = { folder: join(home, 'audit'), keyFile: join(home, 'audit.key') }
  return openControllerAudit({ ...files, ...(onWritten && { onWritten }) }, system, log)
}

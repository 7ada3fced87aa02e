import { codeOf } from '../../kernel/errors.ts'
import { auditEvent } from './bring-up.ts'
import type { LiveSession } from './gate.ts'
import type { SessionParts, SessionRecord } from './session-parts.ts'

/**
 * Watches over a session's workspace while it runs: what the operator's own programs take away of its covers is told at once, as the agent
 * can write there since. Each finding once: in the record (`alerts`), in the audit, to `tell`.
 */
export function watchWorkspace(
  parts: Pick<SessionParts, 'workspace' | 'state' | 'audit' | 'log'>,
  live: LiveSession,
  tell: (name: string, lines: readonly string[]) => void,
): void {
  const { id } = live
  const recordOf = (): SessionRecord => parts.state.row(id)?.record as SessionRecord
  live.watching?.[Symbol.dispose]()
  live.watching = parts.workspace.watch(recordOf().kept, (found) => {
    const row = parts.state.row(id)
    if (row?.state !== 'running') return
    const record = recordOf()
    const alerts = record.alerts ?? []
    const fresh = found.filter((line) => !alerts.includes(line))
    if (fresh.length === 0) return
    const next = { ...record, alerts: [...alerts, ...fresh] }
    parts.state.save(id, next)
    tell(row.name, fresh)
    parts
      .audit(auditEvent({ id, name: row.name, record: next }, 'uncovered', fresh))
      .catch((error: unknown) => parts.log.error({ session: id, code: codeOf(error) }, 'a cover that is gone could not be recorded'))
  })
}

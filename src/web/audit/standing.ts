import { signal } from '@preact/signals'
import type { AuditStanding } from '../../wire/audit-views.ts'
import { hear } from '../api/feed.ts'

/** Whether the audit holds, as the daemon said last. */
export const standing = signal<AuditStanding>({ state: 'checking' })

export function keepStanding(): () => void {
  return hear('audit', (told) => (standing.value = told))
}

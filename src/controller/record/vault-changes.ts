import type { AuditEvent } from '../../audit/audit.ts'
import type { VaultEvent } from '../../vault/vault.ts'

/** A change of what holds for sessions, as it is recorded. */
export type ConfigChange = Omit<Extract<AuditEvent, { event: 'config_changed' }>, 'event'>

/** Hears what a vault is changed by, and gives it as changes for the record: names and versions. */
export type VaultChanges = {
  readonly onChange: (event: VaultEvent) => void
  /** Those since the last time. @param by which way */
  readonly taken: (by: string) => ConfigChange[]
}

export function vaultChanges(): VaultChanges {
  const events: VaultEvent[] = []
  return {
    onChange: (event) => void events.push(event),
    taken: (by) => events.splice(0).map((event) => changeOf(event, by)),
  }
}

function changeOf(event: VaultEvent, by: string): ConfigChange {
  const { kind: did, version } = event
  if ('key' in event) return { of: 'secret', what: event.key, did, version: event.secretVersion, by }
  return { of: 'vault', what: 'keys' in event ? event.keys.join(',') : event.method, did, version, by }
}

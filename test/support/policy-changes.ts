import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { AuditEvent } from '../../src/audit/audit.ts'
import { createPolicyChanges, type PolicyChanges } from '../../src/controller/policy-files/policy-changes.ts'
import { createChanges, type Changes } from '../../src/controller/proposals/changes.ts'
import { openTrust, type TrustStore } from '../../src/controller/sessions/workspace-trust.ts'
import { system as realSystem } from '../../src/kernel/system.ts'

export type ChangesSetting = Disposable & {
  readonly home: string
  readonly workspace: string
  readonly changes: PolicyChanges
  readonly files: Changes
  readonly trust: TrustStore
  readonly audited: AuditEvent[]
  /** Sessions that read their policy anew, in order. */
  readonly refreshed: string[]
  readonly clock: { now: number }
  /** Has the audit refuse what comes. */
  readonly refuse: { audit: boolean }
  /** Has a session run. */
  run(
    id: string,
    name: string,
    more?: { readonly role?: string; readonly workspace?: string; readonly policy?: string[]; readonly state?: string },
  ): void
  write(path: string, text: string): string
}

/** A home folder with real files, and sessions that only say that they read their policy anew. */
export function changesSetting(): ChangesSetting {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'sallyport-changes-')))
  const [home, workspace] = [join(dir, 'home'), join(dir, 'workspace')]
  for (const folder of [home, workspace]) mkdirSync(folder, { mode: 0o700 })
  const [audited, refreshed, live]: [AuditEvent[], string[], object[]] = [[], [], []]
  const clock = { now: Date.parse('2030-01-01T00:00:00Z') }
  const refuse = { audit: false }
  const system = { ...realSystem, now: () => clock.now }
  const trust = openTrust(home, system)
  const files = createChanges({
    home,
    async audit({ what, id, target, digest }) {
      if (refuse.audit) throw new Error('the audit is full')
      audited.push({ event: 'config_changed', of: 'policy', what: target, did: what, digest, by: `the page, change ${id}` })
    },
    onChanged: async () => undefined,
    system,
  })
  const state = { live: () => live, find: (id: string) => live.find((row) => 'id' in row && row.id === id) }
  const changes = createPolicyChanges({
    home,
    policyDirs: [join(import.meta.dirname, '../../policies'), join(home, 'policies')],
    trust,
    changes: files,
    state: state as never,
    sessions: { list: () => [], refreshPolicy: async (id) => void refreshed.push(id) },
    system,
  })
  return {
    home,
    workspace,
    changes,
    files,
    trust,
    audited,
    refreshed,
    clock,
    refuse,
    run: (id, name, { state: at = 'running', ...more } = {}) =>
      void live.push({ id, name, state: at, record: { workspace, policy: [], ...more } }),
    write(path, text) {
      mkdirSync(dirname(join(dir, path)), { recursive: true })
      writeFileSync(join(dir, path), text)
      return join(dir, path)
    },
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  }
}

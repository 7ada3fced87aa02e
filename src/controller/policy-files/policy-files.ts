import { join } from 'node:path'
import type { Audit } from '../../audit/audit.ts'
import { codeOf } from '../../kernel/errors.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { Approvals } from '../approvals/approvals.ts'
import type { Planning } from '../planning.ts'
import type { Changes } from '../proposals/changes.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { openTrust, type TrustStore } from '../sessions/workspace-trust.ts'
import type { StateFile } from '../state.ts'
import { createPolicyChanges, type PolicyChanges } from './policy-changes.ts'
import { keepTimed } from './timed.ts'

export type PolicyFilesParts = {
  /** Real path of `$SALLYPORT_HOME`. */
  readonly home: string
  /** The folder of the installation. */
  readonly packageRoot: string
  readonly changes: Changes
  readonly state: StateFile
  readonly sessions: Sessions
  readonly planning: Pick<Planning, 'layers'>
  readonly approvals: Pick<Approvals, 'remembered' | 'forget'>
  readonly audit: Audit
  readonly system: System
  readonly log: Log
}

/** What the operator's routes about policies work on. */
export type PolicyFiles = AsyncDisposable & {
  readonly changes: PolicyChanges
  readonly trust: TrustStore
  readonly policyDirs: readonly string[]
}

/** The operator's policies while a controller runs: how they are changed, and what ends of them by itself. */
export async function openPolicyFiles(parts: PolicyFilesParts): Promise<PolicyFiles> {
  const { home, packageRoot, changes, state, sessions, audit, system, log } = parts
  const policyDirs = [join(packageRoot, 'policies'), join(home, 'policies')]
  const trust = openTrust(home, system)
  const policyChanges = createPolicyChanges({ home, policyDirs, trust, changes, state, sessions, system })
  const kept = await keepTimed({
    home,
    changes,
    isLive: (session) => state.live().some(({ id }) => id === session),
    async refresh({ session }) {
      // Of a file that is named by a hash it is not known whose it is.
      for (const { id } of policyChanges.reached(session === undefined ? {} : { session }))
        await sessions
          .refreshPolicy(id)
          .catch((error: unknown) => log.error({ session: id, cause: codeOf(error) }, 'a policy could not be read anew'))
    },
    audit,
    system,
    log,
  })
  return { changes: policyChanges, trust, policyDirs, [Symbol.asyncDispose]: () => kept[Symbol.asyncDispose]() }
}

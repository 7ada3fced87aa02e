import { join } from 'node:path'
import type { Audit } from '../../audit/audit.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { Approvals } from '../approvals/approvals.ts'
import type { Planning } from '../planning.ts'
import type { Changes } from '../proposals/changes.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { acceptableOwn } from '../sessions/own-policy.ts'
import { realWorkspace } from '../sessions/workspace-file.ts'
import { openTrust } from '../sessions/workspace-trust.ts'
import type { StateFile } from '../state.ts'
import type { ChangeDetail, EffectiveView, ExplainRequest, HistoryEntry, PolicyListing, PolicyQuery } from '../../wire/policies.ts'
import { effectivePolicy, explainAsked } from './asked-policy.ts'
import { changeDetail, policyHistory } from './history.ts'
import { listPolicies, presetText } from './listing.ts'
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
  /** Where the operator is answered. */
  readonly operatorPorts: () => readonly number[]
  readonly audit: Audit
  readonly system: System
  readonly log: Log
}

/** What the operator's routes about policies work on. */
export type PolicyFiles = AsyncDisposable & {
  readonly changes: PolicyChanges
  list(): Promise<PolicyListing>
  /** The text of a policy of the installation. @throws policy_not_found */
  preset(name: string): string
  effective(query: PolicyQuery): Promise<EffectiveView>
  explain(asked: ExplainRequest): ReturnType<typeof explainAsked>
  history(): Promise<readonly HistoryEntry[]>
  change(id: string): Promise<ChangeDetail>
  /** False when nothing of this id is remembered. */
  forget(id: string): Promise<boolean>
  /** Accepts what a workspace brings, exactly as it was looked at. @throws workspace_refused, policy_untrusted, policy_invalid */
  accept(workspace: string, digest: string): Promise<void>
  /** False when nothing was accepted. */
  withdraw(workspace: string): Promise<boolean>
}

/** The operator's policies while a controller runs: how they are changed, and what ends of them by itself. */
export async function openPolicyFiles(parts: PolicyFilesParts): Promise<PolicyFiles> {
  const { home, packageRoot, changes, state, sessions, approvals, audit, system, log } = parts
  const presets = join(packageRoot, 'policies')
  const policyDirs = [presets, join(home, 'policies')]
  const trust = openTrust(home, system)
  const policyChanges = createPolicyChanges({ home, policyDirs, trust, changes, state, sessions, system })
  const kept = await keepTimed({
    home,
    changes,
    isLive: (session) => state.live().some(({ id }) => id === session),
    // Of a file that is named by a hash it is not known whose it is.
    refresh: ({ session }) => policyChanges.refresh(session === undefined ? {} : { session }),
    audit,
    system,
    log,
  })
  const asked = { ...parts, policyDirs }
  return {
    changes: policyChanges,
    list: () => listPolicies({ home, presets, state, changes: policyChanges, approvals, trust }),
    preset: (name) => presetText(presets, name),
    effective: (query) => effectivePolicy(asked, query),
    explain: (wish) => explainAsked(asked, wish),
    history: () => policyHistory(join(home, 'audit'), changes),
    change: (id) => changeDetail(changes, id),
    forget: (id) => approvals.forget(id),
    async accept(given, digest) {
      const workspace = realWorkspace(given)
      acceptableOwn(workspace, digest)
      await audit.append({ event: 'config_changed', of: 'trust', what: workspace, did: 'accepted', digest, by: 'the page' })
      await trust.add(workspace, digest)
      await policyChanges.refresh({ workspace })
    },
    async withdraw(workspace) {
      await audit.append({ event: 'config_changed', of: 'trust', what: workspace, did: 'withdrawn', by: 'the page' })
      const isThere = await trust.remove(workspace)
      await policyChanges.refresh({ workspace })
      return isThere
    },
    [Symbol.asyncDispose]: () => kept[Symbol.asyncDispose](),
  }
}

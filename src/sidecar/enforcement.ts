import type { Audit } from '../audit/audit.ts'
import { createPlaceholders, credentialFiles, openSecrets } from '../credential/credential.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import type { Policy } from '../policy/policy.ts'
import { createRedactor } from '../redactor/redactor.ts'
import type { Enforced, Enforcement } from './egress/enforced.ts'
import type { Live } from './egress/live.ts'

export type EnforcementParts = {
  /** Reads the policy anew. @throws policy_invalid, policy_not_found */
  readonly loadPolicy: () => Policy
  readonly env: Readonly<Record<string, string | undefined>>
  /** False when this gate was given no lease: then a policy that requires one is refused. */
  readonly hasLease: boolean
  /** What placeholders are made from: the same seed gives the same ones, which the agent may hold already. */
  readonly placeholderSeed: string
  readonly system: System
}

type ReloadParts = { readonly live: Live; readonly retire: (generation: number) => void; readonly audit: Audit; readonly log: Log }

export type Reloading = {
  readonly enforcement: Enforcement
  /** Files whose change is a reason to reload. */
  readonly files: () => readonly string[]
  /** The last reload failed: a retry may find what was missing. */
  readonly isFailing: boolean
  /**
   * Replaces policy and secrets together, or, when anything is wrong with them, neither. Then what runs and is no longer
   * allowed is ended. True when they were replaced. A retry says nothing of a fault that was told before, and takes only what
   * it has found twice: nobody watched those files while they were written. Never rejects.
   */
  reload(parts: ReloadParts, isRetry: boolean): Promise<boolean>
}

/** @throws policy_invalid, policy_not_found, secret_missing, secret_invalid, config_invalid */
export function openEnforcement(parts: EnforcementParts): Reloading {
  let current = read(parts, 0)
  /** Why the last reload failed, and what a retry has found since. */
  let failing: { readonly reason: string; found?: string } | undefined
  return {
    enforcement: () => current,
    files: () => [
      ...current.policy.effective.files,
      ...current.policy.secrets.flatMap(({ source }) => (source.kind === 'file' ? [source.path] : [])),
    ],
    get isFailing() {
      return failing !== undefined
    },
    async reload({ live, retire, audit, log }, isRetry) {
      let next: Enforced
      try {
        next = read(parts, current.generation + 1)
      } catch (error) {
        const code = error instanceof SallyportError ? error.code : codeOf(error)
        const reason = error instanceof Error ? error.message : String(error)
        const isKnown = isRetry && failing?.reason === reason
        failing = { reason }
        if (isKnown) return false
        log.error({ code, reason }, 'reload failed: the policy before stays in force')
        await note(audit, { event: 'reload_failed', code }, log)
        return false
      }
      if (isRetry && failing && failing.found !== next.policy.digest) {
        failing.found = next.policy.digest
        return false
      }
      failing = undefined
      current = next
      // I18: in the same turn, so that nothing begins under the one and goes on under the other.
      const cut = live.review(next)
      retire(next.generation)
      for (const { file, line, message } of next.policy.warnings) log.warn({ file, line }, message)
      log.info({ policy: next.policy.digest, cut }, 'reloaded')
      await note(audit, { event: 'reloaded', policy: next.policy.digest, cut }, log)
      return true
    },
  }
}

function read({ loadPolicy, env, hasLease, placeholderSeed, system }: EnforcementParts, generation: number): Enforced {
  const policy = loadPolicy()
  if (policy.isLeaseRequired && !hasLease) {
    throw new SallyportError('config_invalid', 'the policy requires a lease (network.lease), and none is given', {
      hint: 'set SALLYPORT_LEASE for this gate and for the agent',
    })
  }
  return enforce(policy, { env, placeholderSeed, system }, generation)
}

/** A policy with all that it needs to be in force. @throws secret_missing, secret_invalid */
export function enforce(
  policy: Policy,
  { env, placeholderSeed, system }: Pick<EnforcementParts, 'env' | 'placeholderSeed' | 'system'>,
  generation: number,
): Enforced {
  const placeholders = createPlaceholders(policy.placeholders, placeholderSeed)
  const worthless = Object.entries(placeholders.values).map(([name, value]) => new Secret(name, value))
  return {
    policy,
    secrets: openSecrets(policy.secrets, env, system),
    placeholders,
    files: credentialFiles(policy.credentials, placeholders.values),
    guard: placeholders.isEmpty ? undefined : createRedactor(worthless),
    generation,
  }
}

/** A policy takes force also when the audit cannot say so: what it forbids must end. */
async function note(audit: Audit, event: Parameters<Audit['append']>[0], log: Log): Promise<void> {
  await audit.append(event).catch((error: unknown) => log.error({ code: codeOf(error) }, 'the reload could not be audited'))
}

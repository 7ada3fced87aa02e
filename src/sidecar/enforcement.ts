import type { Audit } from '../audit/audit.ts'
import { createPlaceholders, credentialFiles, openSecrets, type HeldSecrets, type Secrets } from '../credential/credential.ts'
import { codeOf, SallyportError, type Refusal } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import { closedPolicy, isForGate, type Policy } from '../policy/policy.ts'
import { createRedactor } from '../redactor/redactor.ts'
import type { SecretBundle } from '../wire/control.ts'
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
  /** The values of all secrets, where a controller resolves them. */
  readonly held?: HeldSecrets
}

export type ReloadParts = { readonly live: Live; readonly retire: (generation: number) => void; readonly audit: Audit; readonly log: Log }

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
  /** Takes away what ended by itself. From the policy that is in force: whatever is wrong with files since, an end is an end. */
  end(parts: ReloadParts): void
  /** The same with these values of secrets. @throws what is wrong with policy or values: then the old ones stay in force */
  replaceSecrets(parts: ReloadParts, bundle: SecretBundle): Promise<void>
  /** The same for the policy alone, when somebody waits for it. @throws what is wrong with it */
  replacePolicy(parts: ReloadParts): Promise<void>
  /** At once: no secret is there any more, and what has one in it ends. What needs none goes on. */
  wipe(parts: ReloadParts, reason: Refusal): number
  /** The same, and nothing passes from here on, whatever is reloaded. */
  revoke(parts: ReloadParts, reason: Refusal): number
}

/** What is looked at for changes: the policy's files, and those of its secrets where no controller brings them. */
function filesOf({ policy }: Enforced, isFed: boolean): string[] {
  const ofSecrets = policy.secrets.flatMap(({ source }) => (source.kind === 'file' ? [source.path] : []))
  return [...policy.effective.files, ...(isFed ? [] : ofSecrets)]
}

/** False: nothing was reloaded. */
async function noteFailure({ audit, log }: ReloadParts, { code, reason }: ReturnType<typeof faultOf>): Promise<false> {
  log.error({ code, reason }, 'reload failed: the policy before stays in force')
  await note(audit, { event: 'reload_failed', code }, log)
  return false
}

/** @throws policy_invalid, policy_not_found, secret_missing, secret_invalid, config_invalid */
export function openEnforcement(parts: EnforcementParts): Reloading {
  const { held } = parts
  let current = read(parts, 0)
  let isRevoked = false
  /** Why the last reload failed, and what a retry has found since. */
  let failing: { readonly reason: string; found?: string } | undefined

  function endRules(reloading: ReloadParts): void {
    const { policy, generation } = current
    if ((policy.nextEnd ?? Infinity) > parts.system.now()) return
    const cut = putInForce({ ...current, policy: policy.asOf(parts.system.now()), generation: generation + 1 }, reloading)
    reloading.log.info({ policy: policy.digest, cut }, 'rules of the policy have ended')
  }

  /** I18: in one turn, so that nothing begins under the one and goes on under the other. */
  function putInForce(next: Enforced, { live, retire }: ReloadParts): number {
    current = next
    const cut = live.review(next)
    retire(next.generation)
    return cut
  }

  async function replace(next: Enforced, reloading: ReloadParts, secrets?: number): Promise<void> {
    const { audit, log } = reloading
    failing = undefined
    const cut = putInForce(next, reloading)
    for (const { file, line, message } of next.policy.warnings) log.warn({ file, line }, message)
    log.info({ policy: next.policy.digest, cut, secrets }, 'reloaded')
    await note(audit, { event: 'reloaded', policy: next.policy.digest, cut, secrets }, log)
  }

  /** Reads all anew for somebody who waits for it. */
  async function replaceWith(reloading: ReloadParts, bundle?: SecretBundle): Promise<void> {
    if (isRevoked) throw new SallyportError('session_revoked', 'the session was revoked')
    const next = read(parts, current.generation + 1, bundle?.values)
    if (bundle) held?.replace(bundle.values)
    await replace(next, reloading, bundle?.version)
  }

  return {
    enforcement: () => current,
    files: () => filesOf(current, held !== undefined),
    get isFailing() {
      return failing !== undefined
    },
    async reload(reloading, isRetry) {
      if (isRevoked) return false
      let next: Enforced
      try {
        next = read(parts, current.generation + 1)
      } catch (error) {
        const fault = faultOf(error)
        const isKnown = isRetry && failing?.reason === fault.reason
        failing = { reason: fault.reason }
        return isKnown ? false : noteFailure(reloading, fault)
      }
      if (isRetry && failing && failing.found !== next.policy.digest) {
        failing.found = next.policy.digest
        return false
      }
      await replace(next, reloading)
      return true
    },
    end: endRules,
    replaceSecrets: replaceWith,
    replacePolicy: replaceWith,
    wipe(reloading, reason) {
      held?.wipe(reason)
      return putInForce({ ...current, ...secretsOf(parts, current.policy), generation: current.generation + 1 }, reloading)
    },
    revoke(reloading, reason) {
      isRevoked = true
      held?.wipe(reason)
      const policy = closedPolicy(current.policy, reason)
      return putInForce({ ...current, policy, ...secretsOf(parts, policy), generation: current.generation + 1 }, reloading)
    },
  }
}

function faultOf(error: unknown): { code: string; reason: string } {
  const code = error instanceof SallyportError ? error.code : codeOf(error)
  return { code, reason: error instanceof Error ? error.message : String(error) }
}

function read(parts: EnforcementParts, generation: number, values?: Readonly<Record<string, string>>): Enforced {
  const { loadPolicy, hasLease, system } = parts
  const policy = loadPolicy().asOf(system.now())
  if (policy.isLeaseRequired && !hasLease) {
    throw new SallyportError('config_invalid', 'the policy requires a lease (network.lease), and none is given', {
      hint: 'set SALLYPORT_LEASE for this gate and for the agent',
    })
  }
  return enforce(policy, parts, generation, values)
}

/** A policy with all that it needs to be in force. @throws secret_missing, secret_invalid */
export function enforce(
  policy: Policy,
  parts: Pick<EnforcementParts, 'env' | 'placeholderSeed' | 'system' | 'held'>,
  generation: number,
  values?: Readonly<Record<string, string>>,
): Enforced {
  const { placeholderSeed } = parts
  const placeholders = createPlaceholders(policy.placeholders, placeholderSeed)
  const worthless = Object.entries(placeholders.values).map(([name, value]) => new Secret(name, value))
  return {
    policy,
    ...secretsOf(parts, policy, values),
    placeholders,
    files: credentialFiles(policy.credentials, placeholders.values),
    guard: placeholders.isEmpty ? undefined : createRedactor(worthless),
    generation,
  }
}

/** The values of the policy's secrets: the controller's, whatever their source says, or those of this machine. */
function secretsOf(
  { env, system, held }: Pick<EnforcementParts, 'env' | 'system' | 'held'>,
  { secrets }: Policy,
  values?: Readonly<Record<string, string>>,
): { secrets: Secrets; ended?: Refusal } {
  // One that nothing uses is read here, where it is no use of anybody else's either: its fault is told at the start.
  if (!held)
    return {
      secrets: openSecrets(
        secrets.filter((grant) => grant.uses.length === 0 || isForGate(grant)),
        env,
        system,
      ),
    }
  const opened = held.open(secrets.filter(isForGate), values)
  return held.ended === undefined || values !== undefined ? { secrets: opened } : { secrets: opened, ended: held.ended }
}

/** A policy takes force also when the audit cannot say so: what it forbids must end. */
async function note(audit: Audit, event: Parameters<Audit['append']>[0], log: Log): Promise<void> {
  await audit.append(event).catch((error: unknown) => log.error({ code: codeOf(error) }, 'the reload could not be audited'))
}

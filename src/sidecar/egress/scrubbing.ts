import type { TokenExchanges } from '../../credential/credential.ts'
import type { Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { AllowedRule, CredentialBinding } from '../../policy/policy.ts'
import { createRedactor, type Redactor } from '../../redactor/redactor.ts'
import { writtenNames } from './credentials.ts'
import type { Enforced, Enforcement } from './enforced.ts'
import type { ScrubPlan } from './scrub/plan.ts'

export type Scrubbing = {
  /**
   * `undefined` where nothing is looked through: no secret is bound to the host, or the rule says so. To be asked for when the
   * request has its credentials; requests share plans.
   */
  planFor(enforced: Enforced, host: Hostname, rule: AllowedRule): ScrubPlan | undefined
  /** Has no value any more that it would look for. What runs with one must have ended. */
  forget(): void
}

/** What finds the values of some credentials, and how often it did. */
type Kept = {
  /** What is looked for: those that were current when that was last settled, and former ones. */
  values: readonly Secret[]
  current: readonly Secret[]
  redactor: Redactor
  hits: number
}

/**
 * I24: an answer is scrubbed of every value that a request to its host may have carried before its end, those that have been
 * replaced since included. Hosts with the same credentials share what finds them.
 */
export function createScrubbing(enforcement: Enforcement, tokens: TokenExchanges): Scrubbing {
  const kept = new Map<string, Kept>()
  /** By the credential's id. Outlives changes of the policy. */
  const obtained = new Map<string, readonly Secret[]>()
  /** Those of one `Enforced`, the youngest that was asked for. */
  const plans: Plans = { of: undefined, replace: new Map(), block: new Map() }

  function sourcesOf({ secrets }: Enforced, binding: CredentialBinding): Source[] {
    const names = writtenNames(binding)
    // The key that signs is never sent, and what is exchanged goes to the token server alone.
    const sent = binding.place.kind === 'aws' || binding.exchange ? names.filter((name) => name !== binding.secret) : names
    const own = sent.map(
      (name): Source =>
        () =>
          secrets.known(name),
    )
    return binding.exchange ? [...own, () => tokens.known(binding.id)] : own
  }

  function valuesOf(enforced: Enforced, binding: CredentialBinding): readonly Secret[] {
    const known = sourcesOf(enforced, binding).flatMap((source) => source())
    const before = obtained.get(binding.id) ?? []
    const now = known.map((value) => before.find((old) => old.equals(value)) ?? value)
    const values = [...now, ...before.filter((old) => !now.includes(old)).slice(0, LIMITS.formerSecretsMax)]
    obtained.set(binding.id, values)
    return values
  }

  function keep(bindings: readonly CredentialBinding[]): Kept {
    const key = bindings.map(({ id }) => id).join(',')
    const found = kept.get(key) ?? { values: [], current: [], redactor: createRedactor([]), hits: 0 }
    kept.set(key, found)
    return found
  }

  /** Has it find what the host's credentials are by now. */
  function renew(found: Kept, enforced: Enforced, bindings: readonly CredentialBinding[]): void {
    const values = bindings.flatMap((binding) => valuesOf(enforced, binding))
    if (values.every((value) => found.values.includes(value))) return
    // Those of answers that run now, however many a new policy takes away at once, and of some that were current before.
    const taken = found.current.filter((value) => !values.includes(value))
    const older = found.values.filter((value) => !values.includes(value) && !taken.includes(value)).slice(0, LIMITS.formerSecretsMax)
    found.redactor = createRedactor([...values, ...taken, ...older])
    found.values = [...values, ...taken, ...older]
    found.current = values
  }

  function prepare(enforced: Enforced, host: Hostname, mode: ScrubPlan['mode']): HostPlan | undefined {
    const bindings = enforced.policy.credentialsOf(host)
    if (bindings.length === 0) return undefined
    const found = keep(bindings)
    return new HostPlan(mode, found, enforcement, (now) => {
      const current = now.policy.credentialsOf(host)
      return { sources: current.flatMap((binding) => sourcesOf(now, binding)), renew: () => renew(found, now, current) }
    })
  }

  return {
    forget() {
      kept.clear()
      obtained.clear()
      begin(plans, undefined)
    },
    planFor(enforced, host, { scrub }) {
      if (scrub === 'off') return undefined
      if (plans.of !== enforced) begin(plans, enforced)
      const known = plans[scrub].get(host)
      const plan = known ?? prepare(enforced, host, scrub)
      if (plan === undefined) return undefined
      if (known === undefined) {
        // Behind a wildcard there may be any number of hosts.
        if (plans[scrub].size >= LIMITS.scrubbedHostsMax) plans[scrub].clear()
        plans[scrub].set(host, plan)
      }
      // What the request carries may be of a policy that is no longer in force.
      plan.follow(enforced)
      return plan
    },
  }
}

type Plans = {
  of: Enforced | undefined
  readonly replace: Map<Hostname, HostPlan>
  readonly block: Map<Hostname, HostPlan>
}

function begin(plans: Plans, enforced: Enforced | undefined): void {
  plans.of = enforced
  plans.replace.clear()
  plans.block.clear()
}

/** Gives the same array for as long as it has the same values. */
type Source = () => readonly Secret[]

/** How a host's credentials are followed under one policy. */
type Followed = {
  readonly sources: readonly Source[]
  /** Has the redactor find what the sources have by now. */
  readonly renew: () => void
}

/** The plan for the answers of one host. */
class HostPlan implements ScrubPlan {
  readonly mode: ScrubPlan['mode']
  readonly #found: Kept
  readonly #enforcement: Enforcement
  readonly #read: (enforced: Enforced) => Followed
  #enforced: Enforced | undefined
  #followed: Followed | undefined
  /** What the sources had when the redactor was last seen to find it, and what it found then. */
  #seen: (readonly Secret[])[] = []
  #values: readonly Secret[] | undefined

  constructor(mode: ScrubPlan['mode'], found: Kept, enforcement: Enforcement, read: (enforced: Enforced) => Followed) {
    this.mode = mode
    this.#found = found
    this.#enforcement = enforcement
    this.#read = read
  }

  /** That of the values as they are now. */
  get redactor(): Redactor {
    this.follow(this.#enforcement())
    return this.#found.redactor
  }

  onHits(count: number): boolean {
    this.#found.hits += count
    return this.#found.hits <= LIMITS.scrubHitsMax
  }

  follow(enforced: Enforced): void {
    if (this.#enforced === enforced && this.#isSeen()) return
    const known = this.#enforced === enforced ? this.#followed : undefined
    const followed = known ?? this.#read(enforced)
    const seen = followed.sources.map((source) => source())
    followed.renew()
    // Not before: what could not be looked for has not been seen.
    this.#enforced = enforced
    this.#followed = followed
    this.#seen = seen
    this.#values = this.#found.values
  }

  /** Hosts share what finds their values: another one may have had it forget former ones. */
  #isSeen(): boolean {
    if (this.#values !== this.#found.values) return false
    const sources = this.#followed?.sources ?? []
    for (let i = 0; i < sources.length; i++) if (sources[i]?.() !== this.#seen[i]) return false
    return true
  }
}

import type { TokenExchanges } from '../../credential/credential.ts'
import type { Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { AllowedRule, CredentialBinding } from '../../policy/policy.ts'
import { createRedactor, type Redactor } from '../../redactor/redactor.ts'
import type { Enforced, Enforcement } from './enforced.ts'
import { followingRedactor } from './following-redactor.ts'
import type { ScrubPlan } from './scrub/plan.ts'
import { writtenNames } from './credentials.ts'

export type Scrubbing = {
  /** `undefined` where nothing is looked through: no secret is bound to the host, or the rule says so. */
  planFor(enforced: Enforced, host: Hostname, rule: AllowedRule): ScrubPlan | undefined
}

/** What finds the values of some credentials, and how often it did. */
type Kept = { values: readonly Secret[]; redactor: Redactor; hits: number }

/**
 * I24: an answer is scrubbed of every value that a request to its host may have carried before its end, those that have been
 * replaced since included. Hosts with the same credentials share what finds them.
 */
export function createScrubbing(enforcement: Enforcement, tokens: TokenExchanges): Scrubbing {
  const kept = new Map<string, Kept>()
  /** By the credential's id. Outlives changes of the policy. */
  const obtained = new Map<string, readonly Secret[]>()

  function valuesOf({ secrets }: Enforced, binding: CredentialBinding): readonly Secret[] {
    const names = writtenNames(binding)
    // The key that signs is never sent, and what is exchanged goes to the token server alone.
    const sent = binding.place.kind === 'aws' || binding.exchange ? names.filter((name) => name !== binding.secret) : names
    const known = [...sent.flatMap((name) => secrets.known(name)), ...(binding.exchange ? tokens.known(binding.id) : [])]
    const before = obtained.get(binding.id) ?? []
    const now = known.map((value) => before.find((old) => old.equals(value)) ?? value)
    const values = [...now, ...before.filter((old) => !now.includes(old)).slice(0, LIMITS.formerSecretsMax)]
    obtained.set(binding.id, values)
    return values
  }

  function keep(bindings: readonly CredentialBinding[]): Kept {
    const key = bindings.map(({ id }) => id).join(',')
    const found = kept.get(key) ?? { values: [], redactor: createRedactor([]), hits: 0 }
    kept.set(key, found)
    return found
  }

  /** Has it find what the host's credentials are by now. */
  function renew(found: Kept, enforced: Enforced, bindings: readonly CredentialBinding[]): void {
    const values = bindings.flatMap((binding) => valuesOf(enforced, binding))
    if (values.every((value) => found.values.includes(value))) return
    const former = found.values.filter((value) => !values.includes(value)).slice(0, LIMITS.formerSecretsMax)
    found.redactor = createRedactor([...values, ...former])
    found.values = [...values, ...former]
  }

  return {
    planFor(enforced, host, { scrub }) {
      const bindings = scrub === 'off' ? [] : enforced.policy.credentialsOf(host)
      if (scrub === 'off' || bindings.length === 0) return undefined
      const found = keep(bindings)
      renew(found, enforced, bindings)
      const current = (): Redactor => {
        const now = enforcement()
        renew(found, now, now.policy.credentialsOf(host))
        return found.redactor
      }
      return {
        redactor: followingRedactor(current),
        mode: scrub,
        onHits(count) {
          found.hits += count
          return found.hits <= LIMITS.scrubHitsMax
        },
      }
    },
  }
}

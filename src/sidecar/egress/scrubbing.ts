import type { TokenExchanges } from '../../credential/credential.ts'
import type { Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { AllowedRule, CredentialBinding } from '../../policy/policy.ts'
import { createRedactor, type Redactor } from '../../redactor/redactor.ts'
import type { Enforced } from './enforced.ts'
import type { ScrubPlan } from './scrub/plan.ts'
import { writtenNames } from './sending.ts'

export type Scrubbing = {
  /** `undefined` where nothing is looked through: no secret is bound to the host, or the rule says so. */
  planFor(enforced: Enforced, host: Hostname, rule: AllowedRule): ScrubPlan | undefined
}

/** What finds the values of some credentials, and how often it did. */
type Kept = { values: readonly Secret[]; redactor: Redactor; hits: number }

/**
 * I24: an answer is scrubbed of every value that a request to its host may have carried, those that have been replaced since
 * included. Hosts with the same credentials share what finds them.
 */
export function createScrubbing(tokens: TokenExchanges): Scrubbing {
  const kept = new Map<string, Kept>()

  function valuesOf({ secrets }: Enforced, binding: CredentialBinding): readonly Secret[] {
    const names = writtenNames(binding)
    // The key that signs is never sent, and what is exchanged goes to the token server alone.
    const sent = binding.place.kind === 'aws' || binding.exchange ? names.filter((name) => name !== binding.secret) : names
    return [...sent.flatMap((name) => secrets.known(name)), ...(binding.exchange ? tokens.known(binding.id) : [])]
  }

  function keep(enforced: Enforced, bindings: readonly CredentialBinding[]): Kept {
    const key = bindings.map(({ id }) => id).join(',')
    const values = bindings.flatMap((binding) => valuesOf(enforced, binding))
    const before = kept.get(key)
    if (before && values.every((value) => before.values.includes(value))) return before
    const old = (before?.values ?? []).filter((value) => !values.some((now) => now.equals(value)))
    const all = [...values, ...old.slice(0, LIMITS.formerSecretsMax)]
    const next = { values: all, redactor: createRedactor(all), hits: before?.hits ?? 0 }
    kept.set(key, next)
    return next
  }

  return {
    planFor(enforced, host, { scrub }) {
      const bindings = scrub === 'off' ? [] : enforced.policy.credentialsOf(host)
      if (scrub === 'off' || bindings.length === 0) return undefined
      const found = keep(enforced, bindings)
      return {
        redactor: found.redactor,
        mode: scrub,
        onHits(count) {
          found.hits += count
          return found.hits <= LIMITS.scrubHitsMax
        },
      }
    },
  }
}

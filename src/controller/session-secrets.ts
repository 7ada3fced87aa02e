import type { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import type { Policy } from '../policy/policy.ts'
import type { SecretBundle } from '../wire/control.ts'
import { createResolver, type Providers } from './providers/providers.ts'

export type SessionSecrets = {
  /**
   * What a session's gate may write into requests, resolved now. Nothing is kept of it but for the redaction of what the session prints.
   * @throws secret_missing, secret_invalid, secret_unavailable, policy_not_found
   */
  bundle(session: string): Promise<SecretBundle>
  /** Values that the gate has or had: what is shown of the session is looked through for them. The same array while nothing changed. */
  shown(session: string): readonly Secret[]
  forget(session: string): void
}

/** The gate gets what credentials and routes write, and no secret that is for methods and tools only. */
const FOR_THE_GATE = (use: string): boolean => use === 'inject' || use.startsWith('route:')
const NONE: readonly Secret[] = []

/** @param policyOf the policy of a session, as its gate has it */
export function createSessionSecrets(
  providers: Providers,
  policyOf: (session: string) => Pick<Policy, 'secrets'>,
  system: System,
): SessionSecrets {
  const shown = new Map<string, readonly Secret[]>()
  let version = system.now()
  return {
    async bundle(session) {
      const grants = policyOf(session).secrets.filter(({ uses }) => uses.some(FOR_THE_GATE))
      const resolver = createResolver(grants, providers, system)
      const signal = new AbortController().signal
      const values = await Promise.all(
        grants.map(({ name, uses }) => resolver.resolve(name, { resource: uses.find(FOR_THE_GATE) ?? '' }, signal)),
      )
      resolver.forget()
      version += 1
      const before = shown.get(session) ?? NONE
      const fresh = values.filter((value) => !before.some((known) => known.equals(value)))
      if (fresh.length > 0) shown.set(session, [...fresh, ...before])
      return { version, values: Object.fromEntries(values.map((value) => [value.name, value.reveal()])) }
    },
    shown: (session) => shown.get(session) ?? NONE,
    forget: (session) => void shown.delete(session),
  }
}

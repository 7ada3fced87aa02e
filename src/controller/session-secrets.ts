import type { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import { isForGate, isUseOfGate, type Policy } from '../policy/policy.ts'
import type { SecretBundle } from '../wire/control.ts'
import type { SecretHolder } from '../wire/secret-holder.ts'
import { createResolver, type Providers } from './providers/providers.ts'

export type SessionSecrets = {
  /**
   * What a session's gate may write into requests, resolved now. Nothing is kept of it but for the redaction of what the session prints.
   * Where the signal ends it, programs are killed and servers not waited for.
   * @throws secret_missing, secret_invalid, secret_unavailable, secret_not_permitted, policy_not_found; the signal's reason
   */
  bundle(session: string, signal: AbortSignal): Promise<SecretBundle>
  /** Values that the gate has or had: what is shown of the session is looked through for them. The same array while nothing changed. */
  shown(session: string): readonly Secret[]
  forget(session: string): void
}

const NONE: readonly Secret[] = []

/** What of a session decides which secrets it gets. */
export type Entitled = { readonly policy: Policy; readonly holder: SecretHolder }

/** @param entitledOf a session's policy, as its gate has it, and whom the vault takes it for */
export function createSessionSecrets(providers: Providers, entitledOf: (session: string) => Entitled, system: System): SessionSecrets {
  const shown = new Map<string, readonly Secret[]>()
  let version = system.now()
  return {
    async bundle(session, signal) {
      const { policy, holder } = entitledOf(session)
      const grants = policy.secrets.filter(isForGate)
      const resolver = createResolver(grants, providers, system, holder)
      // Of no use without all of them: the first that fails ends the others.
      const failing = new AbortController()
      const bound = AbortSignal.any([signal, failing.signal])
      const resolved = grants.map(({ name, uses }) => {
        const resource = uses.find(isUseOfGate) ?? ''
        return resolver.resolve(name, { resource, says: saysOf(policy, name, resource) }, bound)
      })
      const values = await Promise.all(resolved).catch((error: unknown) => {
        failing.abort()
        throw error
      })
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

/** Which credentials write it: of what is injected, the resource says no more than that. */
function saysOf(policy: Policy, name: string, resource: string): string {
  const ids = policy.credentials
    .filter(({ secret, also }) => secret === name || also.some((one) => one.secret === name))
    .map(({ id }) => id)
  return resource === 'inject' && ids.length > 0 ? `credential:${ids.join(',')}` : resource
}

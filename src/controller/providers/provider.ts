import type { Secret } from '../../kernel/secret.ts'
import type { SecretHolder } from '../../wire/secret-holder.ts'
import type { SourceKind, SourceOf } from '../../wire/secret-source.ts'

/** One place that secrets are kept in. What it cannot do is not there; `cannot` says why. */
export type Provider<K extends SourceKind> = {
  readonly kind: K
  /** The value under the name that a policy has for it. @throws secret_missing, secret_invalid, secret_unavailable, secret_not_permitted */
  get(name: string, source: SourceOf<K>, signal: AbortSignal, holder: SecretHolder): Promise<Secret>
  /** Resolved when the value is there. @throws secret_unavailable */
  set?(source: SourceOf<K>, value: Secret, signal: AbortSignal): Promise<void>
  /** @throws secret_missing, secret_unavailable */
  delete?(source: SourceOf<K>, signal: AbortSignal): Promise<void>
  /** References as a policy writes them, never values. `under` is a folder of the place. @throws secret_unavailable */
  list?(under: string | undefined, signal: AbortSignal): Promise<readonly string[]>
  /** What would keep `get` from working, as far as it can be told without asking for the value. */
  problem(source: SourceOf<K>): string | undefined
  /** What to do instead, for what this place cannot do. */
  readonly cannot: string
}

import type { Secrets } from '../../credential/credential.ts'
import type { Policy } from '../../policy/policy.ts'

/** What is in force: replaced as a whole, so that a request never sees the rules of one policy and the secrets of another. I18 */
export type Enforced = {
  readonly policy: Policy
  readonly secrets: Secrets
  /** Counts the replacements; upstream connections of an older one carry nothing new. */
  readonly generation: number
}

/** What is in force now. A request asks once, at its start. */
export type Enforcement = () => Enforced

import type { Placeholders, ReadyFile, Secrets } from '../../credential/credential.ts'
import type { Refusal } from '../../kernel/errors.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Redactor } from '../../redactor/redactor.ts'

/** What is in force: replaced as a whole, so that a request never sees the rules of one policy and the secrets of another. I18 */
export type Enforced = {
  readonly policy: Policy
  readonly secrets: Secrets
  /** The worthless values that the agent holds. */
  readonly placeholders: Placeholders
  /** Files with them, for programs of the agent that read one. */
  readonly files: readonly ReadyFile[]
  /** Finds placeholders in what goes up, in any spelling; `undefined` where there are none. */
  readonly guard: Redactor | undefined
  /** Counts the replacements; upstream connections of an older one carry nothing new. */
  readonly generation: number
  /** Secrets were taken back, and this is why: whatever has one in it ends. */
  readonly ended?: Refusal
}

/** What is in force now. A request asks once, at its start. */
export type Enforcement = () => Enforced

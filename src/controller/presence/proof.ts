import { SallyportError } from '../../kernel/errors.ts'
import type { Scope } from '../../wire/question.ts'
import type { ProcessIdentity } from './process-identity.ts'

/** What a proof is given for: with anything else in any of it, it is worth nothing. */
export type ProofPurpose = {
  readonly digest: string
  readonly decision: 'allow' | 'deny'
  readonly scope: Scope
  /** The question that is answered. */
  readonly question?: string | undefined
  /** What becomes a rule, and until when. */
  readonly rule?: string | undefined
  readonly expiresAt?: number | undefined
}

/** The operating system asks its user, by its own means, on its own screen. */
export type SystemPrompt = {
  /** Why it cannot be asked here, or nothing. */
  problem(): string | undefined
  /** Gives the name of what asked. @throws presence_failed */
  confirm(asking: ProcessIdentity, of: ProofPurpose, signal: AbortSignal): Promise<string>
}

/** What the prompt shows: enough of the digest to hold it against the question on the screen. @throws presence_failed */
export function promptText({ digest, decision, scope }: ProofPurpose): string {
  if (!/^[0-9a-f]{64}$/.test(digest)) throw new SallyportError('presence_failed', 'what was to be proven has no digest')
  return `${decision} ${scope} ${digest.slice(0, 16)}`
}

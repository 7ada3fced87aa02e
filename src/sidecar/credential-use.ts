import type { Audit } from '../audit/audit.ts'
import { createBudgets, createTokenExchanges, type TokenPost } from '../credential/credential.ts'
import type { System } from '../kernel/system.ts'
import type { Enforcement } from './egress/enforced.ts'
import type { HandleParts } from './egress/handle.ts'
import { createScrubbing } from './egress/scrubbing.ts'
import type { Addresses } from './upstream/addresses.ts'
import { createTokenClient } from './upstream/token-client.ts'
import type { Upstreams } from './upstream/upstreams.ts'

export type CredentialUseParts = {
  readonly enforcement: Enforcement
  readonly addresses: Addresses
  readonly upstreams: Upstreams
  readonly audit: Audit
  readonly system: System
}

export type CredentialUse = Pick<HandleParts, 'budgets' | 'tokens' | 'held' | 'scrubbing'> & {
  /** Has no token of a secret any more, and nothing that looks for one. */
  readonly forget: () => void
} & Disposable

/**
 * What requests need to carry credentials, and their answers to lose them again. It outlives replacements of the policy; when it is
 * disposed of, exchanges that run end and none begins.
 */
export function createCredentialUse(parts: CredentialUseParts): CredentialUse {
  const stopping = new AbortController()
  const client = createTokenClient({ ...parts, signal: stopping.signal })
  // I3: a request of the gate's own is in the audit before it leaves, like any other.
  const post: TokenPost = async (url, ...rest) => {
    await parts.audit.append({ event: 'token_requested', host: new URL(url).hostname })
    return client(url, ...rest)
  }
  const tokens = createTokenExchanges(post, parts.system)
  const scrubbing = createScrubbing(parts.enforcement, tokens)
  return {
    budgets: createBudgets(parts.system),
    tokens,
    held: { bytes: 0 },
    scrubbing,
    forget() {
      tokens.forget()
      scrubbing.forget()
    },
    [Symbol.dispose]: () => stopping.abort(),
  }
}

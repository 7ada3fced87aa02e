import type { Refusal } from '../../kernel/errors.ts'
import type { Policy } from '../../policy/policy.ts'
import type { RequestHead } from './facts.ts'
import { valuesOf } from './headers.ts'

/** Whether a text is the session's lease. Constant in time. */
export type CheckLease = (token: string) => boolean

/** The proof that a request is the session's own, where the policy wants one (`network.lease: required`). */
export type Lease = {
  /** Why a request is refused before anything else is read of it. `by` is where it came in. */
  refusalOf(policy: Policy, by: 'proxy' | 'gateway' | { readonly lane: string }, head: RequestHead): Refusal | undefined
  /** For SOCKS5, whose handshake carries it. Undefined where none is wanted. */
  checkFor(policy: Policy): CheckLease | undefined
}

/** Fields in which clients of a base URL send what they take for their key. */
const KEY_FIELDS = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key']

/** @param check undefined when this gate was given no lease: then nothing passes where one is required */
export function createLease(check: CheckLease = () => false): Lease {
  const isIn = (head: RequestHead, fields: readonly string[]): boolean =>
    fields.some((field) => valuesOf(head.rawHeaders, field).some((value) => tokensOf(value).some(check)))
  return {
    refusalOf(policy, by, head) {
      if (!policy.isLeaseRequired) return undefined
      if (by === 'proxy' ? isIn(head, ['proxy-authorization']) : by === 'gateway' && isIn(head, KEY_FIELDS)) return undefined
      // A tunnel was proven when it was opened; a connection that knows no proxy has no place for a proof.
      if (typeof by !== 'string' && by.lane !== 'transparent') return undefined
      return {
        code: 'lease_required',
        message: 'the policy wants the lease of the session',
        hint: 'send it as the password of Proxy-Authorization: Basic or of SOCKS5, at a route as the key: the agent has it in SALLYPORT_LEASE',
      }
    },
    checkFor: (policy) => (policy.isLeaseRequired ? check : undefined),
  }
}

/** RFC 7617: the password of any user; RFC 6750: the token; a bare key as it is. */
function tokensOf(value: string): string[] {
  const [, scheme = '', credentials = ''] = /^(\S+) +(\S+)$/.exec(value) ?? []
  if (scheme.toLowerCase() === 'bearer') return [credentials]
  if (scheme.toLowerCase() !== 'basic') return [value]
  const decoded = Buffer.from(credentials, 'base64').toString('utf8')
  return [decoded.slice(decoded.indexOf(':') + 1)]
}

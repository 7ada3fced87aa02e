import type { Refusal } from '../../kernel/errors.ts'
import type { Policy } from '../../policy/policy.ts'
import { valuesOf, type RawHeaders } from './headers.ts'

/** Whether a text is the session's lease. Constant in time. */
export type CheckLease = (token: string) => boolean

/** The proof that a request is the session's own, where the policy wants one (`network.lease: required`). */
export type Lease = {
  /** Why a request is refused before anything else is read of it. `by` is where it came in. */
  refusalOf(
    policy: Policy,
    by: 'proxy' | 'gateway' | 'mcp' | { readonly lane: string },
    head: { readonly rawHeaders: RawHeaders },
  ): Refusal | undefined
  /** The same for a connection that leads somewhere. */
  refusalOfTunnel(policy: Policy, isProven: boolean): Refusal | undefined
  /** Whether a request at the proxy shows the lease, wanted or not. */
  isShown(head: { readonly rawHeaders: RawHeaders }): boolean
  /** For SOCKS5, whose handshake carries it. Undefined where none is wanted. */
  checkFor(policy: Policy): CheckLease | undefined
  /** The fields of a request at a route without those in which the gateway takes the lease. It proves something here and nowhere else. I1 */
  without(headers: readonly string[]): string[]
}

/** Fields in which clients of a base URL send what they take for their key. */
const KEY_FIELDS = new Set(['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'])

/** @param check undefined when this gate was given no lease: then nothing passes where one is required */
export function createLease(check: CheckLease = () => false): Lease {
  const isLease = (value: string): boolean => tokensOf(value).some(check)
  const isIn = (rawHeaders: RawHeaders, fields: Iterable<string>): boolean =>
    [...fields].some((field) => valuesOf(rawHeaders, field).some(isLease))
  return {
    refusalOf(policy, by, { rawHeaders }) {
      // Who asked the gateway for this showed it there.
      if (!policy.isLeaseRequired || by === 'mcp') return undefined
      if (by === 'proxy' ? isIn(rawHeaders, ['proxy-authorization']) : by === 'gateway' && isIn(rawHeaders, KEY_FIELDS)) return undefined
      // A tunnel was proven when it was opened; a connection that knows no proxy has no place for a proof.
      return typeof by === 'string' || by.lane === 'transparent' ? REFUSAL : undefined
    },
    refusalOfTunnel: (policy, isProven) => (policy.isLeaseRequired && !isProven ? REFUSAL : undefined),
    isShown: ({ rawHeaders }) => isIn(rawHeaders, ['proxy-authorization']),
    checkFor: (policy) => (policy.isLeaseRequired ? check : undefined),
    without(headers) {
      const kept: string[] = []
      for (let i = 0; i < headers.length; i += 2) {
        const [name = '', value = ''] = headers.slice(i, i + 2)
        if (!KEY_FIELDS.has(name.toLowerCase()) || !isLease(value)) kept.push(name, value)
      }
      return kept
    },
  }
}

/** Where only the controller puts containers: to be there is the proof, and nothing has to be shown. */
export function givenLease({ without }: Pick<Lease, 'without'>): Lease {
  return { refusalOf: () => undefined, refusalOfTunnel: () => undefined, isShown: () => true, checkFor: () => undefined, without }
}

const REFUSAL: Refusal = {
  code: 'lease_required',
  message: 'the policy wants the lease of the session',
  hint: 'send it as the password of Proxy-Authorization: Basic or of SOCKS5, at a route as the key: the agent has it in SALLYPORT_LEASE',
}

/** RFC 7617: the password of any user; RFC 6750: the token; a bare key as it is. */
function tokensOf(value: string): string[] {
  const [, scheme = '', credentials = ''] = /^(\S+) +(\S+)$/.exec(value) ?? []
  if (scheme.toLowerCase() === 'bearer') return [credentials]
  if (scheme.toLowerCase() !== 'basic') return [value]
  const decoded = Buffer.from(credentials, 'base64').toString('utf8')
  return [decoded.slice(decoded.indexOf(':') + 1)]
}

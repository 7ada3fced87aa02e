import { SignJWT } from 'jose'
import type { System } from '../kernel/system.ts'
import { openKeyRing, rotateKeyRing } from './key-file.ts'
import { checkedPayload, headerOf, ISSUER, leaseInvalid, readShort, readToken, shortOf, type LeasePayload } from './token.ts'

export { leaseCheck, leaseDigest } from './digests.ts'

/** What a lease says. Its holder can read it: nothing in it is a secret, and `workspace` is a name rather than a path of the host. */
export type LeaseClaims = {
  readonly session: string
  readonly workspace: string
  readonly role?: string
  readonly agent: string
  readonly audience: 'sidecar' | 'agent'
  /** Methods of the gateway that it is good for. Absent: all. */
  readonly methods?: readonly string[]
}

export type IssuedLease = {
  /** JWT (RFC 7519), signed with EdDSA, without an expiry. */
  readonly token: string
  /** 155 visible ASCII characters, derived from the token, for where 255 bytes are the limit. */
  readonly short: string
  /** 32 hex digits. */
  readonly id: string
}

export type Expected = { readonly audience: LeaseClaims['audience']; readonly session: string; readonly method?: string }

export type Leases = {
  /** @throws lease_invalid: malformed for claims that are too long, revoked for a session that was revoked */
  issue(claims: LeaseClaims): Promise<IssuedLease>
  /**
   * Signature, form, audience, session, revocation, life and method, in this order.
   * @throws lease_invalid with the class of what is wrong
   */
  verify(token: string, expected: Expected): LeaseClaims & { readonly id: string }
  /** Whether a text is the short form of a valid lease of this session's agent. */
  verifyShort(short: string, session: string): boolean
  /** All leases of the session, at once and for good. Whoever keeps the sessions says so in `isLive` as well, for the next start. */
  revoke(session: string): void
  /**
   * A new key for leases from now on. Those of the last keys (`LIMITS.leaseFormerKeysMax`) stay valid while their sessions live;
   * with `now` none does.
   * @throws lease_key_invalid
   */
  rotateKey(options?: { readonly now?: boolean }): Promise<void>
}

/**
 * Leases by the key in `keyFile`, which is made at the first start.
 * @param isLive whether the session's row says that it lives and has this lease: asked at every check, so that a revoked or ended
 *   one is refused after a restart as well
 * @throws lease_key_invalid
 */
export async function openLeases(
  keyFile: string,
  isLive: (session: string, leaseId: string) => boolean,
  system: Pick<System, 'now' | 'random'>,
): Promise<Leases> {
  let ring = await openKeyRing(keyFile, system)
  const revoked = new Set<string>()
  let rotating: Promise<unknown> = Promise.resolve()
  return {
    async issue(claims) {
      if (revoked.has(claims.session)) throw leaseInvalid('revoked')
      const payload = payloadOf(claims, system)
      const { kid, key } = ring.current
      const token = await new SignJWT(payload).setProtectedHeader(headerOf(kid)).sign(key)
      // What we make must be what we read, to the byte, or it would be refused when it counts.
      readToken(token, ring)
      return { token, short: shortOf(token, payload, key), id: payload.jti }
    },
    // I28
    verify(token, expected) {
      const payload = readToken(token, ring)
      if (payload.aud !== expected.audience) throw leaseInvalid('audience')
      if (payload.session !== expected.session) throw leaseInvalid('session')
      if (revoked.has(payload.session)) throw leaseInvalid('revoked')
      if (!isLive(payload.session, payload.jti)) throw leaseInvalid('ended')
      if (expected.method !== undefined && payload.methods?.includes(expected.method) === false) throw leaseInvalid('method')
      return claimsOf(payload)
    },
    verifyShort(short, session) {
      const id = readShort(short, { aud: 'agent', session }, ring)
      return id !== undefined && !revoked.has(session) && isLive(session, id)
    },
    revoke: (session) => void revoked.add(session),
    async rotateKey({ now = false } = {}) {
      // One after the other: each keeps what the one before made.
      const step = rotating.then(async () => (ring = await rotateKeyRing(keyFile, system, now)))
      rotating = step.catch(() => undefined)
      await step
    },
  }
}

function payloadOf(claims: LeaseClaims, system: Pick<System, 'now' | 'random'>): LeasePayload {
  const { session, workspace, role, agent, audience, methods } = claims
  return checkedPayload({
    iss: ISSUER,
    aud: audience,
    jti: system.random(16).toString('hex'),
    iat: Math.floor(system.now() / 1_000),
    session,
    workspace,
    ...(role !== undefined && { role }),
    agent,
    ...(methods !== undefined && { methods: [...methods] }),
  })
}

function claimsOf({ aud, jti, session, workspace, role, agent, methods }: LeasePayload): LeaseClaims & { id: string } {
  return { id: jti, session, workspace, ...(role !== undefined && { role }), agent, audience: aud, ...(methods && { methods }) }
}

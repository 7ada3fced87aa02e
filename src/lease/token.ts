import { createHash, sign, verify, type KeyObject } from 'node:crypto'
import * as z from 'zod'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { KeyRing } from './key-file.ts'

/** Why a lease is not valid: all that is ever said about one. */
export type LeaseFault = 'malformed' | 'algorithm' | 'signature' | 'audience' | 'session' | 'revoked' | 'ended' | 'method'

/** RFC 8037 §3.1 */
const ALGORITHM = 'EdDSA'
export const ISSUER = 'sallyport'

const Text = z.string().min(1).max(LIMITS.leaseTextCharsMax)
/** What stands in a lease, in this order (RFC 7519 §4.1: iss, aud, jti, iat). No `exp`: it is valid while its session lives. */
const Payload = z.strictObject({
  iss: z.literal(ISSUER),
  aud: z.enum(['sidecar', 'agent']),
  jti: z.string().regex(/^[0-9a-f]{32}$/),
  iat: z.int().min(0),
  session: Text,
  workspace: Text,
  role: Text.optional(),
  agent: Text,
  methods: z.array(Text).max(LIMITS.leaseMethodsMax).optional(),
})
export type LeasePayload = z.infer<typeof Payload>

/** @throws lease_invalid (malformed) for claims that cannot be written into a lease */
export function checkedPayload(payload: unknown): LeasePayload {
  const parsed = Payload.safeParse(payload)
  if (!parsed.success) throw leaseInvalid('malformed')
  return parsed.data
}

/** The header that we write, and the only one that is read: no `jwk`, `jku`, `x5u` or `crit` is ever looked at. */
export function headerOf(kid: string): { readonly alg: string; readonly typ: string; readonly kid: string } {
  return { alg: ALGORITHM, typ: 'JWT', kid }
}

/**
 * Reads a lease whose signature holds. Everything has one spelling: what differs from it in a byte is refused, so that no two
 * tokens mean the same lease.
 * @throws lease_invalid
 */
export function readToken(token: string, { verifying }: KeyRing): LeasePayload {
  // I28: before anything is decoded, as whoever sends it may choose its length.
  if (token.length > LIMITS.leaseCharsMax) throw leaseInvalid('malformed')
  const [, head = '', body = '', signature = ''] = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)$/.exec(token) ?? []
  const header = jsonOf(head)
  if (!isObject(header)) throw leaseInvalid('malformed')
  // RFC 8725 §3.1: the algorithm is ours to say, not the token's. "none" and HS256 with the public key end here.
  if (header['alg'] !== ALGORITHM) throw leaseInvalid('algorithm')
  const kid = [...verifying.keys()].find((known) => encode(JSON.stringify(headerOf(known))) === head)
  if (kid === undefined) throw leaseInvalid(Object.keys(header).toSorted().join() === 'alg,kid,typ' ? 'signature' : 'malformed')
  const key = verifying.get(kid)
  const bytes = Buffer.from(signature, 'base64url')
  // base64url of 64 bytes has four spare bits in its last letter: the same signature could be spelled in sixteen ways.
  if (bytes.length !== SIGNATURE_BYTES || encode(bytes) !== signature) throw leaseInvalid('malformed')
  if (key === undefined || !verify(null, Buffer.from(`${head}.${body}`), key, bytes)) throw leaseInvalid('signature')
  const payload = checkedPayload(jsonOf(body))
  // Claims that stand twice, or in another order, are read by some in one way and by others in another.
  if (encode(JSON.stringify(payload)) !== body) throw leaseInvalid('malformed')
  return payload
}

const SIGNATURE_BYTES = 64
const ID_BYTES = 16
const DIGEST_BYTES = 32
const SHORT_PREFIX = 'sls1_'
/** No JWS signing input has a space: a signature of one kind is never one of the other. */
const SHORT_DOMAIN = 'sallyport short lease 1'

/**
 * The short form of a lease, for places of 255 bytes (RFC 1929, user-info): its id, the SHA-256 of the long form and a signature over
 * both, the audience and the session. 155 characters. Whoever has the long form can check by hash that they belong together.
 */
export function shortOf(token: string, payload: LeasePayload, key: KeyObject): string {
  const id = Buffer.from(payload.jti, 'hex')
  const digest = createHash('sha256').update(token).digest()
  return `${SHORT_PREFIX}${encode(Buffer.concat([id, digest, sign(null, shortInput(payload, id, digest), key)]))}`
}

/** The id of a short lease for this session and audience whose signature holds, else `undefined`. */
export function readShort(short: string, meant: Pick<LeasePayload, 'aud' | 'session'>, { verifying }: KeyRing): string | undefined {
  if (short.length > LIMITS.leaseShortCharsMax || !short.startsWith(SHORT_PREFIX)) return undefined
  const text = short.slice(SHORT_PREFIX.length)
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length !== ID_BYTES + DIGEST_BYTES + SIGNATURE_BYTES || encode(bytes) !== text) return undefined
  const id = bytes.subarray(0, ID_BYTES)
  const input = shortInput(meant, id, bytes.subarray(ID_BYTES, ID_BYTES + DIGEST_BYTES))
  const signature = bytes.subarray(ID_BYTES + DIGEST_BYTES)
  const isSigned = verifying.values().some((key) => verify(null, input, key, signature))
  return isSigned ? id.toString('hex') : undefined
}

/** The error that says the class of what is wrong and nothing else: no byte of the token, of a claim or of a key. I1 */
export function leaseInvalid(fault: LeaseFault): SallyportError {
  return new SallyportError('lease_invalid', `the lease is not valid: ${fault}`, { hint: HINTS[fault] })
}

const HINTS: Readonly<Record<LeaseFault, string>> = {
  malformed: 'send the lease as it was given, whole',
  algorithm: 'leases are signed with EdDSA; send the lease as it was given',
  signature: 'it is not signed by this controller, or its key was rotated away: start the session again',
  audience: 'the lease is for another use',
  session: 'the lease is of another session',
  revoked: 'the operator revoked it: start the session again',
  ended: 'its session has ended',
  method: 'the lease is not for this method',
}

function shortInput({ aud, session }: Pick<LeasePayload, 'aud' | 'session'>, id: Buffer, digest: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${SHORT_DOMAIN}\n${aud}\n${session}\n`), id, digest])
}

function encode(value: string | Buffer): string {
  return Buffer.from(value as string).toString('base64url')
}

function jsonOf(part: string): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(part, 'base64url')))
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

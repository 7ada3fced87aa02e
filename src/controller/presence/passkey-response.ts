import * as z from 'zod'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { PASSKEY_DOMAIN } from '../../wire/passkeys.ts'
import { worthless } from './challenges.ts'

/** EdDSA, ES256, RS256 (RFC 9053, RFC 8812), the ones that a new passkey is asked for first. */
export const PASSKEY_ALGORITHMS = [-8, -7, -257] as const

const Encoded = z
  .string()
  .min(1)
  .max(LIMITS.passkeyTextCharsMax)
  .regex(/^[A-Za-z0-9_-]+$/)
const Credential = { id: Encoded, rawId: Encoded, type: z.literal('public-key') }

const Assertion = z.object({
  ...Credential,
  response: z.object({
    clientDataJSON: Encoded,
    authenticatorData: Encoded,
    signature: Encoded,
    userHandle: Encoded.nullish().transform((handle) => handle ?? undefined),
  }),
})
type Assertion = z.infer<typeof Assertion>

const Attestation = z.object({
  ...Credential,
  response: z.object({
    clientDataJSON: Encoded,
    attestationObject: Encoded,
    transports: z.array(z.string().max(32)).max(8).default([]),
  }),
})
type Attestation = z.infer<typeof Attestation>

const ClientData = z.object({ challenge: Encoded, crossOrigin: z.boolean().optional(), topOrigin: z.unknown().optional() })

/** @throws presence_failed */
export function readAssertion(response: unknown): { readonly said: Assertion; readonly challenge: string } {
  const { data } = Assertion.safeParse(response)
  if (data === undefined) throw worthless('it is not what an authenticator answers')
  return { said: data, challenge: challengeIn(data.response.clientDataJSON) }
}

/** @throws presence_failed */
export function readAttestation(response: unknown): { readonly said: Attestation; readonly challenge: string } {
  const { data } = Attestation.safeParse(response)
  if (data === undefined) throw worthless('it is not what an authenticator answers')
  return { said: data, challenge: challengeIn(data.response.clientDataJSON) }
}

/**
 * The signature counter of an answer that holds (WebAuthn Level 3 §7.2), with user verification. What it counted before is not looked at.
 * @throws presence_failed
 */
export async function checkAssertion(
  said: Assertion,
  expected: { readonly challenge: string; readonly origin: string; readonly publicKey: string },
): Promise<number> {
  const { verifyAuthenticationResponse } = await import('@simplewebauthn/server')
  const { userHandle, ...response } = said.response
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response: { ...said, response: { ...response, ...(userHandle !== undefined && { userHandle }) }, clientExtensionResults: {} },
    expectedChallenge: expected.challenge,
    expectedOrigin: expected.origin,
    expectedRPID: PASSKEY_DOMAIN,
    // Its counter is looked at once the signature is known to be right: before, anybody could say what they like.
    credential: { id: said.id, publicKey: new Uint8Array(Buffer.from(expected.publicKey, 'base64url')), counter: 0 },
    requireUserVerification: true,
  }).catch((cause: unknown) => refuse(cause))
  if (!verified) throw worthless('its signature is wrong')
  return authenticationInfo.newCounter
}

export type NewCredential = { readonly id: string; readonly publicKey: string; readonly counter: number; readonly isCopied: boolean }

/**
 * A credential that was made (WebAuthn Level 3 §7.1), with user verification and without a word of its maker: no statement with
 * certificates is looked at, since that would have us fetch what they name.
 * @throws presence_failed
 */
export async function checkAttestation(
  said: Attestation,
  expected: { readonly challenge: string; readonly origin: string },
): Promise<NewCredential> {
  const [{ verifyRegistrationResponse }, { decodeAttestationObject }] = await Promise.all([
    import('@simplewebauthn/server'),
    import('@simplewebauthn/server/helpers'),
  ])
  try {
    const statement = decodeAttestationObject(new Uint8Array(Buffer.from(said.response.attestationObject, 'base64url')))
    const format = statement.get('fmt')
    const isOwn = format === 'packed' && statement.get('attStmt').get('x5c') === undefined
    if (format !== 'none' && !isOwn) throw new Error(`its attestation is "${format}", and none was asked for`)
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: { ...said, clientExtensionResults: {} },
      expectedChallenge: expected.challenge,
      expectedOrigin: expected.origin,
      expectedRPID: PASSKEY_DOMAIN,
      requireUserVerification: true,
      supportedAlgorithmIDs: [...PASSKEY_ALGORITHMS],
    })
    if (!verified) throw new Error('its attestation is wrong')
    const { credential, credentialDeviceType } = registrationInfo
    if (credential.id !== said.id) throw new Error('it names two credentials')
    return {
      id: credential.id,
      publicKey: Buffer.from(credential.publicKey).toString('base64url'),
      counter: credential.counter,
      isCopied: credentialDeviceType === 'multiDevice',
    }
  } catch (cause) {
    return refuse(cause)
  }
}

/** An answer that was given in a frame of another page is none, whatever page that is. */
function challengeIn(clientDataJSON: string): string {
  let parsed: unknown
  try {
    parsed = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(clientDataJSON, 'base64url')))
  } catch (cause) {
    throw worthless('what the browser says of it cannot be read', cause)
  }
  const { data } = ClientData.safeParse(parsed)
  if (data === undefined) throw worthless('what the browser says of it cannot be read')
  if (data.crossOrigin === true || data.topOrigin !== undefined) throw worthless('it was given inside of another page')
  return data.challenge
}

function refuse(cause: unknown): never {
  throw worthless(shown(cause instanceof Error ? cause.message : String(cause)), cause)
}

import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import { Answer, type Tier } from './question.ts'

export type PasskeyRequest = PublicKeyCredentialRequestOptionsJSON
export type PasskeyCreation = PublicKeyCredentialCreationOptionsJSON
export type PasskeyResponse = AuthenticationResponseJSON
export type PasskeyMade = RegistrationResponseJSON

/** Passkeys belong to a name without a port: what tells this page from others on the machine is the origin that a response names. */
export const PASSKEY_DOMAIN = 'localhost'

export type PasskeyView = {
  /** Of the credential, base64url. */
  readonly id: string
  /** The operator's word for it. */
  readonly name: string
  readonly createdAt: number
  readonly usedAt?: number
  /** It may be on more than one device, as its maker says. */
  readonly isCopied: boolean
}

/** All that are registered, or why they cannot be used. */
export type PasskeysView = { readonly passkeys: readonly PasskeyView[]; readonly problem?: string }

/** What a page needs to have something proven: `digest` of exactly that, and the ways that are open for its tier now. */
export type ProofAsked = { readonly tier: Tier; readonly digest: string; readonly password: boolean; readonly passkey?: PasskeyRequest }

/** How a page could be let in besides a link: nothing else is told to who is not. */
export type LoginWays = { readonly password: boolean; readonly passkey: boolean }

const Name = z.string().trim().min(1).max(LIMITS.passkeyNameCharsMax)

/** What allowing a question would be given for. */
export const AnswerChallengeRequest = Answer.omit({ message: true }).extend({ decision: z.literal('allow') })

/** A call that is to be proven. */
export const ActChallengeRequest = z.strictObject({
  method: z.enum(['POST', 'PUT', 'PATCH', 'DELETE']),
  path: z.string().min(1).max(4_096).startsWith('/v1/'),
  body: z.record(z.string(), z.unknown()),
})

export const PasskeyRegisterRequest = z.strictObject({ name: Name, response: z.unknown() })
export const PasskeyRenameRequest = z.strictObject({ name: Name })
export const PasskeyLoginRequest = z.strictObject({ response: z.unknown() })
export const PasswordLoginRequest = z.strictObject({ password: z.string().min(1).max(1_024) })

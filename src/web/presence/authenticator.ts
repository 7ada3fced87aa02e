import type { PasskeyCreation, PasskeyMade, PasskeyRequest, PasskeyResponse } from '../../wire/passkeys.ts'
import { Problem } from '../api/client.ts'

/** Has the operator use a passkey. @throws Problem `presence_failed` in words */
export async function showPasskey(optionsJSON: PasskeyRequest): Promise<PasskeyResponse> {
  const { startAuthentication } = await import('@simplewebauthn/browser')
  return await said(startAuthentication({ optionsJSON }))
}

/** Has the operator make a passkey. @throws Problem `presence_failed` in words */
export async function makePasskey(optionsJSON: PasskeyCreation): Promise<PasskeyMade> {
  const { startRegistration } = await import('@simplewebauthn/browser')
  return await said(startRegistration({ optionsJSON }))
}

const WORDS: Readonly<Record<string, string>> = {
  NotAllowedError: 'no passkey was used: it was called off, took too long, or could not verify you',
  InvalidStateError: 'this authenticator has a passkey of this operator already',
  NotSupportedError: 'this browser has no way to use such a passkey',
  SecurityError: 'the browser takes no passkeys on this page',
}

async function said<T>(ceremony: Promise<T>): Promise<T> {
  try {
    return await ceremony
  } catch (error) {
    const name = error instanceof Error && error.cause instanceof Error ? error.cause.name : error instanceof Error ? error.name : ''
    throw new Problem(0, 'presence_failed', WORDS[name] ?? 'the passkey could not be used', 'try again, or another way')
  }
}

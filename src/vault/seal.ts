import { createCipheriv, createDecipheriv } from 'node:crypto'
import type { System } from '../kernel/system.ts'

export const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** What stands before the ciphertext: nonce and tag. The tag stands for all of it, and for what it is bound to. */
export const SEAL_BYTES = NONCE_BYTES + TAG_BYTES

/** The bytes do not belong to this key and context, or were altered. Never says more: there is nothing to learn from it. */
export class SealBroken extends Error {}

/**
 * AES-256-GCM: nonce, tag, ciphertext. `context` is bound to it and must be the same to open it. Nonces are random: good for 2^32
 * seals of one key (NIST SP 800-38D §8.3).
 */
export function seal(key: Buffer, context: string, plain: Buffer, system: Pick<System, 'random'>): Buffer {
  const nonce = system.random(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(context))
  const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), ciphertext])
}

/** What was sealed. The buffer is the caller's to wipe. @throws SealBroken */
export function unseal(key: Buffer, context: string, sealed: Uint8Array): Buffer {
  if (sealed.length < SEAL_BYTES) throw new SealBroken('too short')
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
  decipher.setAAD(Buffer.from(context))
  decipher.setAuthTag(sealed.subarray(NONCE_BYTES, SEAL_BYTES))
  const plain = decipher.update(sealed.subarray(SEAL_BYTES))
  try {
    // GCM is a stream cipher: this adds no bytes, it compares the tag.
    decipher.final()
    return plain
  } catch {
    plain.fill(0)
    throw new SealBroken('the tag does not fit')
  }
}

/** JSON of strings and numbers has one reading: no two different contexts are the same text. */
export function contextOf(purpose: 'value' | 'manifest' | 'data key', ...parts: readonly (string | number)[]): string {
  return JSON.stringify(['sallyport vault 1', purpose, ...parts])
}

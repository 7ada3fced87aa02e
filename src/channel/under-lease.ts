import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import type { System } from '../kernel/system.ts'

const SALT_BYTES = 16
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** A text that only who knows the lease can read: on the engine's stream an engine may keep what a container writes. AES-256-GCM, base64. */
export function sealUnderLease(lease: string, text: string, system: Pick<System, 'random'>): string {
  const [salt, nonce] = [system.random(SALT_BYTES), system.random(NONCE_BYTES)]
  const cipher = createCipheriv('aes-256-gcm', keyOf(lease, salt), nonce, { authTagLength: TAG_BYTES })
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([salt, nonce, cipher.getAuthTag(), sealed]).toString('base64')
}

/** `undefined` for what this lease did not seal. */
export function openUnderLease(lease: string, sealed: string): string | undefined {
  const bytes = Buffer.from(sealed, 'base64')
  const [nonceAt, tagAt, textAt] = [SALT_BYTES, SALT_BYTES + NONCE_BYTES, SALT_BYTES + NONCE_BYTES + TAG_BYTES]
  if (bytes.length < textAt) return undefined
  const key = keyOf(lease, bytes.subarray(0, nonceAt))
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(nonceAt, tagAt), { authTagLength: TAG_BYTES })
  decipher.setAuthTag(bytes.subarray(tagAt, textAt))
  try {
    return Buffer.concat([decipher.update(bytes.subarray(textAt)), decipher.final()]).toString('utf8')
  } catch {
    return undefined
  }
}

function keyOf(lease: string, salt: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', lease, salt, 'sallyport-control authority', 32))
}

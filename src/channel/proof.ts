import { createHmac, timingSafeEqual } from 'node:crypto'

/** That somebody knows the lease, without showing it: HMAC-SHA-256 over the stream's nonce, hex. */
export function proofOf(lease: string, nonce: string): string {
  return createHmac('sha256', lease).update(`sallyport-control ${nonce}`).digest('hex')
}

/** Constant in time. */
export function isProof(proof: string, lease: string, nonce: string): boolean {
  const expected = Buffer.from(proofOf(lease, nonce))
  const shown = Buffer.from(proof)
  return shown.length === expected.length && timingSafeEqual(shown, expected)
}

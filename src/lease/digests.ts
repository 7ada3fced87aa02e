import { createHash, timingSafeEqual } from 'node:crypto'

/** SHA-256 of a lease in hex: enough to check one by, and worth nothing to whoever reads it. */
export function leaseDigest(lease: string): string {
  return createHash('sha256').update(lease).digest('hex')
}

/**
 * Whether a text is one of the leases with these digests, without a key and without asking anybody. Compared by hash: the time of
 * comparing texts tells how much of them is right.
 */
export function leaseCheck(digests: readonly string[]): (text: string) => boolean {
  const known = digests.map((digest) => Buffer.from(digest, 'hex'))
  return (text) => {
    const own = createHash('sha256').update(text).digest()
    return known.filter((digest) => digest.length === own.length && timingSafeEqual(digest, own)).length > 0
  }
}

import { scrypt } from 'node:crypto'
import { promisify } from 'node:util'
import * as z from 'zod'
import { LIMITS } from './limits.ts'
import type { Secret } from './secret.ts'

/** RFC 7914: what it costs to make a key of a passphrase, and the salt, in hex. N is a power of two: memory is 1 KiB × N. */
export const Stretching = z.strictObject({
  n: z
    .int()
    .min(2 ** 14)
    .max(LIMITS.scryptCostMax)
    .refine((n) => Number.isInteger(Math.log2(n))),
  r: z.literal(8),
  p: z.int().min(1).max(4),
  salt: z.string().regex(/^[0-9a-f]{32}$/),
})
export type Stretching = z.infer<typeof Stretching>

/** RFC 7914 §2: 128 × r. */
const BYTES_OF_N = 1024
const SALT_BYTES = 16
export const STRETCHED_BYTES = 32

const scryptOf = promisify<string, Buffer, number, { N: number; r: number; p: number; maxmem: number }, Buffer>(scrypt)

/** How a passphrase that is chosen now is stretched. */
export function newStretching(system: { random(bytes: number): Buffer }): Stretching {
  return { n: LIMITS.scryptBytes / BYTES_OF_N, r: 8, p: 1, salt: system.random(SALT_BYTES).toString('hex') }
}

/** The key, `STRETCHED_BYTES` that the caller wipes. */
export function stretch(passphrase: Secret, { n, r, p, salt }: Stretching): Promise<Buffer> {
  return scryptOf(passphraseText(passphrase), Buffer.from(salt, 'hex'), STRETCHED_BYTES, { N: n, r, p, maxmem: 256 * n * r })
}

/** One spelling of the same characters (RFC 8265 §4.2): keyboards differ in how they compose them. */
export function passphraseText(passphrase: Secret): string {
  return passphrase.reveal().normalize('NFC')
}

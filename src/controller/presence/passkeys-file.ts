import * as z from 'zod'
import { LIMITS } from '../../kernel/limits.ts'

const Encoded = z
  .string()
  .min(1)
  .max(LIMITS.passkeyTextCharsMax)
  .regex(/^[A-Za-z0-9_-]+$/)

const PasskeyRecord = z.strictObject({
  id: Encoded,
  /** COSE, base64url. */
  publicKey: Encoded,
  /** As it was last seen; 0 as long as the authenticator does not count. */
  counter: z.int().min(0),
  name: z.string().min(1).max(LIMITS.passkeyNameCharsMax),
  createdAt: z.int().min(0),
  usedAt: z.int().min(0).exactOptional(),
  transports: z.array(z.string().max(32)).max(8),
  isCopied: z.boolean(),
})
export type PasskeyRecord = z.infer<typeof PasskeyRecord>

/** `passkeys.json`: the public halves, and nothing that has to be kept from anybody. Who can change it decides who the operator is. */
export const PasskeysRecord = z.strictObject({
  version: z.literal(1),
  /** What authenticators know this operator by. */
  user: Encoded,
  passkeys: z
    .array(PasskeyRecord)
    .max(LIMITS.passkeysMax)
    .refine((all) => new Set(all.map(({ id }) => id)).size === all.length, 'one is there twice'),
})
export type PasskeysRecord = z.infer<typeof PasskeysRecord>

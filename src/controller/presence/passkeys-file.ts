import * as z from 'zod'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { readPrivateFile } from '../../kernel/private-file.ts'

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

/** What is in the file, `undefined` when there is none, or in words why it cannot be used. */
export async function readPasskeysFile(path: string): Promise<PasskeysRecord | undefined | { readonly problem: string }> {
  try {
    const text = await readPrivateFile(path, LIMITS.passkeysFileBytesMax)
    if (text === undefined) return undefined
    const { data } = PasskeysRecord.safeParse(parse(text))
    return data ?? { problem: 'it is cut off or damaged' }
  } catch (error) {
    // Words of our own have no code.
    const code = codeOf(error)
    return { problem: code === 'Error' && error instanceof Error ? error.message : `it cannot be read (${code})` }
  }
}

export function passkeysFileText(record: PasskeysRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

import * as z from 'zod'
import { Stretching } from '../../kernel/stretch.ts'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { readPrivateFile } from '../../kernel/private-file.ts'

/** `approver.json`: what the password is looked at with, and how often it was wrong since it was right. */
export const PasswordRecord = z.strictObject({
  version: z.literal(1),
  ...Stretching.shape,
  key: z.string().regex(/^[0-9a-f]{64}$/),
  /** Attempts since the last right one, each counted before it was looked at. */
  failures: z.int().min(0),
  /** Of the last attempt, milliseconds since 1970. */
  attemptAt: z.int().min(0),
})
export type PasswordRecord = z.infer<typeof PasswordRecord>

/** What is in the file, `undefined` when there is none, or in words why it cannot be used. */
export async function readPasswordFile(path: string): Promise<PasswordRecord | undefined | { readonly problem: string }> {
  try {
    const text = await readPrivateFile(path, LIMITS.approverFileBytesMax)
    if (text === undefined) return undefined
    const { data } = PasswordRecord.safeParse(parse(text))
    return data ?? { problem: 'it is cut off or damaged' }
  } catch (error) {
    // Words of our own have no code.
    const code = codeOf(error)
    return { problem: code === 'Error' && error instanceof Error ? error.message : `it cannot be read (${code})` }
  }
}

export function passwordFileText(record: PasswordRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

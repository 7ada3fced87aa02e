import type * as z from 'zod'
import { codeOf } from '../../kernel/errors.ts'
import { readPrivateFile } from '../../kernel/private-file.ts'

/** What is in a file of JSON that only the operator may write: `undefined` when there is none, or in words why it cannot be used. */
export async function readRecordFile<T>(
  path: string,
  schema: z.ZodType<T>,
  bytesMax: number,
): Promise<T | undefined | { readonly problem: string }> {
  try {
    const text = await readPrivateFile(path, bytesMax)
    if (text === undefined) return undefined
    const { data } = schema.safeParse(parse(text))
    return data ?? { problem: 'it is cut off or damaged' }
  } catch (error) {
    // Words of our own have no code.
    const code = codeOf(error)
    return { problem: code === 'Error' && error instanceof Error ? error.message : `it cannot be read (${code})` }
  }
}

export function recordFileText(record: object): string {
  return `${JSON.stringify(record, null, 2)}\n`
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

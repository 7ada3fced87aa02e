import { createReadStream, existsSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'

/** A value in the spellings in which something might keep it. */
export function spellingsOf(value: string): Buffer[] {
  const bytes = Buffer.from(value)
  const base64 = [0, 1, 2].map((shift) => {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64')
    // Without the characters that other bytes before and after would change.
    return encoded.slice(Math.ceil((shift * 8) / 6), -4)
  })
  return [value, bytes.toString('hex'), ...base64, ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))].map((text) =>
    Buffer.from(text),
  )
}

/** Whether one of the spellings is in the stream, also across its chunks. */
export async function isInStream(stream: Readable, needles: readonly Buffer[]): Promise<boolean> {
  const overlap = Math.max(...needles.map(({ length }) => length)) - 1
  let rest = Buffer.alloc(0)
  let isFound = false
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const whole = Buffer.concat([rest, chunk])
    isFound ||= needles.some((needle) => whole.includes(needle))
    rest = whole.subarray(Math.max(0, whole.length - overlap))
  }
  return isFound
}

/** The files below a folder that have one of the spellings in them. */
export async function filesWith(folder: string, needles: readonly Buffer[]): Promise<string[]> {
  const found: string[] = []
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const path = join(folder, name)
    const stat = lstatSync(path)
    if (stat.isDirectory()) found.push(...(await filesWith(path, needles)))
    else if (stat.isFile() && (await isInStream(createReadStream(path), needles))) found.push(path)
  }
  return found
}

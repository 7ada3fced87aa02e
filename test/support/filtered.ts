import { createTerminalFilter, type TerminalFilter } from '../../src/controller/terminal/filter.ts'
import type { Profile } from '../../src/controller/terminal/sequences.ts'

/** Bytes in chunks of the sizes, in turn. Each chunk is a copy that is written over afterwards. */
export function* inChunks(bytes: Uint8Array, sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes.length === 0 ? bytes.length : (sizes[i % sizes.length] ?? 1)
    const chunk = Buffer.from(bytes.subarray(at, at + size))
    yield chunk
    chunk.fill(0x5a)
    at += size
  }
}

/** What a filter makes of bytes. */
export function filtered(
  bytes: Uint8Array | string,
  {
    sizes = [],
    profile = 'screen',
    filter = createTerminalFilter(profile),
  }: { sizes?: readonly number[]; profile?: Profile; filter?: TerminalFilter } = {},
): Buffer {
  const parts: Buffer[] = []
  for (const chunk of inChunks(Buffer.from(bytes as string), sizes))
    parts.push(...filter.push(chunk).map((part) => Buffer.from(part.bytes)))
  parts.push(...filter.end().map((part) => Buffer.from(part.bytes)))
  return Buffer.concat(parts)
}

import type { FileHandle } from 'node:fs/promises'
import { LIMITS } from '../kernel/limits.ts'
import { readLine, type Link } from './read-line.ts'

const NEWLINE = 0x0a

/** The last whole line of a file; undefined when there is none, or it does not hold. */
export async function lastLink(handle: FileHandle): Promise<Link | undefined> {
  const { size } = await handle.stat()
  const buffer = Buffer.alloc(Math.min(size, 2 * LIMITS.auditLineBytesMax))
  await handle.read(buffer, 0, buffer.length, size - buffer.length)
  const end = buffer.lastIndexOf(NEWLINE)
  if (end === -1) return undefined
  const link = readLine(buffer.subarray(end === 0 ? 0 : buffer.lastIndexOf(NEWLINE, end - 1) + 1, end))
  return typeof link === 'string' ? undefined : link
}

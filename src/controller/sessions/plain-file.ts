import { constants } from 'node:fs'
import { lstat, open, readlink } from 'node:fs/promises'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'

/** What stands at a path of the workspace, read without following, waiting or running anything. */
export type PlainFile =
  | { readonly kind: 'none' }
  | { readonly kind: 'folder' }
  | { readonly kind: 'file'; readonly content: Buffer; readonly isExecutable: boolean }
  | { readonly kind: 'link'; readonly to: string }
  /** A FIFO, socket or device, more than `LIMITS.gitFileBytesMax`, or not readable. */
  | { readonly kind: 'unread'; readonly why: string }

/**
 * Reads a file that an agent may have made. A symbolic link is told, not followed; a FIFO or device in the file's place neither
 * hangs nor is read, also when it takes that place meanwhile.
 */
export async function readPlainFile(path: Buffer | string): Promise<PlainFile> {
  try {
    const stat = await lstat(path)
    if (stat.isSymbolicLink()) return { kind: 'link', to: await readlink(path) }
    if (stat.isDirectory()) return { kind: 'folder' }
    if (!stat.isFile()) return { kind: 'unread', why: 'it is no regular file' }
    return await readOpened(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return { kind: 'none' }
    return { kind: 'unread', why: `it cannot be read (${codeOf(error)})` }
  }
}

async function readOpened(path: Buffer | string): Promise<PlainFile> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const stat = await file.stat()
  if (!stat.isFile()) return { kind: 'unread', why: 'it is no regular file' }
  const content = Buffer.alloc(LIMITS.gitFileBytesMax + 1)
  let length = 0
  while (length < content.length) {
    const { bytesRead } = await file.read(content, length, content.length - length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  if (length > LIMITS.gitFileBytesMax) return { kind: 'unread', why: `it has more than ${LIMITS.gitFileBytesMax} bytes` }
  return { kind: 'file', content: Buffer.from(content.subarray(0, length)), isExecutable: (stat.mode & 0o111) !== 0 }
}

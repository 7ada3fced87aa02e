import { createHash } from 'node:crypto'
import { constants, type BigIntStats } from 'node:fs'
import { lstat, open, realpath, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { FileIdentity } from '../../wire/question.ts'
import { isWithin } from '../sessions/real-path.ts'
import { isSameFile } from './place.ts'

/** A program or script that was opened once: what is hashed, checked again and executed is this descriptor. */
export type CodeFile = AsyncDisposable & {
  /** As it was named, absolute; `identity.path` is what that leads to. */
  readonly named: string
  readonly identity: FileIdentity
  /**
   * Whether only the operator and the system could have written it: neither the file nor a folder above it lets anybody else write,
   * and none of them is an agent's. What is not settled is never executed in place: it could be written while it runs.
   */
  readonly isSettled: boolean
  /** The first bytes. */
  readonly head: Buffer
  readonly handle: FileHandle
  /** When it was last changed, in nanoseconds of the kernel's clock, which no program sets. */
  readonly changedNs: bigint
}

const CHUNK_BYTES = 256 * 1024

/**
 * Opens and hashes a file of code.
 * @param agents real paths of folders that an agent may write
 * @throws command_invalid when it is no regular file, cannot be read, or is larger than `LIMITS.commandCodeBytesMax`
 */
export async function openCode(named: string, agents: readonly string[]): Promise<CodeFile> {
  const refuse = (why: string, cause?: unknown): SallyportError =>
    new SallyportError('command_invalid', `${JSON.stringify(named)} ${why}`, cause === undefined ? {} : { cause })
  let handle: FileHandle | undefined
  try {
    const path = await realpath(named)
    // Non-blocking: a FIFO in its place must not hold anything up.
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const before = await handle.stat({ bigint: true })
    if (!before.isFile()) throw refuse('is not a regular file')
    if (before.size > LIMITS.commandCodeBytesMax) throw refuse(`is larger than ${LIMITS.commandCodeBytesMax} bytes`)
    const sha256 = await hashOf(handle)
    const head = Buffer.alloc(LIMITS.commandShebangBytesMax)
    const { bytesRead } = await handle.read(head, 0, head.length, 0)
    const identity = { path, device: String(before.dev), inode: String(before.ino), sizeBytes: Number(before.size), sha256 }
    const isSettled = !agents.some((agent) => isWithin(agent, path)) && (await isOursAlone(path, before))
    const opened = handle
    return {
      named,
      identity,
      isSettled,
      head: head.subarray(0, bytesRead),
      handle,
      changedNs: before.ctimeNs,
      [Symbol.asyncDispose]: () => opened.close(),
    }
  } catch (error) {
    await handle?.close()
    if (error instanceof SallyportError) throw error
    throw refuse(`cannot be read (${codeOf(error)})`, error)
  }
}

/**
 * Why the file is not any more what it was when it was opened, or `undefined`. Its name must lead to the same inode, and that must have the same
 * bytes. Those of a settled file are read again only if the kernel says that it changed since: size and time of modification can be set by
 * whoever writes, the time of change cannot.
 */
export async function changeOfCode(code: CodeFile): Promise<string | undefined> {
  const moved = await changeOfName(code)
  if (moved !== undefined) return moved
  const { ctimeNs } = await code.handle.stat({ bigint: true })
  if (code.isSettled && ctimeNs === code.changedNs) return undefined
  return (await hashOf(code.handle)) === code.identity.sha256 ? undefined : `${code.identity.path} was written since`
}

/** Why the name does not lead to the same file any more, or `undefined`. */
export async function changeOfName({ named, identity }: CodeFile): Promise<string | undefined> {
  try {
    const path = await realpath(named)
    if (path !== identity.path) return `${named} leads to ${path} and not to ${identity.path} any more`
    const now = await lstat(path, { bigint: true })
    if (!isSameFile(now, identity)) return `${path} is another file than before`
    return Number(now.size) === identity.sizeBytes ? undefined : `${path} was written since`
  } catch (error) {
    return `${named} cannot be looked at any more (${codeOf(error)})`
  }
}

/**
 * Copies the bytes of the descriptor into a new file, which only we can write, and says whether they are those that were hashed. What
 * is executed is then what was compared: the original may be written while the copy runs.
 * @param mode of the copy
 */
export async function copyCode(code: CodeFile, path: string, mode: number): Promise<boolean> {
  await using copy = await open(path, 'wx', mode)
  const hash = createHash('sha256')
  for await (const chunk of chunksOf(code.handle, code.identity.sizeBytes)) {
    hash.update(chunk)
    await copy.writeFile(chunk)
  }
  await copy.chmod(mode)
  return hash.digest('hex') === code.identity.sha256
}

async function hashOf(handle: FileHandle): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of chunksOf(handle, LIMITS.commandCodeBytesMax)) hash.update(chunk)
  return hash.digest('hex')
}

/** One byte more than `bytesMax` at most: a file that grows is another file. */
async function* chunksOf(handle: FileHandle, bytesMax: number): AsyncGenerator<Buffer, void, undefined> {
  const buffer = Buffer.alloc(CHUNK_BYTES)
  for (let at = 0; at <= bytesMax;) {
    const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, bytesMax + 1 - at), at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

async function isOursAlone(path: string, file: BigIntStats): Promise<boolean> {
  if (!isClosedTo(file)) return false
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (!isClosedTo(await lstat(folder, { bigint: true }))) return false
    if (folder === '/') return true
  }
}

/** Belongs to the system or to us, and nobody else may write it. */
function isClosedTo({ uid, mode }: BigIntStats): boolean {
  return (uid === 0n || uid === BigInt(process.geteuid?.() ?? 0)) && (mode & 0o022n) === 0n
}

import { constants, link, mkdir, open, rename, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { codeOf } from './errors.ts'
import type { System } from './system.ts'

/**
 * The text of a file that only its owner, who we are, can read and write. `undefined` when it does not exist. The reason,
 * thrown as an `Error`, when it is a link, no regular file, another user's, open to others, larger than `bytesMax` or not UTF-8.
 */
export async function readPrivateFile(path: string, bytesMax: number): Promise<string | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  try {
    // Non-blocking: a FIFO in its place must not hold the start up.
    await using handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    const stat = await handle.stat()
    if (!stat.isFile()) throw new Error('it is not a regular file')
    if (stat.uid !== process.geteuid?.()) throw new Error(`it belongs to user ${stat.uid}`)
    if ((stat.mode & 0o077) !== 0) throw new Error(`its mode ${(stat.mode & 0o777).toString(8)} lets others in: chmod go-rwx`)
    if (stat.size > bytesMax) throw new Error(`it is larger than ${bytesMax} bytes`)
    const bytes = await handle.readFile()
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    } catch {
      throw new Error('it is not UTF-8')
    } finally {
      bytes.fill(0)
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (codeOf(error) === 'ELOOP') throw new Error('it is a symbolic link', { cause: error })
    throw error
  }
}

/** Writes a file (0600) that does not exist yet, whole or not at all. False when there is one: it is never replaced. */
export async function createPrivateFile(path: string, content: string, system: Pick<System, 'random'>): Promise<boolean> {
  const temporary = await writeBeside(path, content, system)
  try {
    // link(2) never replaces: of two that start at once the first wins, and both read what it made.
    await link(temporary, path)
    await syncFolder(dirname(path))
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  } finally {
    await unlink(temporary).catch(() => undefined)
  }
}

/** Writes a file (0600) so that readers find the old one or the new one, whole, also after a crash. */
export async function replacePrivateFile(path: string, content: string, system: Pick<System, 'random'>): Promise<void> {
  await using staged = await stagePrivateFile(path, content, system)
  await staged.put()
}

/** A file that is on the disk and not in its place. Disposed of before `put`, nothing is left of it. */
export type StagedFile = AsyncDisposable & {
  /** From here on readers find it, whole, also after a crash. */
  put(): Promise<void>
}

/** The first half of `replacePrivateFile`: what a full disk can refuse is done when this resolves. */
export async function stagePrivateFile(path: string, content: string, system: Pick<System, 'random'>): Promise<StagedFile> {
  let temporary: string | undefined = await writeBeside(path, content, system)
  return {
    async put() {
      if (temporary === undefined) return
      await rename(temporary, path)
      temporary = undefined
      await syncFolder(dirname(path))
    },
    async [Symbol.asyncDispose]() {
      if (temporary !== undefined) await unlink(temporary).catch(() => undefined)
    },
  }
}

async function writeBeside(path: string, content: string, system: Pick<System, 'random'>): Promise<string> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const temporary = join(dirname(path), `.${basename(path)}.${system.random(8).toString('hex')}.tmp`)
  await using handle = await open(temporary, 'wx', 0o600)
  try {
    await handle.writeFile(content)
    await handle.sync()
    return temporary
  } catch (error) {
    await unlink(temporary).catch(() => undefined)
    throw error
  }
}

/** Removes a file, for good also after a crash. */
export async function removePrivateFile(path: string): Promise<void> {
  await unlink(path)
  await syncFolder(dirname(path))
}

/** Names in a folder outlive a crash of the machine only once the folder itself is on the disk. */
async function syncFolder(dir: string): Promise<void> {
  await using handle = await open(dir, constants.O_RDONLY)
  await handle.sync()
}

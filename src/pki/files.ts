import { constants, mkdir, open, readdir, rename, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'

/** Others that start in the same moment. */
const SWEEPS_MAX = 8
const TEMPORARY = /^ca\.(?:key|crt)\.[0-9a-f]{16}\.tmp$/

/**
 * The text of a file that only we may have written, and only we may read where `forbiddenMode` says so. `undefined`
 * when it does not exist. The reason, thrown as an `Error`, when it is not such a file.
 */
export async function readOwnFile(path: string, forbiddenMode: number): Promise<string | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  try {
    await using handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    const { uid, mode, size } = await statRegular(handle)
    if (uid !== process.geteuid?.()) throw new Error(`it belongs to user ${uid}`)
    if ((mode & forbiddenMode) !== 0) throw new Error(`its mode ${(mode & 0o777).toString(8)} lets others in: chmod go-rwx`)
    if (size > LIMITS.caFileBytesMax) throw new Error(`it is larger than ${LIMITS.caFileBytesMax} bytes`)
    return await handle.readFile('utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (codeOf(error) === 'ELOOP') throw new Error('it is a symbolic link', { cause: error })
    throw error
  }
}

/** Makes the folder (mode 0700) where it does not exist. The reason, thrown, when others could put files into it. */
export async function ownFolder(dir: string): Promise<void> {
  await mkdir(dir, { mode: 0o700 }).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error
  })
  const found = await stat(dir)
  if (!found.isDirectory()) throw new Error('it is not a folder')
  if (found.uid !== process.geteuid?.() && found.uid !== 0) throw new Error(`the folder belongs to user ${found.uid}`)
  if ((found.mode & 0o022) !== 0) throw new Error('others may write into the folder: chmod go-w')
}

/** Writes a file so that readers find the old one or the new one, whole. */
export async function replaceFile(dir: string, name: string, content: string | Buffer, system: Pick<System, 'random'>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const temporary = await writeTemporary(dir, name, content, 0o644, system)
    try {
      await rename(temporary, join(dir, name))
      return await syncFolder(dir)
    } catch (error) {
      await unlink(temporary).catch(() => undefined)
      // Another that starts right now swept it up. Each sweeps once.
      if (codeOf(error) !== 'ENOENT' || attempt === SWEEPS_MAX) throw error
    }
  }
}

/** A new file beside `name`, on the disk, under a name that `sweepTemporaries` knows. Gives back its path. */
export async function writeTemporary(
  dir: string,
  name: string,
  content: string | Buffer,
  mode: number,
  system: Pick<System, 'random'>,
): Promise<string> {
  const path = join(dir, `${name}.${system.random(8).toString('hex')}.tmp`)
  await using handle = await open(path, 'wx', mode)
  try {
    // The umask may have taken away what readers of a public file need.
    await handle.chmod(mode)
    await handle.writeFile(content)
    await handle.sync()
    return path
  } catch (error) {
    await unlink(path).catch(() => undefined)
    throw error
  }
}

/** Removes what a crash left of `writeTemporary`. */
export async function sweepTemporaries(dir: string): Promise<void> {
  for (const name of await readdir(dir)) {
    if (TEMPORARY.test(name)) await unlink(join(dir, name)).catch(() => undefined)
  }
}

/** Names in a folder outlive a crash of the machine only once the folder itself is on the disk. */
export async function syncFolder(dir: string): Promise<void> {
  await using handle = await open(dir, constants.O_RDONLY)
  await handle.sync()
}

async function statRegular(handle: Awaited<ReturnType<typeof open>>) {
  const found = await handle.stat()
  if (!found.isFile()) throw new Error('it is not a regular file')
  return found
}

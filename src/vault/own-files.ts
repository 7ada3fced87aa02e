import { closeSync, constants, fstatSync, lstatSync, openSync, readSync } from 'node:fs'
import { link, mkdir, open, stat, unlink, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { strangerAbove } from '../kernel/folders-above.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'

/** Makes the folder (0700) where there is none. @throws vault_unsafe when others could look into it or change it */
export async function makeOwnFolder(folder: string): Promise<void> {
  refuseAbove(folder)
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new SallyportError('vault_write_failed', `the folder ${folder} could not be made (${codeOf(cause)})`, { cause })
  })
  await checkOwnFolder(folder)
}

/** Whoever may rename a folder above it puts another vault in its place. @throws vault_unsafe */
function refuseAbove(folder: string): void {
  const problem = strangerAbove(folder)
  if (problem !== undefined) throw unsafe(folder, problem, 'keep it below a folder of your own, or take the right away: chmod o-w, chown')
}

/** False when it does not exist. @throws vault_unsafe */
export async function checkOwnFolder(folder: string): Promise<boolean> {
  refuseAbove(folder)
  const found = await stat(folder).catch((cause: unknown) => {
    if (codeOf(cause) === 'ENOENT') return undefined
    throw unsafe(folder, `it cannot be looked at (${codeOf(cause)})`)
  })
  if (found === undefined) return false
  if (!found.isDirectory()) throw unsafe(folder, 'it is not a folder')
  if (found.uid !== process.geteuid?.()) throw unsafe(folder, `the folder belongs to user ${found.uid}`)
  if ((found.mode & 0o077) !== 0) throw unsafe(folder, `its mode ${octal(found.mode)} lets others in`, `chmod 700 ${folder}`)
  return true
}

/** What a file is, by name and without following a link. @throws vault_unsafe. `undefined` when it does not exist. */
export function checkOwnFile(path: string): { readonly dev: number; readonly ino: number; readonly size: number } | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return undefined
  checkStats(path, found)
  return found
}

/** Bytes of a small file that is ours alone; the buffer is the caller's to wipe. `undefined` when it does not exist. @throws vault_unsafe, vault_locked */
export function readOwnBytes(path: string): Buffer | undefined {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  let descriptor: number
  try {
    descriptor = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return undefined
    if (codeOf(cause) === 'ELOOP') throw unsafe(path, 'it is a symbolic link', 'name the file itself')
    throw new SallyportError('vault_locked', `${path} cannot be read (${codeOf(cause)})`, { cause })
  }
  try {
    const found = fstatSync(descriptor)
    checkStats(path, found)
    if (found.size > LIMITS.keyFileBytesMax)
      throw new SallyportError('vault_locked', `${path} has ${found.size} bytes, ${LIMITS.keyFileBytesMax} at most are read`)
    const bytes = Buffer.alloc(found.size)
    return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, 0))
  } finally {
    closeSync(descriptor)
  }
}

/** A passphrase from a file that is ours alone, without the newline at its end. @throws vault_unsafe, vault_locked */
export function readPassphraseFile(path: string): Secret {
  const bytes = readOwnBytes(path)
  if (bytes === undefined) throw new SallyportError('vault_locked', `the file with the passphrase, ${path}, does not exist`)
  const text = bytes.toString('utf8').replace(/\r?\n$/, '')
  bytes.fill(0)
  if (text === '') throw new SallyportError('vault_locked', `the file with the passphrase, ${path}, is empty`)
  return new Secret('passphrase', text)
}

/**
 * Makes a file (0600) that appears whole, on the disk, or not at all; false when there is one already, which stays as it is.
 * `write` gets the path of a temporary file beside it.
 */
export async function placeFile(path: string, system: Pick<System, 'random'>, write: (temporary: string) => void | Promise<void>) {
  const temporary = `${path}.${system.random(8).toString('hex')}.tmp`
  const handle = await open(temporary, 'wx', 0o600)
  try {
    await write(temporary)
    await handle.sync()
    // link(2) never replaces: of two that start at once the first wins.
    await link(temporary, path)
    await syncFolder(dirname(path))
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  } finally {
    await handle.close()
    await removeFile(temporary)
  }
}

async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
  })
}

/** Names in a folder outlive a crash of the machine only once the folder itself is on the disk. */
async function syncFolder(folder: string): Promise<void> {
  await using handle: FileHandle = await open(folder, constants.O_RDONLY)
  await handle.sync()
}

/** The key file of a vault that no other is named for. */
export function defaultKeyFile(file: string): string {
  return join(dirname(file), 'vault.key')
}

export function unsafe(path: string, problem: string, hint?: string): SallyportError {
  return new SallyportError('vault_unsafe', `${path}: ${problem}`, { hint: hint ?? 'keep it in a folder that is yours alone (0700)' })
}

function checkStats(path: string, found: { isFile(): boolean; isSymbolicLink(): boolean; uid: number; mode: number; nlink: number }): void {
  if (found.isSymbolicLink()) throw unsafe(path, 'it is a symbolic link', 'name the file itself')
  if (!found.isFile()) throw unsafe(path, 'it is not a regular file')
  if (found.uid !== process.geteuid?.()) throw unsafe(path, `it belongs to user ${found.uid}`)
  if ((found.mode & 0o077) !== 0) throw unsafe(path, `its mode ${octal(found.mode)} lets others in`, `chmod 600 ${path}`)
}

function octal(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0')
}

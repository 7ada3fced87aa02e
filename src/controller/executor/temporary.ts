import { createHash } from 'node:crypto'
import { lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { Place } from './place.ts'

/** Commands that use a folder now. */
const users = new Map<string, number>()

/**
 * The folder for temporary files of a workspace's commands: ours alone, and the same each time, so that equal commands are equal.
 * @throws config_invalid when somebody else made it
 */
export async function temporaryFolderOf(place: Place): Promise<string> {
  const name = place.environment['TMPDIR']
  const base = name !== undefined && isAbsolute(name) ? name : '/tmp'
  const own = join(base, `sallyport-${process.geteuid?.() ?? 0}`)
  const folder = join(own, createHash('sha256').update(place.home).update('\0').update(place.workspace).digest('hex').slice(0, 16))
  for (const path of [own, folder]) await makePrivate(path)
  return folder
}

/** Counts a command as a user of the folder. When the last one is disposed of, what they left in it goes. */
export async function useTemporary(folder: string): Promise<AsyncDisposable> {
  users.set(folder, (users.get(folder) ?? 0) + 1)
  await makePrivate(join(folder, '..'))
  await makePrivate(folder)
  return {
    async [Symbol.asyncDispose]() {
      const left = (users.get(folder) ?? 1) - 1
      if (left > 0) return void users.set(folder, left)
      users.delete(folder)
      const names = await readdir(folder).catch(() => [])
      // What a command made unremovable stays: it is the operator's own.
      if (!users.has(folder))
        await Promise.all(names.map((one) => rm(join(folder, one), { recursive: true, force: true }).catch(() => undefined)))
    },
  }
}

/** In a folder that everybody may write, a name that can be guessed may be there already: a link, or another user's. */
async function makePrivate(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    if (codeOf(error) !== 'EEXIST')
      throw new SallyportError('config_invalid', `the folder ${path} for temporary files cannot be made (${codeOf(error)})`, {
        cause: error,
      })
  }
  const stat = await lstat(path)
  if (stat.isDirectory() && stat.uid === process.geteuid?.() && (stat.mode & 0o077) === 0) return
  throw new SallyportError('config_invalid', `${path} is not a folder of this user alone`, {
    hint: 'remove it, or set TMPDIR of the daemon to a folder of its own',
  })
}

import { constants, type BigIntStats } from 'node:fs'
import { open, readlink, realpath, stat, type FileHandle } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { isWithin } from '../sessions/real-path.ts'

/** Where the commands of a session run. */
export type Place = {
  /** The session's workspace: a folder of the host. */
  readonly workspace: string
  /** What it is called in the container. */
  readonly inContainer: '/workspace'
  /** The operator's environment: of it PATH, HOME, LANG, LC_ALL, USER, LOGNAME, TMPDIR, TZ and SHELL are looked at. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** `$SALLYPORT_HOME`: a sandbox never has it, and output that is too long is kept in it. */
  readonly home: string
  /** Workspaces of other sessions: what lies in them is an agent's too. */
  readonly others?: readonly string[]
}

/** The folders that agents write, by their real paths where they are there. */
export function agentFolders({ workspace, others = [] }: Pick<Place, 'workspace' | 'others'>): Promise<string[]> {
  return Promise.all([workspace, ...others].map((folder) => realpath(folder).catch(() => folder)))
}

/** A folder that was opened once, and what it was then. */
export type HeldFolder = {
  readonly path: string
  readonly device: string
  readonly inode: string
  readonly handle: FileHandle
}

/**
 * The folder of the host that a folder of the container stands for, opened.
 * @param cwd absolute as in the container, or relative to the workspace
 * @throws command_invalid when it is no folder, or lies outside of the workspace once its links are resolved
 */
export async function openFolder(cwd: string, place: Place): Promise<HeldFolder> {
  const refuse = (why: string, cause?: unknown): SallyportError =>
    new SallyportError('command_invalid', `the folder ${JSON.stringify(cwd)} ${why}`, {
      hint: `name a folder of ${place.inContainer}`,
      ...(cause === undefined ? {} : { cause }),
    })
  if (cwd.includes('\0')) throw refuse('has a NUL in its name')
  const workspace = await realpath(place.workspace)
  const named = hostPath(cwd, place.workspace, place)
  if (named === undefined) throw refuse('is not in the workspace')
  try {
    const path = await realpath(named)
    if (!isWithin(workspace, path)) throw refuse('leads out of the workspace')
    const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    try {
      // A folder above it may have become a link since its path was resolved.
      const opened = await pathOfHandle(handle, path)
      if (opened !== path) throw refuse('was moved while it was looked at')
      const { dev, ino } = await handle.stat({ bigint: true })
      return { path, device: String(dev), inode: String(ino), handle }
    } catch (error) {
      await handle.close()
      throw error
    }
  } catch (error) {
    if (error instanceof SallyportError) throw error
    throw refuse(`cannot be opened (${codeOf(error)})`, error)
  }
}

/** Why the folder is not any more what it was, or `undefined`. */
export async function changeOfFolder(folder: HeldFolder): Promise<string | undefined> {
  try {
    const now = await stat(folder.path, { bigint: true })
    const same = isSameFile(now, folder) && (await realpath(folder.path)) === folder.path
    return same ? undefined : `the folder ${folder.path} is another one than before`
  } catch (error) {
    return `the folder ${folder.path} cannot be looked at any more (${codeOf(error)})`
  }
}

/**
 * The host's path of one that an agent says: its `/workspace` is the folder of the host, and what is relative is relative to `base`.
 * `undefined` for an absolute path of the container outside of it.
 */
export function hostPath(path: string, base: string, place: Pick<Place, 'workspace' | 'inContainer'>): string | undefined {
  if (!isAbsolute(path)) return resolve(base, path)
  const clean = resolve(path)
  if (clean === place.inContainer) return place.workspace
  if (clean.startsWith(`${place.inContainer}/`)) return join(place.workspace, clean.slice(place.inContainer.length))
  return isWithin(place.workspace, clean) ? clean : undefined
}

export function isSameFile(found: BigIntStats, identity: { readonly device: string; readonly inode: string }): boolean {
  return String(found.dev) === identity.device && String(found.ino) === identity.inode
}

async function pathOfHandle(handle: FileHandle, otherwise: string): Promise<string> {
  return process.platform === 'linux' ? readlink(`/proc/self/fd/${handle.fd}`) : realpath(otherwise)
}

import { lstat, readdir, readFile, realpath } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'

/** What must not become a workspace, as it must not be an agent's. */
export type GuardedPlaces = {
  /** `$SALLYPORT_HOME`. */
  readonly home: string
  /** The operator's own home folder. */
  readonly userHome: string
  /** Folders of the container engine, as its data root. */
  readonly engineFolders: readonly string[]
  /** Uids that the operator trusts with the path: its own, and the agent's. */
  readonly owners: readonly number[]
}

/** Of the system, or of container engines wherever they keep their state. */
const SYSTEM_FOLDERS = ['/bin', '/boot', '/dev', '/etc', '/lib', '/lib64', '/proc', '/run', '/sbin', '/sys', '/usr']
const ENGINE_FOLDERS = ['/var/lib/docker', '/var/lib/containerd', '/var/lib/containers', '/var/run']
const ENGINE_FOLDERS_AT_HOME = [
  '.docker',
  '.local/share/docker',
  '.local/share/containers',
  '.config/containers',
  '.colima',
  '.lima',
  '.orbstack',
  '.rd',
]

/**
 * I37: The real path of a workspace that an agent may be given.
 * @throws SallyportError workspace_refused when it is no folder, is or holds what the operator or the engine lives from, or when
 * somebody else could put another folder in its place.
 */
export async function checkWorkspacePlace(path: string, guarded: GuardedPlaces): Promise<string> {
  if (path.includes('\0')) throw refused(JSON.stringify(path), 'has a NUL in its name')
  const real = await realFolder(path)
  // oxlint-disable-next-line no-control-regex -- names that a terminal or a table of mounts would not show as they are
  if (/[\x00-\x1f\x7f\ufffd]/.test(real)) throw refused(JSON.stringify(real), 'has a character in its path that no mount can name')
  await refuseGuarded(real, guarded)
  await refuseReplaceable(real, guarded.owners)
  return real
}

/** Mount points below a folder, from the kernel's table; none where there is no such table (macOS). */
export async function mountsBelow(folder: string): Promise<string[]> {
  const table = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '')
  const points = table
    .split('\n')
    .map((line) =>
      (line.split(' ')[4] ?? '').replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))),
    )
  return [...new Set(points.filter((point) => point.startsWith(`${folder}/`)))].toSorted()
}

/** Whether the file system takes names that differ in case for one: tried with what is there, nothing is written. */
export async function isCaseBlind(folder: string): Promise<boolean> {
  const names = [...(await readdir(folder)).map((name) => join(folder, name)), folder]
  for (const path of names) {
    const name = path.slice(path.lastIndexOf('/') + 1)
    const swapped = name === name.toLowerCase() ? name.toUpperCase() : name.toLowerCase()
    if (swapped === name) continue
    const [one, other] = await Promise.all([statOf(path), statOf(join(dirname(path), swapped))])
    return one !== undefined && other !== undefined && one.ino === other.ino && one.dev === other.dev
  }
  return false
}

/** Whether `path` is `folder` or lies in it. */
export function isWithin(path: string, folder: string): boolean {
  const inside = relative(folder, path)
  return inside === '' || (inside !== '..' && !inside.startsWith(`..${sep}`))
}

async function refuseGuarded(real: string, { home, userHome, engineFolders }: GuardedPlaces): Promise<void> {
  const [ownHome, ownUserHome] = await Promise.all([nearestReal(home), nearestReal(userHome)])
  if (real === '/') throw refused('/', 'is the whole host')
  if (isWithin(ownUserHome, real)) throw refused(real, 'is or holds your home folder, with keys and settings of everything')
  if (isWithin(ownHome, real) || isWithin(real, ownHome))
    throw refused(real, `is, holds or lies in ${ownHome}, where Sallyport keeps its state`)
  const atHome = ENGINE_FOLDERS_AT_HOME.map((name) => join(ownUserHome, name))
  const engine = await Promise.all([...ENGINE_FOLDERS, ...engineFolders, ...atHome].map(nearestReal))
  const held = engine.find((folder) => isWithin(folder, real) || isWithin(real, folder))
  if (held !== undefined) throw refused(real, `is, holds or lies in ${held}, which belongs to the container engine`)
  const system = SYSTEM_FOLDERS.find((folder) => isWithin(real, folder))
  if (system !== undefined) throw refused(real, `lies in ${system}, which belongs to the system`)
}

/**
 * Whoever may write in a folder on the way can put another one there between this look and the engine's. Sticky folders, as
 * /tmp, let only the owner do so; a group of the user's own (its number is the user's) has nobody else in it.
 */
async function refuseReplaceable(real: string, owners: readonly number[]): Promise<void> {
  for (let folder = real; ; folder = dirname(folder)) {
    const stat = await lstat(folder)
    if (stat.isSymbolicLink()) throw refused(real, `is reached through ${folder}, which has become a symbolic link`)
    if (stat.uid !== 0 && !owners.includes(stat.uid)) throw refused(real, `can be replaced by uid ${stat.uid}, whom ${folder} belongs to`)
    const isSticky = (stat.mode & 0o1000) !== 0 && folder !== real
    const isOthers = (stat.mode & 0o002) !== 0
    const isGroups = (stat.mode & 0o020) !== 0 && stat.gid !== 0 && !owners.includes(stat.gid)
    if (!isSticky && (isOthers || isGroups)) {
      throw refused(
        real,
        `can be replaced by others: ${isOthers ? 'everybody' : `group ${stat.gid}`} may write in ${folder}`,
        `chmod ${isOthers ? 'o' : 'g'}-w ${folder}`,
      )
    }
    if (folder === '/') return
  }
}

async function realFolder(path: string): Promise<string> {
  try {
    const real = await realpath(path)
    if ((await lstat(real)).isDirectory()) return real
  } catch (cause) {
    if (codeOf(cause) === 'ELOOP') throw refused(path, 'is a symbolic link that leads nowhere')
    if (codeOf(cause) !== 'ENOENT' && codeOf(cause) !== 'ENOTDIR') throw cause
    throw refused(path, 'does not exist')
  }
  throw refused(path, 'is not a folder')
}

/** The real path of what exists of a path, with the rest appended. */
async function nearestReal(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch {
    return dirname(path) === path ? path : join(await nearestReal(dirname(path)), path.slice(path.lastIndexOf('/') + 1))
  }
}

async function statOf(path: string): Promise<{ ino: number; dev: number } | undefined> {
  return await lstat(path).catch(() => undefined)
}

function refused(path: string, why: string, hint = 'name the folder of one project'): SallyportError {
  return new SallyportError('workspace_refused', `the workspace ${path} ${why}`, { hint })
}

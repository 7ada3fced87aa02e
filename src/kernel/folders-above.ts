import { lstatSync, readlinkSync } from 'node:fs'
import { dirname, isAbsolute, join } from 'node:path'

const STICKY = 0o1000
const WORLD_WRITABLE = 0o002
/** As the kernel has it: path_resolution(7). */
const LINKS_MAX = 40

/**
 * Why somebody else could put another folder in this one's place, whatever its own mode: a folder or link on the way to it that belongs to
 * another user, or that anybody may rename things in. `undefined` when nobody but root and we can. The folder itself need not exist; its
 * owner and mode are not looked at, but where it is a link that is one on the way.
 */
export function strangerAbove(folder: string): string | undefined {
  // As the kernel goes it: behind a link, ".." is another folder than the words say.
  let names = namesOf(isAbsolute(folder) ? folder : `${process.cwd()}/${folder}`)
  let links = 0
  for (let current = '/'; ;) {
    const [name, ...rest] = names
    if (name === undefined) return undefined
    const problem = problemOf(current)
    if (problem !== undefined) return problem
    names = rest
    if (name === '..') {
      current = dirname(current)
      continue
    }
    const next = join(current, name)
    const found = lstatSync(next, { throwIfNoEntry: false })
    if (found === undefined) return undefined
    if (!found.isSymbolicLink()) {
      current = next
      continue
    }
    const stranger = ownerProblem(next, found.uid)
    if (stranger !== undefined) return stranger
    links += 1
    if (links > LINKS_MAX) return `the way to it has more than ${LINKS_MAX} links`
    const target = readlinkSync(next)
    names = [...namesOf(target), ...rest]
    if (isAbsolute(target)) current = '/'
  }
}

function namesOf(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.')
}

/** Of a folder in which a name is looked up. */
function problemOf(folder: string): string | undefined {
  const { uid, mode } = lstatSync(folder)
  const isOpen = (mode & WORLD_WRITABLE) !== 0 && (mode & STICKY) === 0
  return (
    ownerProblem(folder, uid) ??
    (isOpen ? `everybody may write in ${folder} (mode ${(mode & 0o7777).toString(8)}, no sticky bit)` : undefined)
  )
}

function ownerProblem(path: string, uid: number): string | undefined {
  return uid === 0 || uid === (process.geteuid?.() ?? 0) ? undefined : `${path} belongs to uid ${uid}`
}

import { lstatSync, realpathSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { codeOf } from './errors.ts'

const STICKY = 0o1000
const WORLD_WRITABLE = 0o002

/**
 * Why somebody else could put another folder in this one's place, whatever its own mode: a folder or link on the way to it that belongs to
 * another user, or that anybody may rename things in. `undefined` when nobody but root and we can. The folder itself need not exist and is
 * not looked at.
 */
export function strangerAbove(folder: string): string | undefined {
  // Both the path as it was written and where it leads: a link on the way is as good as a folder.
  return problemAbove(resolve(folder)) ?? problemAbove(realOf(resolve(folder)))
}

function problemAbove(path: string): string | undefined {
  const own = process.geteuid?.() ?? 0
  for (let above = dirname(path); ; above = dirname(above)) {
    const found = lstatSync(above, { throwIfNoEntry: false })
    if (found !== undefined) {
      if (found.uid !== 0 && found.uid !== own) return `${above} belongs to uid ${found.uid}`
      const isOpen = (found.mode & WORLD_WRITABLE) !== 0 && (found.mode & STICKY) === 0
      if (found.isDirectory() && isOpen) return `everybody may write in ${above} (mode ${(found.mode & 0o7777).toString(8)}, no sticky bit)`
    }
    if (above === dirname(above)) return undefined
  }
}

/** Of what there is of a path. */
function realOf(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || path === dirname(path)) throw error
    return resolve(realOf(dirname(path)), path.slice(dirname(path).length).replace(/^\//, ''))
  }
}

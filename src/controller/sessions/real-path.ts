import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'

const LINKS_MAX = 40

/**
 * The real path of what exists of a path, with the rest appended: it may be reached through a symbolic link, also through one to
 * what does not exist yet.
 * @throws SallyportError config_invalid for links that lead in a circle
 */
export function realpathOfNearest(path: string, links = 0): string {
  if (existsSync(path)) return realpathSync(path)
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
  if (isLink && links >= LINKS_MAX) throw new SallyportError('config_invalid', `"${path}" is a symbolic link that leads nowhere`)
  if (isLink) return realpathOfNearest(resolve(dirname(path), readlinkSync(path)), links + 1)
  return join(realpathOfNearest(dirname(path), links), basename(path))
}

/** Whether `path` is `folder` or lies below it. Both are real paths. */
export function isWithin(folder: string, path: string): boolean {
  const below = relative(folder, path)
  return below !== '..' && !below.startsWith(`..${sep}`)
}

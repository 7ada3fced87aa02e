import { lstat, realpath } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { bind, coverOf, writeMounted } from './workspace-covers.ts'
import { isWithin } from './workspace-place.ts'
import { addMount, note, type Plan } from './workspace-plan.ts'
import { isText, joinPath, pathText, type Survey } from './workspace-survey.ts'
import { findNames } from './workspace-names.ts'

/**
 * Covers what `filesystem.hide` names: a file by an empty one, a folder by an empty one in memory, both read-only. A symbolic link
 * is followed, as what it leads to is what is to be hidden; other names of the same file (hard links) are covered too.
 * @returns what is hidden, relative to the workspace.
 * @throws SallyportError workspace_refused when something of it can't be covered.
 */
export async function coverHidden(plan: Plan, survey: Survey): Promise<string[]> {
  const first = survey.unread.find(({ why }) => !why.startsWith('it cannot be read'))
  if (first !== undefined) {
    throw new SallyportError(
      'workspace_refused',
      `${join(plan.root, pathText(first.path))}: ${first.why}, so it is not known what to hide`,
      {
        hint: 'open a smaller folder, or leave filesystem.hide out',
      },
    )
  }
  const hidden = new Set<string>()
  const shared: { dev: number; ino: number; nlink: number; name: string }[] = []
  for (const { path } of survey.hidden) {
    const inside = await targetOf(plan, path)
    if (inside === undefined) continue
    const stat = await lstat(join(plan.root, inside))
    if (!stat.isDirectory() && stat.nlink > 1) shared.push({ dev: stat.dev, ino: stat.ino, nlink: stat.nlink, name: inside })
    hidden.add(inside)
  }
  for (const inside of await otherNames(plan, shared)) hidden.add(inside)
  const topmost = [...hidden].filter((path) => ![...hidden].some((other) => other !== path && isWithin(path, other)))
  if (topmost.length === 0) return []
  if (topmost.length > LIMITS.workspaceMountsMax) {
    throw new SallyportError('workspace_refused', `filesystem.hide names ${topmost.length} files and folders of ${plan.root}`, {
      hint: `${LIMITS.workspaceMountsMax} mounts are the most: name folders rather than files`,
    })
  }
  const empty = await writeMounted(plan.filesDir, 'empty', '', plan.owner)
  for (const inside of topmost) {
    const [path, target] = [join(plan.root, inside), join(plan.target, inside)]
    const isFolder = (await lstat(path)).isDirectory()
    addMount(
      plan,
      isFolder ? { kind: 'tmpfs', target, readOnly: true, bytesMax: 4096, mode: 0o555, uid: 0, gid: 0 } : bind(empty, target, true),
    )
    plan.covers.push(await coverOf(path))
  }
  return topmost
}

/** Where the file really is, relative to the workspace; undefined outside of it, where the agent can't follow. */
async function targetOf(plan: Plan, path: Buffer): Promise<string | undefined> {
  if (!isText(path)) {
    throw new SallyportError(
      'workspace_refused',
      `filesystem.hide names ${pathText(path)}, which is no UTF-8: no mount can be made over it`,
      {
        hint: 'rename it, or hide the folder that it is in',
      },
    )
  }
  const real = await realpath(joinPath(plan.root, path), { encoding: 'buffer' }).catch(() => undefined)
  if (real === undefined) return undefined
  const inside = relative(plan.root, real.toString())
  if (!isText(real) || inside === '' || (inside !== '.git' && isWithin(inside, '.git'))) {
    throw new SallyportError(
      'workspace_refused',
      `filesystem.hide names ${shown(pathText(path))}, a link that leads to ${shown(pathText(real))}`,
      {
        hint: 'that can not be hidden: remove the link, or the pattern',
      },
    )
  }
  return isWithin(real.toString(), plan.root) ? inside : undefined
}

async function otherNames(plan: Plan, shared: readonly { dev: number; ino: number; nlink: number; name: string }[]): Promise<string[]> {
  if (shared.length === 0) return []
  const found = await findNames(plan.root, shared)
  for (const path of found) {
    if (!isText(path)) {
      throw new SallyportError('workspace_refused', `${pathText(path)} is another name of a hidden file, and is no UTF-8`, {
        hint: 'remove it',
      })
    }
    const name = path.toString()
    if (shared.some((file) => file.name === name)) continue
    note(
      plan,
      name,
      'hidden',
      'another name (a hard link) of a file that filesystem.hide names',
      'it is the same file, so it is hidden too',
    )
  }
  return found.map(String)
}

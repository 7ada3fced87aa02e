import { lstat, readdir } from 'node:fs/promises'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { joinPath, kindOf, pathText } from './workspace-survey.ts'

/**
 * Every name in a workspace of the given files, also within `.git`, as paths relative to it.
 * @throws SallyportError workspace_refused when there is more than `LIMITS.surveyEntriesMax`, or a folder that can't be read.
 */
export async function findNames(root: string, files: readonly { readonly dev: number; readonly ino: number }[]): Promise<Buffer[]> {
  const wanted = new Set(files.map(({ dev, ino }) => `${dev}:${ino}`))
  const found: Buffer[] = []
  const folders: Buffer[] = [Buffer.alloc(0)]
  let seen = 0
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const entries = await readdir(joinPath(root, folder), { encoding: 'buffer', withFileTypes: true }).catch(() => [])
    seen += entries.length
    if (seen > LIMITS.surveyEntriesMax) {
      throw new SallyportError(
        'workspace_refused',
        `${pathText(folder)}: there is more than can be looked through for other names of hidden files`,
        {
          hint: 'open a smaller folder, or replace hard links by copies',
        },
      )
    }
    for (const entry of entries) {
      const path = joinPath(folder, entry.name)
      const kind = kindOf(entry)
      if (kind === 'folder') folders.push(path)
      if (kind !== 'file') continue
      const stat = await lstat(joinPath(root, path)).catch(() => undefined)
      if (stat !== undefined && wanted.has(`${stat.dev}:${stat.ino}`)) found.push(path)
    }
  }
  return found
}

import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')

/** Paths of all files that belong to the project: tracked, or new and not ignored. */
export function projectFiles(): string[] {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
  return listed
    .split('\0')
    .filter((file) => file !== '' && existsSync(join(ROOT, file)))
    .toSorted()
}

export function readProject(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

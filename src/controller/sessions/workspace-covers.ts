import { constants, watch } from 'node:fs'
import { chown, lstat, mkdir, open, realpath, rm, rmdir, utimes, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Owner } from './agent-files.ts'
import type { Finding } from './git-scan.ts'

/** One mount of a workspace. All are private to the container; the order is that in which they go over each other. */
export type WorkspaceMount =
  | {
      readonly kind: 'bind'
      readonly source: string
      readonly target: string
      readonly readOnly: boolean
      readonly propagation: 'rprivate'
    }
  | {
      readonly kind: 'tmpfs'
      readonly target: string
      readonly readOnly: boolean
      readonly bytesMax: number
      readonly mode: number
      readonly uid: number
      readonly gid: number
    }

/** What is mounted over on the host, as it was then. The kernel takes a cover away when another file is put in its place there. */
export type Cover = { readonly path: string; readonly dev: number; readonly ino: number; readonly bornMs: number }

/** What was made so that it could be covered: to be removed with the session. Plain data. */
export type Made = { readonly path: string; readonly kind: 'file' | 'folder'; readonly content: string }

export function bind(source: string, target: string, readOnly: boolean): WorkspaceMount {
  return { kind: 'bind', source, target, readOnly, propagation: 'rprivate' }
}

/** Makes what is not there yet, for the owner of the folder that it is in. undefined where something is there. */
export async function makeMissing(path: string, kind: 'file' | 'folder', content: string): Promise<Made | undefined> {
  try {
    if (kind === 'folder') await mkdir(path)
    else await writeFile(path, content, { flag: 'wx', mode: 0o644 })
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return undefined
    throw error
  }
  const { uid, gid } = await lstat(dirname(path))
  if (process.getuid?.() === 0) await chown(path, uid, gid)
  return { path, kind, content }
}

/**
 * Removes what was made, where it is as it was made and `inUse` doesn't name it: to remove a file on the host takes away the cover
 * that another session has over it. An agent may have put anything in its place, or a link in that of a folder on the way.
 */
export async function removeMade(made: readonly Made[], inUse: readonly string[]): Promise<void> {
  for (const { path, kind, content } of made.toReversed()) {
    if (inUse.includes(path)) continue
    try {
      const folder = dirname(path)
      if ((await realpath(folder)) !== folder) continue
      if (kind === 'folder') await rmdir(path)
      else if (await holds(path, content)) await rm(path)
    } catch (error) {
      if (!['ENOENT', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST', 'EBUSY', 'ELOOP'].includes(codeOf(error))) throw error
    }
  }
}

/** Whether it is a file of that content. No more of it is read than that has. */
async function holds(path: string, content: string): Promise<boolean> {
  await using handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const stat = await handle.stat()
  const expected = Buffer.from(content)
  if (!stat.isFile() || stat.size !== expected.length) return false
  const found = Buffer.alloc(expected.length)
  const { bytesRead } = await handle.read(found, 0, found.length, 0)
  return bytesRead === found.length && found.equals(expected)
}

/**
 * A file of ours that is mounted into the container: everybody may read it, nobody writes it. It is the agent's, as git asks of a
 * `.git` file, and its time lies ahead, as git rewrites an old `gitdir`.
 */
export async function writeMounted(folder: string, name: string, content: string, owner: Owner): Promise<string> {
  const path = join(folder, name)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await rm(path, { force: true })
  await writeFile(path, content, { flag: 'wx', mode: 0o444 })
  const ahead = new Date('2100-01-01T00:00:00Z')
  await utimes(path, ahead, ahead)
  if (process.getuid?.() === 0) await chown(path, owner.uid, owner.gid)
  return path
}

export async function coverOf(path: string): Promise<Cover> {
  const { dev, ino, birthtimeMs } = await lstat(path)
  return { path, dev, ino, bornMs: birthtimeMs }
}

/** Covers that no longer hold, as another file took the place of the covered one: `git config` on the host does that, and most editors. */
export async function lostCovers(covers: readonly Cover[]): Promise<Finding[]> {
  const lost: Finding[] = []
  for (const { path, dev, ino, bornMs } of covers) {
    const stat = await lstat(path).catch(() => undefined)
    // A number is given again when its file is gone; the time is not.
    if (stat?.dev === dev && stat.ino === ino && stat.birthtimeMs === bornMs) continue
    lost.push({
      path,
      kind: 'cover_lost',
      what: `${stat === undefined ? 'was removed' : 'was replaced'} on the host, which takes its cover away`,
      why: 'the agent can read and write it since, and what it writes there git may run',
    })
  }
  return lost
}

/**
 * Calls `onLost` when covers are lost already, and as soon as one is, each time with all of them. Where the system tells nothing (file
 * systems of others, its limit of watches, a folder that was replaced) they are looked at by time.
 * @returns what ends the watch.
 */
export function watchCovers(covers: readonly Cover[], onLost: (lost: Finding[]) => void): Disposable {
  const names = new Map<string, Set<string>>()
  for (const { path } of covers) names.set(dirname(path), (names.get(dirname(path)) ?? new Set()).add(basename(path)))
  let isOver = covers.length === 0
  const look = async (): Promise<void> => {
    const lost = await lostCovers(covers)
    if (lost.length > 0 && !isOver) onLost(lost)
  }
  const watchers = [...names].flatMap(([folder, inIt]) => {
    try {
      const onChange = (_event: string, name: string | null): void => void ((name === null || inIt.has(name)) && look())
      return [watch(folder, { persistent: false }, onChange).on('error', () => void look())]
    } catch {
      return []
    }
  })
  const looking = isOver ? undefined : setInterval(() => void look(), LIMITS.coversLookMs).unref()
  void look()
  return {
    [Symbol.dispose]: () => {
      isOver = true
      clearInterval(looking)
      for (const watcher of watchers) watcher.close()
    },
  }
}

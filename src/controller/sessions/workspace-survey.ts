import { lstat, readdir } from 'node:fs/promises'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import { isHidden, type HidePattern } from './hide-patterns.ts'

export type EntryKind = 'file' | 'folder' | 'link' | 'other'

/** A path below the workspace. File systems have names that are no UTF-8, and an agent may make them: bytes, not text. */
export type FoundPath = { readonly path: Buffer; readonly kind: EntryKind }

/** What in a workspace matters to git and to `filesystem.hide`. Paths are relative to it. */
export type Survey = {
  readonly root: string
  /** Every `.git` but what lies inside of another one. */
  readonly gitNames: readonly FoundPath[]
  /** Folders that git takes for a repository although they are not called `.git`. Empty path: the workspace itself. */
  readonly bare: readonly Buffer[]
  readonly attributes: readonly Buffer[]
  readonly submodules: readonly Buffer[]
  /** What `hide` names, the topmost only: nothing below a hidden folder. */
  readonly hidden: readonly FoundPath[]
  /** What could not be looked at, and why. */
  readonly unread: readonly { readonly path: Buffer; readonly why: string }[]
}

type Growing = { -readonly [K in keyof Omit<Survey, 'root'>]: Survey[K][number][] } & { folders: Buffer[]; seen: number; isOver: boolean }

const SEPARATOR = Buffer.from('/')
const WALKERS = 8
/** Code points that HFS+ leaves out of a name: `.g\u200cit` is `.git` there (CVE-2014-9390). */
const IGNORED_BY_HFS = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g

/**
 * Looks through a workspace once: names and kinds only, no file is opened, no link followed. Bounded by
 * `LIMITS.surveyEntriesMax` and `surveyMs`; what is left then is in `unread`.
 */
export async function surveyWorkspace(
  root: string,
  hide: readonly HidePattern[],
  system: Pick<System, 'elapsed'>,
  isCaseBlind = false,
): Promise<Survey> {
  const found: Growing = {
    gitNames: [],
    bare: [],
    attributes: [],
    submodules: [],
    hidden: [],
    unread: [],
    folders: [Buffer.alloc(0)],
    seen: 0,
    isOver: false,
  }
  const deadline = system.elapsed() + LIMITS.surveyMs
  const rootBytes = Buffer.from(root)
  const look = { hide, isCaseBlind, rootBytes }
  const walk = async (): Promise<void> => {
    for (let folder = found.folders.pop(); folder !== undefined; folder = found.folders.pop()) {
      if (found.seen > LIMITS.surveyEntriesMax || system.elapsed() > deadline) {
        return endEarly(found, folder, 'there is more than can be looked through in time')
      }
      await lookInto(folder, found, look)
    }
  }
  while (found.folders.length > 0) await Promise.all(Array.from({ length: WALKERS }, walk))
  const { folders: _, seen: _seen, isOver: _isOver, ...survey } = found
  return { root, ...survey }
}

/** Whether git, on one system or another, takes this name for `.git`. */
export function isGitName(name: string): boolean {
  return name.replace(IGNORED_BY_HFS, '').toLowerCase() === '.git'
}

export function joinPath(folder: Buffer | string, name: Buffer | string): Buffer {
  const [head, tail] = [Buffer.from(folder), Buffer.from(name)]
  if (head.length === 0) return tail
  return tail.length === 0 ? head : Buffer.concat([head, SEPARATOR, tail])
}

/** A path as text, each path another text. Bytes that are no UTF-8 are written `\xNN`. */
export function pathText(path: Buffer): string {
  if (isText(path)) return path.toString().replaceAll('\\', '\\\\')
  return path.toString('latin1').replace(/[\\\x80-\xff]/g, (char) => `\\x${char.charCodeAt(0).toString(16)}`)
}

/** Whether a path is UTF-8, as what names a mount must be. */
export function isText(path: Buffer): boolean {
  return Buffer.from(path.toString()).equals(path)
}

type Look = { readonly hide: readonly HidePattern[]; readonly isCaseBlind: boolean; readonly rootBytes: Buffer }

async function lookInto(folder: Buffer, found: Growing, { hide, isCaseBlind, rootBytes }: Look): Promise<void> {
  const entries = await listFolder(folder, joinPath(rootBytes, folder), found)
  found.seen += entries.length + 1
  const isWithinHidden = found.hidden.some(({ path }) => isBelow(folder, path))
  const add = (list: 'gitNames' | 'hidden', path: Buffer, kind: EntryKind) => {
    if (found[list].length < LIMITS.surveyFoundMax) found[list].push({ path, kind })
    else if (!found.isOver) endEarly(found, path, 'there are too many')
  }
  const names = new Set(entries.map(({ name }) => name.toLowerCase()))
  if (names.has('head') && (names.has('commondir') || (names.has('objects') && names.has('refs')))) found.bare.push(folder)
  for (const { bytes, name, kind } of entries) {
    const path = joinPath(folder, bytes)
    if (hide.length > 0 && !isWithinHidden && isHidden(hide, path.toString().split('/'), kind, isCaseBlind)) add('hidden', path, kind)
    if (isGitName(name)) add('gitNames', path, kind)
    else if (name === '.gitattributes') found.attributes.push(path)
    else if (name === '.gitmodules') found.submodules.push(path)
    else if (kind === 'folder' && !found.isOver) found.folders.push(path)
  }
}

function endEarly(found: Growing, path: Buffer, why: string): void {
  if (!found.isOver) found.unread.push({ path, why })
  found.isOver = true
  found.folders.length = 0
}

type Listed = { readonly bytes: Buffer; readonly name: string; readonly kind: EntryKind }

async function listFolder(folder: Buffer, full: Buffer, found: Growing): Promise<Listed[]> {
  try {
    // A folder's size grows with its names: one with millions of them would be read into memory whole.
    const { size } = await lstat(full)
    if (size > LIMITS.surveyFolderBytesMax) {
      found.unread.push({ path: folder, why: 'it has too many entries' })
      return []
    }
    const entries = await readdir(full, { encoding: 'buffer', withFileTypes: true })
    return entries.map((entry) => ({ bytes: entry.name, name: entry.name.toString(), kind: kindOf(entry) }))
  } catch (error) {
    // Gone since its parent was read: nothing is there to look at.
    if (codeOf(error) !== 'ENOENT') found.unread.push({ path: folder, why: `it cannot be read (${codeOf(error)})` })
    return []
  }
}

/** What a stat or an entry of a folder is. */
export function kindOf(entry: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }): EntryKind {
  if (entry.isSymbolicLink()) return 'link'
  if (entry.isDirectory()) return 'folder'
  return entry.isFile() ? 'file' : 'other'
}

function isBelow(path: Buffer, folder: Buffer): boolean {
  if (!path.subarray(0, folder.length).equals(folder)) return false
  return path.length === folder.length || path[folder.length] === SEPARATOR[0]
}

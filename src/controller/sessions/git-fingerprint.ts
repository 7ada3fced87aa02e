import { createHash } from 'node:crypto'
import { readdir, realpath } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, resolve } from 'node:path'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import { isHarmless, programOf, readGitSettings, type GitSetting } from './git-settings.ts'
import { readPlainFile } from './plain-file.ts'
import { joinPath, kindOf, pathText, type EntryKind } from './workspace-survey.ts'

export type GitEntryKind =
  | 'repository'
  | 'bare_repository'
  | 'git_file'
  | 'git_link'
  | 'broken_repository'
  | 'config'
  | 'common_folder'
  | 'hook'
  | 'program'
  | 'attributes'
  | 'submodules'
  | 'alternates'
  | 'worktree'
  | 'unfinished'
  | 'hidden'
  | 'unread'

/** One thing that decides what git executes. Plain data; no value of a setting is in it, only digests. */
export type GitEntry = {
  readonly kind: GitEntryKind
  /** Relative to the workspace, or absolute for a repository elsewhere. */
  readonly path: string
  readonly digest: string
  /** Of a config or an attributes file: each weighty setting, and the digest of its values. */
  readonly settings?: readonly (readonly [key: string, digest: string])[]
}

/** What a scan has seen so far, and what it may still read. */
export type Collected = {
  readonly root: string
  readonly entries: GitEntry[]
  readonly seen: Set<string>
  filesLeft: number
  bytesLeft: number
  readonly deadline: number
  readonly system: Pick<System, 'elapsed'>
}

export function startCollecting(root: string, system: Pick<System, 'elapsed'>): Collected {
  return {
    root,
    entries: [],
    seen: new Set(),
    filesLeft: LIMITS.scanFilesMax,
    bytesLeft: LIMITS.scanBytesMax,
    deadline: system.elapsed() + LIMITS.scanMs,
    system,
  }
}

/** Attributes that choose a program by name. Drivers that git has itself are none of the operator's. */
const CHOOSING = /(?<=\s)(filter|diff|merge)=(\S+)/g
const BUILT_IN =
  /^(?:merge=(?:text|binary|union)|diff=(?:ada|bash|bibtex|cpp|csharp|css|dts|elixir|fortran|fountain|golang|html|ini|java|kotlin|markdown|matlab|objc|pascal|perl|php|python|ruby|rust|scheme|tex))$/
const INCLUDES_DEEP_MAX = 10
const MODULES_DEEP_MAX = 12

/**
 * Adds what decides what git runs in one repository: its own folder `folder` (`.git`), with the modules and worktrees in it.
 * @param top where its files are, which relative settings begin at.
 */
export async function addRepository(folder: Buffer, top: Buffer, collected: Collected, deep = 0): Promise<void> {
  const id = folder.toString('latin1')
  if (collected.seen.has(id) || isSpent(folder, collected)) return
  collected.seen.add(id)
  await addSoundness(folder, collected)
  for (const name of ['config', 'config.worktree']) await addConfig(joinPath(folder, name), { folder, top }, collected, 0)
  await addFile('common_folder', joinPath(folder, 'commondir'), collected, (text) => (text.trim() === '.' ? '' : text))
  await addHooks(joinPath(folder, 'hooks'), collected)
  await addAttributes(joinPath(folder, 'info/attributes'), collected)
  for (const name of ['alternates', 'http-alternates']) await addFile('alternates', joinPath(folder, `objects/info/${name}`), collected)
  for (const name of ['rebase-merge', 'rebase-apply', 'sequencer', 'BISECT_START']) await addUnfinished(joinPath(folder, name), collected)
  for (const { path, kind } of await listed(joinPath(folder, 'worktrees'), collected)) {
    add('worktree', path, kind, collected)
    if (kind === 'folder' && deep < MODULES_DEEP_MAX) await addRepository(path, top, collected, deep + 1)
  }
  await addModules(joinPath(folder, 'modules'), top, collected, deep)
}

/** The text of a `.git` file: the folder that it names, absolute. undefined where git would refuse it. */
export function gitFolderNamedBy(content: Buffer, parent: Buffer): Buffer | undefined {
  const text = content.toString('latin1').replace(/[\r\n]+$/, '')
  if (!text.startsWith('gitdir: ') || text.length > 4096) return undefined
  const named = text.slice('gitdir: '.length)
  return named === '' ? undefined : Buffer.from(resolve('/', parent.toString('latin1'), named), 'latin1')
}

/** Adds a plain file by the digest of what `kept` leaves of it; nothing where that is empty. */
export async function addFile(
  kind: GitEntryKind,
  path: Buffer,
  collected: Collected,
  kept: (text: string) => string = (text) => text,
): Promise<Buffer | undefined> {
  const content = await readInto(kind, path, collected)
  if (content === undefined) return undefined
  const text = kept(content.toString('latin1'))
  if (text !== '') add(kind, path, text, collected)
  return content
}

/** Adds the programs that attributes choose by name. */
export async function addAttributes(path: Buffer, collected: Collected): Promise<void> {
  const content = await readInto('attributes', path, collected)
  if (content === undefined) return
  const chosen = [...content.toString('latin1').matchAll(CHOOSING)].map(([choice]) => choice).filter((choice) => !BUILT_IN.test(choice))
  collected.entries.push({
    kind: 'attributes',
    path: textOf(path, collected),
    digest: '',
    settings: [...new Set(chosen)].toSorted().map((choice) => [choice, '']),
  })
}

/** Adds one entry; `content` goes in as a digest. */
export function add(kind: GitEntryKind, path: Buffer, content: string, collected: Collected): void {
  collected.entries.push({ kind, path: textOf(path, collected), digest: digestOf(content) })
}

/** The real path where it lies in the workspace, undefined elsewhere: nothing outside is read. */
export async function insideOf(path: Buffer, root: string): Promise<Buffer | undefined> {
  try {
    const real = await realpath(path, { encoding: 'buffer' })
    const base = Buffer.from(`${await realpath(root)}/`)
    return real.subarray(0, base.length).equals(base) ? real : undefined
  } catch {
    return undefined
  }
}

/** git passes over a repository without a HEAD, objects or refs, and looks for one in the folder around it, and above. */
async function addSoundness(folder: Buffer, collected: Collected): Promise<void> {
  const head = await readPlainFile(joinPath(folder, 'HEAD'))
  // Also a link is one to git.
  const isHead = head.kind === 'link' || (head.kind === 'file' && /^(?:ref: *refs\/|[0-9a-f]{40})/.test(head.content.toString('latin1')))
  const common = await readPlainFile(joinPath(folder, 'commondir'))
  const isElsewhere = common.kind === 'file' && common.content.toString().trim() !== '.'
  const parts = await Promise.all(['objects', 'refs'].map(async (name) => (await readPlainFile(joinPath(folder, name))).kind))
  const isWhole = isElsewhere || parts.every((kind) => kind === 'folder' || kind === 'link')
  if (!isHead || !isWhole) add('broken_repository', folder, '', collected)
}

type Place = { readonly folder: Buffer; readonly top: Buffer }

async function addConfig(path: Buffer, place: Place, collected: Collected, deep: number): Promise<void> {
  const content = await readInto('config', path, collected)
  if (content === undefined) return
  const settings = readGitSettings(content.toString())
  if (settings === undefined) return add('config', path, content.toString('latin1'), collected)
  collected.entries.push({ kind: 'config', path: textOf(path, collected), digest: '', settings: weighed(settings) })
  for (const setting of settings) await addNamed(setting, dirname(path.toString()), place, collected, deep)
}

/** What a setting names, where that is a file of the workspace: other configs, folders of hooks, programs. */
async function addNamed(setting: GitSetting, configFolder: string, place: Place, collected: Collected, deep: number): Promise<void> {
  const named = async (value: string, base: string): Promise<Buffer | undefined> =>
    await insideOf(Buffer.from(resolve(base, value.replace(/^~(?=\/)/, homedir()))), collected.root)
  if (/^include(?:if\..+)?\.path$/s.test(setting.key) && deep < INCLUDES_DEEP_MAX) {
    const path = await named(setting.value, configFolder)
    if (path !== undefined) await addConfig(path, place, collected, deep + 1)
  }
  if (setting.key === 'core.hookspath') {
    const path = await named(setting.value, place.top.toString())
    if (path !== undefined) await addHooks(path, collected)
  }
  const program = programOf(setting)
  if (program === undefined) return
  const path = await named(program, place.top.toString())
  if (path !== undefined) await addFile('program', path, collected)
}

function weighed(settings: readonly GitSetting[]): [string, string][] {
  const values = new Map<string, string[]>()
  for (const setting of settings) {
    if (!isHarmless(setting)) values.set(setting.key, [...(values.get(setting.key) ?? []), setting.value])
  }
  return [...values].map(([key, all]) => [key, digestOf(all.join('\0'))])
}

async function addHooks(folder: Buffer, collected: Collected): Promise<void> {
  for (const { path, kind } of await listed(folder, collected)) {
    if (path.toString('latin1').endsWith('.sample')) continue
    const file = kind === 'file' ? await readPlainFile(path) : undefined
    if (file?.kind === 'file') {
      charge(file.content.length, collected)
      add('hook', path, `${file.isExecutable}\0${file.content.toString('latin1')}`, collected)
    } else add('hook', path, kind, collected)
  }
}

/** Lines of a rebase that run programs are what matters of it; that it is there at all is told too. */
async function addUnfinished(path: Buffer, collected: Collected): Promise<void> {
  const found = await readPlainFile(path)
  if (found.kind === 'none') return
  const todo = await readPlainFile(joinPath(path, 'git-rebase-todo'))
  const lines = todo.kind === 'file' ? (todo.content.toString('latin1').match(/^\s*(?:exec|x)\s.*$/gm) ?? []) : []
  add('unfinished', path, lines.join('\n'), collected)
}

async function addModules(folder: Buffer, top: Buffer, collected: Collected, deep: number): Promise<void> {
  if (deep > MODULES_DEEP_MAX) return add('unread', folder, 'deep', collected)
  const entries = await listed(folder, collected)
  for (const { path, kind } of entries) {
    if (kind !== 'folder') continue
    const inner = await listed(path, collected)
    const isRepository = inner.some((entry) => /\/(?:HEAD|config|commondir)$/.test(entry.path.toString('latin1')))
    if (isRepository) {
      add('repository', path, '', collected)
      await addRepository(path, top, collected, deep + 1)
    } else await addModules(path, top, collected, deep + 1)
  }
}

async function listed(folder: Buffer, collected: Collected): Promise<{ path: Buffer; kind: EntryKind }[]> {
  const place = await readPlainFile(folder)
  if (place.kind === 'none') return []
  if (place.kind === 'link') add('git_link', folder, place.to, collected)
  if (place.kind !== 'folder' || isSpent(folder, collected)) return []
  try {
    const entries = await readdir(folder, { encoding: 'buffer', withFileTypes: true })
    charge(entries.length, collected)
    return entries.map((entry) => ({ path: joinPath(folder, entry.name), kind: kindOf(entry) }))
  } catch {
    add('unread', folder, '', collected)
    return []
  }
}

async function readInto(kind: GitEntryKind, path: Buffer, collected: Collected): Promise<Buffer | undefined> {
  if (isSpent(path, collected)) return undefined
  const file = await readPlainFile(path)
  if (file.kind === 'link') add(kind, path, `link ${file.to}`, collected)
  if (file.kind === 'folder' || file.kind === 'unread') add('unread', path, '', collected)
  if (file.kind !== 'file') return undefined
  charge(file.content.length, collected)
  return file.content
}

function charge(bytes: number, collected: Collected): void {
  collected.filesLeft--
  collected.bytesLeft -= bytes
}

/** Whether a bound of the scan is reached: the first time that is an entry of its own, so that nothing passes for looked at. */
function isSpent(path: Buffer, collected: Collected): boolean {
  const { filesLeft, bytesLeft, system, deadline } = collected
  if (filesLeft > 0 && bytesLeft > 0 && system.elapsed() <= deadline) return false
  if (!collected.seen.has('\0spent')) add('unread', path, 'bounds', collected)
  collected.seen.add('\0spent')
  return true
}

function textOf(path: Buffer, { root }: Collected): string {
  const base = Buffer.from(`${root}/`)
  if (path.equals(Buffer.from(root))) return '.'
  return path.subarray(0, base.length).equals(base) ? pathText(path.subarray(base.length)) : pathText(path)
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

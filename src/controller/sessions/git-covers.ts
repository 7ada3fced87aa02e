import { lstat, readdir, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { gitFolderNamedBy } from './git-fingerprint.ts'
import { readPlainFile } from './plain-file.ts'
import { bind, coverOf, makeMissing, writeMounted } from './workspace-covers.ts'
import { addMount, type Plan } from './workspace-plan.ts'

/**
 * What decides what git executes. Whoever writes these runs programs as the operator at the operator's next `git status`
 * (core.fsmonitor, hooks, filters by attributes, a config of a submodule).
 */
const COVERED_FOLDERS = ['hooks', 'info', 'modules']
const COVERED_FILES = ['config', 'config.worktree']
const MODULES_DEEP_MAX = 12

export type LinkedWorktree = { readonly gitFolder: string; readonly name: string; readonly own: string }

/**
 * I35: Covers one repository: `.git` is mounted onto itself first, without that the agent moves it away and makes one of its own.
 * What does not exist yet is made, because only what exists can be covered.
 * @throws SallyportError workspace_refused where a link stands in the place of what would be covered, which a mount would follow.
 */
export async function coverRepository(plan: Plan, folder: string, target: string): Promise<void> {
  for (const name of [...COVERED_FILES, 'commondir', ...COVERED_FOLDERS, 'worktrees']) await refuseOdd(join(folder, name), name)
  await refuseShared(folder)
  addMount(plan, bind(folder, target, false))
  for (const name of COVERED_FILES) await coverPart(plan, folder, target, name, 'file', '')
  // git reads the config of the folder that this file names. "." is what it means without one; an empty file breaks git.
  await coverPart(plan, folder, target, 'commondir', 'file', '.\n')
  for (const name of COVERED_FOLDERS) await coverPart(plan, folder, target, name, 'folder', '')
  await coverWorktrees(plan, folder, target)
}

/** Keeps a path inside of the workspace from being moved away: a folder that is mounted onto itself can't be, one that merely holds such a folder can. */
export function pinFolders(plan: Plan, inside: string): void {
  for (let path = inside; path !== '.' && path !== ''; path = dirname(path)) {
    addMount(plan, bind(join(plan.root, path), join(plan.target, path), false))
  }
}

/**
 * The repository of a linked worktree, when that repository says itself that this workspace is one of its worktrees. The `.git`
 * file alone proves nothing: an agent may have written it, and would get any repository of the host by it.
 * @returns why not, where it isn't so.
 */
export async function linkedWorktreeOf(root: string): Promise<LinkedWorktree | string> {
  const file = await readPlainFile(join(root, '.git'))
  const named = file.kind === 'file' ? gitFolderNamedBy(file.content, Buffer.from(root))?.toString() : undefined
  if (named === undefined) return 'its .git file names no folder'
  const own = await realpath(named).catch(() => undefined)
  if (own === undefined) return `its .git file names ${named}, which does not exist`
  const gitFolder = dirname(dirname(own))
  const [common, back] = await Promise.all([textOf(join(own, 'commondir')), textOf(join(own, 'gitdir'))])
  if (
    basename(dirname(own)) !== 'worktrees' ||
    common === undefined ||
    (await realpath(resolve(own, common)).catch(() => '')) !== gitFolder
  ) {
    return `its .git file names ${named}, which is no linked worktree`
  }
  const home = back === undefined ? '' : await realpath(dirname(resolve(own, back))).catch(() => '')
  if (home !== root || basename(back ?? '') !== '.git')
    return `the repository ${gitFolder} does not know it as its worktree ${basename(own)}`
  return { gitFolder, name: basename(own), own }
}

/**
 * Mounts the repository of a linked worktree beside the workspace, with files of ours that say where it is there: paths of the
 * host mean nothing in the container.
 */
export async function mountLinkedWorktree(
  plan: Plan,
  { gitFolder, name, own }: LinkedWorktree,
  mode: 'protected' | 'writable' | 'ro',
): Promise<void> {
  const target = `${plan.target}.git`
  const ownTarget = `${target}/worktrees/${name}`
  if (mode === 'protected') await coverRepository(plan, gitFolder, target)
  else addMount(plan, bind(gitFolder, target, mode === 'ro'))
  if (mode === 'protected') {
    // Its index and HEAD are the agent's; the others were covered whole.
    plan.mounts.set(ownTarget, bind(own, ownTarget, false))
    await coverPart(plan, own, ownTarget, 'config.worktree', 'file', '')
    await coverPart(plan, own, ownTarget, 'modules', 'folder', '')
  }
  const files = [
    { file: join(own, 'commondir'), at: `${ownTarget}/commondir`, name: 'git-commondir', content: '../..\n' },
    { file: join(own, 'gitdir'), at: `${ownTarget}/gitdir`, name: 'git-gitdir', content: `${plan.target}/.git\n` },
    { file: join(plan.root, '.git'), at: `${plan.target}/.git`, name: 'git-file', content: `gitdir: ${ownTarget}\n` },
  ]
  for (const { file, at, name: ours, content } of files) {
    addMount(plan, bind(await writeMounted(plan.filesDir, ours, content, plan.owner), at, true))
    plan.covers.push(await coverOf(file))
  }
}

/** A file of the workspace, read-only as it is. */
export async function coverFile(plan: Plan, inside: string): Promise<void> {
  const path = join(plan.root, inside)
  addMount(plan, bind(path, join(plan.target, inside), true))
  plan.covers.push(await coverOf(path))
}

async function coverPart(
  plan: Plan,
  folder: string,
  target: string,
  name: string,
  kind: 'file' | 'folder',
  content: string,
): Promise<void> {
  const path = join(folder, name)
  await refuseOdd(path, name)
  const made = await makeMissing(path, kind, content)
  const shared = plan.madeByOthers.find((other) => other.path === path)
  if (made !== undefined) plan.made.push(made)
  else if (shared !== undefined) plan.made.push(shared)
  addMount(plan, bind(path, join(target, name), true))
  plan.covers.push(await coverOf(path))
}

/** Linked worktrees elsewhere have their settings here: a `commondir` of the agent's would be read there. New ones can be made. */
async function coverWorktrees(plan: Plan, folder: string, target: string): Promise<void> {
  const names = await readdir(join(folder, 'worktrees')).catch(() => [])
  if (names.length === 0) return
  addMount(plan, bind(join(folder, 'worktrees'), join(target, 'worktrees'), false))
  for (const name of names) {
    const path = join(folder, 'worktrees', name)
    await refuseOdd(path, `worktrees/${name}`)
    addMount(plan, bind(path, join(target, 'worktrees', name), true))
  }
}

async function refuseOdd(path: string, name: string): Promise<void> {
  const stat = await lstat(path).catch(() => undefined)
  if (stat === undefined || stat.isDirectory() || (stat.isFile() && (COVERED_FILES.includes(name) || name === 'commondir'))) return
  const what = stat.isSymbolicLink() ? 'a symbolic link' : 'no folder'
  throw new SallyportError('workspace_refused', `${path} is ${what}: it can't be covered`, {
    hint: 'replace it by what it leads to, or say filesystem.git_metadata: writable',
  })
}

/** A file with a second name is written through that one, whatever covers the first. */
async function refuseShared(folder: string, deep = 0): Promise<void> {
  const files = [...COVERED_FILES, 'commondir'].map((name) => join(folder, name))
  for (const name of ['hooks', 'info']) files.push(...(await namesIn(join(folder, name))))
  for (const path of files) {
    const stat = await lstat(path).catch(() => undefined)
    if (stat?.isFile() !== true || stat.nlink === 1 || path.endsWith('.sample')) continue
    throw new SallyportError('workspace_refused', `${path} is a hard link: it has ${stat.nlink} names, and can be written by the others`, {
      hint: `cp -p ${basename(path)} new && mv new ${basename(path)} in its folder, or say filesystem.git_metadata: writable`,
    })
  }
  if (deep < MODULES_DEEP_MAX) for (const path of await namesIn(join(folder, 'modules'))) await refuseShared(path, deep + 1)
  if (deep === 0) return
  // The name of a module has slashes where its path has: its folder is further down.
  const isModule = (await lstat(join(folder, 'HEAD')).catch(() => undefined)) !== undefined
  if (!isModule && deep < MODULES_DEEP_MAX) for (const path of await namesIn(folder)) await refuseShared(path, deep + 1)
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(() => [])).map((name) => join(folder, name))
}

async function textOf(path: string): Promise<string | undefined> {
  const file = await readPlainFile(path)
  return file.kind === 'file' ? file.content.toString().replace(/[\r\n]+$/, '') : undefined
}

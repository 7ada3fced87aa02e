import { lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { isAbsolute, join, relative, resolve } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'

/** One mount over a part of the workspace. `path` is relative to it. */
export type GuardMount = { readonly path: string; readonly readOnly: boolean }

/**
 * What decides what git executes. Whoever writes these runs programs as the operator at the operator's next `git status`
 * (core.fsmonitor, hooks, filters by attributes, a config of a submodule).
 */
const FOLDERS = ['hooks', 'info', 'modules']
const FILES = ['config', 'config.worktree']

/**
 * The mounts that keep an agent from changing what git executes in this repository (not in one that it makes inside), and the environment that git needs with them. `.git` is
 * mounted onto itself first: without that the agent moves it away and makes one of its own. What does not exist yet is made,
 * because only what exists can be covered. A workspace that is no repository gives no mounts.
 * Nothing may run in the workspace meanwhile that could put links in the place of what is looked at here.
 * @throws SallyportError config_invalid when `.git` is a symbolic link, which mounts would follow, or names a folder of the
 * workspace, which would stay uncovered.
 */
export function guardGit(workspace: string): GuardMount[] {
  const git = join(workspace, '.git')
  const kind = kindOf(git)
  if (kind === 'none') return []
  if (kind === 'link') {
    throw new SallyportError('config_invalid', `${git} is a symbolic link`, {
      hint: 'make it a folder, or a file that names the folder (git worktree)',
    })
  }
  // A linked worktree: the file says where the repository is, and that is elsewhere.
  if (kind === 'file') {
    refuseInnerRepository(workspace, git)
    return [{ path: '.git', readOnly: true }]
  }
  for (const name of FOLDERS) if (kindOf(join(git, name)) === 'none') mkdirSync(join(git, name))
  for (const name of FILES) if (kindOf(join(git, name)) === 'none') writeFileSync(join(git, name), '')
  // git reads the config of the folder that this file names. "." is what it means without one; an empty file breaks git.
  if (kindOf(join(git, 'commondir')) === 'none') writeFileSync(join(git, 'commondir'), '.\n')
  const covered = [...FILES, 'commondir', ...FOLDERS]
  const link = covered.find((name) => kindOf(join(git, name)) === 'link')
  if (link !== undefined) {
    throw new SallyportError('config_invalid', `${join(git, link)} is a symbolic link`, { hint: 'replace it by what it leads to' })
  }
  return [{ path: '.git', readOnly: false }, ...covered.map((name) => ({ path: `.git/${name}`, readOnly: true }))]
}

/** Whether the workspace has git metadata to cover. */
export function hasGit(workspace: string): boolean {
  return kindOf(join(workspace, '.git')) !== 'none'
}

function refuseInnerRepository(workspace: string, git: string): void {
  const named = /^gitdir: (.+?)\s*$/m.exec(readFileSync(git, 'utf8'))?.[1]
  if (named === undefined) return
  const inner = relative(workspace, resolve(workspace, named))
  if (inner.startsWith('..') || isAbsolute(inner)) return
  throw new SallyportError(
    'config_invalid',
    `${git} names ${named}, a folder of the workspace: what git executes there would be the agent's`,
    {
      hint: 'make .git the folder itself, or keep the repository outside of the workspace (git worktree)',
    },
  )
}

/** git settings that would be written into the covered config: a branch's upstream, which git sets without being asked. */
export const GIT_ENVIRONMENT = {
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'branch.autoSetupMerge',
  GIT_CONFIG_VALUE_0: 'false',
} as const

function kindOf(path: string): 'none' | 'file' | 'folder' | 'link' {
  try {
    const stat = lstatSync(path)
    if (stat.isSymbolicLink()) return 'link'
    return stat.isDirectory() ? 'folder' : 'file'
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 'none'
    throw error
  }
}

import { dirname, join, relative } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { coverFile, coverRepository, linkedWorktreeOf, mountLinkedWorktree, pinFolders } from './git-covers.ts'
import { gitFolderNamedBy, insideOf } from './git-fingerprint.ts'
import { readPlainFile } from './plain-file.ts'
import { checkWorkspacePlace, isWithin, type GuardedPlaces } from './workspace-place.ts'
import { note, type Plan } from './workspace-plan.ts'
import { isText, pathText, type Survey } from './workspace-survey.ts'

/** What became of the repositories: those within, by their place in the workspace, and those elsewhere, by real path. */
export type GitPlan = { readonly repositories: readonly string[]; readonly gitFolders: readonly string[]; readonly isCovered: boolean }

/** Covers the repositories of a workspace, or, where they are not to be covered, makes them usable. */
export async function planGit(
  plan: Plan,
  survey: Survey,
  hidden: readonly string[],
  guarded: GuardedPlaces,
  mode: 'protected' | 'writable' | 'ro',
): Promise<GitPlan> {
  const isHidden = (path: string) => hidden.some((folder) => isWithin(path, folder))
  const found = survey.gitNames.filter(({ path }) => !isText(path) || !isHidden(path.toString()))
  const own = found.find(({ path }) => path.toString() === '.git')
  const gitFolders: string[] = []
  const repositories: string[] = []
  if (own?.kind === 'link' && mode === 'protected') {
    throw new SallyportError('workspace_refused', `${join(plan.root, '.git')} is a symbolic link`, {
      hint: 'make it a folder, or a file that names the folder (git worktree)',
    })
  }
  if (own?.kind === 'file') gitFolders.push(...(await planLinkedWorktree(plan, guarded, mode)))
  if (mode !== 'protected') return { repositories, gitFolders, isCovered: false }
  if (own?.kind === 'folder') {
    await coverRepository(plan, join(plan.root, '.git'), join(plan.target, '.git'))
    repositories.push('.git')
  }
  const isBare = survey.bare.some((path) => path.length === 0)
  if (isBare) await coverRepository(plan, plan.root, plan.target)
  const nested = [
    ...found.filter((entry) => entry !== own),
    ...survey.bare
      .filter((path) => path.length > 0 && !(isText(path) && isHidden(path.toString())))
      .map((path) => ({ path, kind: 'bare' as const })),
  ]
  for (const [index, { path, kind }] of nested.entries()) {
    if (index >= LIMITS.coveredRepositoriesMax || !isText(path))
      noteUncovered(plan, pathText(path), 'there are too many, or its name is no UTF-8')
    else repositories.push(...(await coverNested(plan, path.toString(), kind)))
  }
  return { repositories, gitFolders, isCovered: repositories.length + gitFolders.length > 0 || isBare }
}

/** A repository within, with all that leads to it: a folder could be moved away with what is mounted in it. */
async function coverNested(plan: Plan, path: string, kind: string): Promise<string[]> {
  const full = join(plan.root, path)
  try {
    if (kind === 'file') return await coverNestedFile(plan, path)
    if (kind !== 'folder' && kind !== 'bare') {
      noteUncovered(plan, path, 'it is a symbolic link or no file')
      return []
    }
    pinFolders(plan, kind === 'bare' ? path : dirname(path))
    await coverRepository(plan, full, join(plan.target, path))
    return [path]
  } catch (error) {
    if (!(error instanceof SallyportError) || plan.mounts.size > LIMITS.workspaceMountsMax) throw error
    noteUncovered(plan, path, error.message)
    return []
  }
}

async function coverNestedFile(plan: Plan, path: string): Promise<string[]> {
  const file = await readPlainFile(join(plan.root, path))
  const named = file.kind === 'file' ? gitFolderNamedBy(file.content, Buffer.from(join(plan.root, dirname(path)))) : undefined
  const inside = named === undefined ? undefined : await insideOf(named, plan.root)
  pinFolders(plan, dirname(path))
  await coverFile(plan, path)
  const folder = inside === undefined ? undefined : relative(plan.root, inside.toString())
  if (folder === undefined) {
    note(
      plan,
      path,
      'git_file',
      'a .git file that names a folder outside of the workspace',
      'git does not work there for the agent; it can not change the file',
    )
    return []
  }
  // Modules and worktrees of a covered repository are covered with it.
  if (isWithin(join(plan.root, folder), join(plan.root, '.git'))) return []
  pinFolders(plan, dirname(folder))
  await coverRepository(plan, join(plan.root, folder), join(plan.target, folder))
  return [folder]
}

async function planLinkedWorktree(plan: Plan, guarded: GuardedPlaces, mode: 'protected' | 'writable' | 'ro'): Promise<string[]> {
  const linked = await linkedWorktreeOf(plan.root)
  const useless = async (why: string): Promise<string[]> => {
    if (mode === 'protected') await coverFile(plan, '.git')
    note(plan, '.git', 'git_file', 'git does not work in the agent', why)
    return []
  }
  if (typeof linked === 'string') {
    // A folder of the workspace that the file names is covered like one of a nested repository.
    if (mode === 'protected') return (await coverNestedFile(plan, '.git')).map((path) => join(plan.root, path))
    return await useless(linked)
  }
  if (isWithin(linked.gitFolder, plan.root)) return await useless(`its repository ${linked.gitFolder} lies in the worktree itself`)
  try {
    await checkWorkspacePlace(linked.gitFolder, guarded)
  } catch (error) {
    if (!(error instanceof SallyportError)) throw error
    return await useless(error.message)
  }
  await mountLinkedWorktree(plan, linked, mode)
  return [linked.gitFolder]
}

function noteUncovered(plan: Plan, path: string, why: string): void {
  note(
    plan,
    path,
    'repository',
    'a repository within the workspace that is not covered',
    `${why}; the agent can change its settings, which is looked for when the session ends`,
  )
}

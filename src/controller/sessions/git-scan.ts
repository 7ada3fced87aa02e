import { dirname } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import {
  add,
  addAttributes,
  addFile,
  addRepository,
  gitFolderNamedBy,
  insideOf,
  startCollecting,
  type Collected,
  type GitEntry,
  type GitEntryKind,
} from './git-fingerprint.ts'
import { readHidePatterns } from './hide-patterns.ts'
import { isCaseBlind } from './workspace-place.ts'
import { joinPath, surveyWorkspace, type Survey } from './workspace-survey.ts'

/** What decides what git executes in a workspace, at one moment. Plain data, to be kept with the session. */
export type GitScan = { readonly version: 1; readonly workspace: string; readonly entries: readonly GitEntry[] }

/** Something that is not as it was, in words for the operator. Names of an agent's making are cut to visible ASCII. */
export type Finding = {
  readonly path: string
  readonly kind: GitEntryKind | 'cover_lost' | 'not_writable' | 'case_blind'
  readonly what: string
  readonly why: string
}

export type ScanRequest = {
  /** Real path. */
  readonly workspace: string
  /** Repositories elsewhere that the agent can write to, by their real paths: that of a linked worktree. */
  readonly gitFolders: readonly string[]
  /** Where git metadata is the agent's to write, nothing of it is looked at. */
  readonly isGitWritable: boolean
  /** `filesystem.hide`: files that it names and that were not there to be covered are found. */
  readonly hide: readonly string[]
}

/**
 * I36: Takes the fingerprint of a workspace. Runs no git and opens nothing but plain files, none that a link leads to outside of the
 * workspace; bounded in time, files and bytes (`LIMITS.surveyMs`, `scanMs`, `scanFilesMax`, `scanBytesMax`). What was not looked
 * at is an entry itself, and a finding when it was not so before.
 */
export async function scanGit(request: ScanRequest, system: Pick<System, 'elapsed'>): Promise<GitScan> {
  const isBlind = request.hide.length > 0 && (await isCaseBlind(request.workspace))
  const survey = await surveyWorkspace(request.workspace, readHidePatterns(request.hide), system, isBlind)
  return await fingerprintSurvey(survey, request, system)
}

/** The same, of a workspace that was looked through a moment ago. */
export async function fingerprintSurvey(survey: Survey, request: ScanRequest, system: Pick<System, 'elapsed'>): Promise<GitScan> {
  const root = Buffer.from(survey.root)
  const collected = startCollecting(survey.root, system)
  for (const { path, why } of survey.unread) add('unread', joinPath(root, path), why, collected)
  for (const { path } of survey.hidden) add('hidden', joinPath(root, path), '', collected)
  const scan: GitScan = { version: 1, workspace: survey.root, entries: collected.entries }
  if (request.isGitWritable) return scan
  for (const path of survey.bare) {
    add('bare_repository', joinPath(root, path), '', collected)
    await addRepository(joinPath(root, path), joinPath(root, path), collected)
  }
  for (const { path, kind } of survey.gitNames) await addGitName(joinPath(root, path), kind, collected)
  for (const folder of request.gitFolders) await addRepository(Buffer.from(folder), root, collected)
  for (const path of survey.attributes) await addAttributes(joinPath(root, path), collected)
  for (const path of survey.submodules) await addFile('submodules', joinPath(root, path), collected)
  return scan
}

/** What is new or changed in `after`. Nothing that became less is, but for settings: one that is gone may have held another back. */
export function compareGitScans(before: GitScan, after: GitScan): Finding[] {
  const known = new Map(before.entries.map((entry) => [keyOf(entry), entry]))
  const present = new Set(after.entries.map(keyOf))
  const findings = after.entries.flatMap((entry) => findingOf(known.get(keyOf(entry)), entry) ?? [])
  for (const entry of before.entries) {
    if (entry.kind !== 'config' || present.has(keyOf(entry))) continue
    findings.push(...(findingOf(entry, { ...entry, digest: '', settings: [] }) ?? []))
  }
  if (findings.length <= LIMITS.findingsMax) return findings
  const rest = findings.length - LIMITS.findingsMax
  return [
    ...findings.slice(0, LIMITS.findingsMax),
    { path: '.', kind: 'unread', what: `${rest} more findings`, why: 'there are too many to list' },
  ]
}

/**
 * Stands before whatever runs in the workspace on the host.
 * @throws SallyportError workspace_suspect with the first findings, where there are any.
 */
export function refuseSuspect(findings: readonly Finding[]): void {
  if (findings.length === 0) return
  const first = findings.slice(0, 5).map(({ path, what }) => `${path}: ${what}`)
  const more = findings.length > 5 ? `; and ${findings.length - 5} more` : ''
  throw new SallyportError('workspace_suspect', `in the workspace ${first.join('; ')}${more}`, {
    hint: 'look at them without running git there; remove what you did not want, or accept the workspace as it is',
  })
}

function keyOf({ kind, path }: GitEntry): string {
  return `${kind}\0${path}`
}

function listed(keys: readonly string[]): string {
  return shown(keys.slice(0, 8).join(', '))
}

async function addGitName(path: Buffer, kind: string, collected: Collected): Promise<void> {
  const parent = Buffer.from(dirname(path.toString('latin1')), 'latin1')
  if (kind === 'folder') {
    add('repository', path, '', collected)
    return await addRepository(path, parent, collected)
  }
  if (kind === 'link') {
    await addFile('git_link', path, collected)
    return
  }
  const content = await addFile('git_file', path, collected)
  const named = content === undefined ? undefined : gitFolderNamedBy(content, parent)
  const inside = named === undefined ? undefined : await insideOf(named, collected.root)
  if (inside !== undefined) await addRepository(inside, parent, collected)
}

function findingOf(before: GitEntry | undefined, after: GitEntry): Finding[] | undefined {
  const { what, why } = WORDS[after.kind]
  const finding = (said: string): Finding[] => [{ path: shown(after.path), kind: after.kind, what: said, why }]
  if (after.settings === undefined || (before !== undefined && before.settings === undefined)) {
    if (before === undefined) return finding(`${what} that was not there before`)
    return before.digest === after.digest && before.settings === after.settings ? undefined : finding(`${what} was changed`)
  }
  const had = new Map(before?.settings)
  const has = new Map(after.settings)
  const set = [...has].filter(([key, digest]) => had.get(key) !== digest).map(([key]) => key)
  const gone = after.kind === 'config' ? [...had.keys()].filter((key) => !has.has(key)) : []
  if (set.length + gone.length === 0) return undefined
  const said = [set.length > 0 && `now has ${listed(set)}`, gone.length > 0 && `no longer has ${listed(gone)}`].filter(Boolean)
  return finding(`${what} ${said.join(' and ')}`)
}

const READS_SETTINGS =
  'git run in this folder, or above it where it counts as a submodule, reads its settings, and they can name programs to run'

const WORDS: Readonly<Record<GitEntryKind, { readonly what: string; readonly why: string }>> = {
  repository: { what: 'a repository', why: READS_SETTINGS },
  bare_repository: { what: 'a folder that git takes for a bare repository', why: READS_SETTINGS },
  git_file: { what: 'a .git file, which leads git to a repository', why: READS_SETTINGS },
  git_link: { what: 'a symbolic link in the place of git metadata', why: 'git follows it to settings that may be the agent’s' },
  broken_repository: {
    what: 'a repository without a valid HEAD, objects or refs',
    why: 'git passes over it, and takes the folder around it or above for a repository',
  },
  config: { what: 'the git config', why: 'settings of git can name programs that git runs' },
  common_folder: { what: 'a commondir', why: 'git reads the settings of the folder that it names' },
  hook: { what: 'a hook', why: 'git runs it' },
  program: { what: 'a program that the git config names', why: 'git runs it' },
  attributes: {
    what: 'a file of attributes',
    why: 'attributes choose files for the filters and drivers of your git settings, which are programs',
  },
  submodules: { what: 'the list of submodules', why: 'git fetches from and checks out where it says' },
  alternates: { what: 'a list of other object stores', why: 'git takes objects from there, and may send them where you push' },
  worktree: { what: 'a linked worktree', why: 'git reads its settings in the folder that belongs to it' },
  unfinished: {
    what: 'an unfinished rebase, pick or bisection',
    why: 'git goes on with its script, which can run programs, when you continue it',
  },
  hidden: {
    what: 'a file that filesystem.hide names',
    why: 'it was not there to be covered when the session began: the agent could read it',
  },
  unread: { what: 'a place that could not be looked at', why: 'what git would run there is not known' },
}

import { lstat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, relative } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import type { Owner } from './agent-files.ts'
import { addMount, note, type Plan } from './workspace-plan.ts'
import { planGit, type GitPlan } from './git-plan.ts'
import { fingerprintSurvey, type Finding, type GitScan, type ScanRequest } from './git-scan.ts'
import { coverHidden } from './hide-covers.ts'
import { readHidePatterns, type HidePattern } from './hide-patterns.ts'
import { bind, removeMade, type Cover, type Made, type WorkspaceMount } from './workspace-covers.ts'
import { checkWorkspacePlace, isCaseBlind, isWithin, mountsBelow, type GuardedPlaces } from './workspace-place.ts'
import { surveyWorkspace } from './workspace-survey.ts'

/** `filesystem` of a policy. */
export type Filesystem = {
  readonly workspace: 'rw' | 'ro' | 'none'
  readonly hide: readonly string[]
  readonly git_metadata: 'protected' | 'writable'
}

export type WorkspaceRequest = {
  readonly workspace: string
  readonly filesystem: Filesystem
  /** Whose the agent's processes are. */
  readonly owner: Owner
  /** A folder of the session outside of the workspace, for files of ours that are mounted. */
  readonly filesDir: string
  /** `$SALLYPORT_HOME`. */
  readonly home: string
  /** The operator's home folder; default the system's answer. */
  readonly userHome?: string
  /** Folders of the engine besides those that are known, as its data root. */
  readonly engineFolders?: readonly string[]
  /** Where the workspace is in the container; default `/workspace`. */
  readonly target?: string
  /** The workspaces of sessions that live. */
  readonly others?: readonly Pick<Workspace, 'mounts' | 'made'>[]
}

/** A workspace as a container gets it. All but the functions is plain data. */
export type Workspace = {
  /** Its real path on the host. */
  readonly source: string
  readonly target: string
  /** In the order in which they go over each other. */
  readonly mounts: readonly WorkspaceMount[]
  readonly environment: Readonly<Record<string, string>>
  /** What the operator should know, and what stays open. */
  readonly problems: readonly Finding[]
  readonly covers: readonly Cover[]
  readonly made: readonly Made[]
  /** What `scanGit` is to be asked with at the end. */
  readonly scan: ScanRequest
  /** The fingerprint that later scans are compared with. undefined where the agent can't write. */
  readonly baseline: GitScan | undefined
  /** For the audit: what was given, without a word of content. */
  readonly audit: {
    readonly workspace: string
    readonly mode: Filesystem['workspace']
    readonly gitMetadata: Filesystem['git_metadata']
    readonly repositories: readonly string[]
    readonly hidden: readonly string[]
  }
  /** Removes what was made for covers. `inUse`: what sessions that still live made or share. */
  cleanUp(inUse?: readonly Made[]): Promise<void>
}

export const WORKSPACE_TARGET = '/workspace'
const AGENT_HOME = '/home/agent'

/**
 * What to mount for a workspace, with `.git` protection and `filesystem.hide`. Files that have to exist for that are made in it.
 * Where another agent runs meanwhile (`others`), nothing is mounted that it could put a link in the place of, which the engine would follow.
 * @throws SallyportError workspace_refused for a folder that no agent may have, or that can't be covered as the policy asks;
 * config_invalid for a pattern of `filesystem.hide`.
 */
export async function workspaceMounts(request: WorkspaceRequest, system: Pick<System, 'elapsed'>): Promise<Workspace> {
  const { filesystem, owner, home, target = WORKSPACE_TARGET } = request
  const hide = readHidePatterns(filesystem.hide)
  const owners = [owner.uid, process.getuid?.() ?? owner.uid]
  const guarded = { home, userHome: request.userHome ?? homedir(), engineFolders: request.engineFolders ?? [], owners }
  const root = await checkWorkspacePlace(request.workspace, guarded)
  const plan: Plan = {
    root,
    target,
    owner,
    filesDir: request.filesDir,
    mounts: new Map(),
    covers: [],
    made: [],
    madeByOthers: (request.others ?? []).flatMap(({ made }) => made),
    problems: [],
  }
  if (filesystem.workspace === 'none') {
    addMount(plan, { kind: 'tmpfs', target, readOnly: false, bytesMax: LIMITS.emptyWorkspaceBytesMax, mode: 0o700, ...owner })
    return result(plan, request, { hidden: [], repositories: [], gitFolders: [], environment: {}, baseline: undefined })
  }
  try {
    return await planMounts(plan, request, hide, guarded, system)
  } catch (error) {
    await removeMade(
      plan.made,
      plan.madeByOthers.map(({ path }) => path),
    )
    throw error
  }
}

/** The agent's home: empty, in memory, its own. */
export function homeMount({ uid, gid }: Owner, target = AGENT_HOME): WorkspaceMount {
  return { kind: 'tmpfs', target, readOnly: false, bytesMax: LIMITS.agentHomeBytesMax, mode: 0o700, uid, gid }
}

async function planMounts(
  plan: Plan,
  request: WorkspaceRequest,
  hide: readonly HidePattern[],
  guarded: GuardedPlaces,
  system: Pick<System, 'elapsed'>,
): Promise<Workspace> {
  const { root, target } = plan
  const { filesystem, owner } = request
  const isReadOnly = filesystem.workspace === 'ro'
  const isBlind = hide.length > 0 && (await isCaseBlind(root))
  const survey = await surveyWorkspace(root, hide, system, isBlind)
  addMount(plan, bind(root, target, isReadOnly))
  // Read-only is the mount itself: what is mounted below it on the host comes along writable, and gets a mount of its own.
  if (isReadOnly) for (const point of await mountsBelow(root)) addMount(plan, bind(point, join(target, relative(root, point)), true))
  const hidden = await coverHidden(plan, survey)
  if (isBlind && hidden.length > 0)
    note(
      plan,
      '.',
      'case_blind',
      'a file system that takes upper and lower case for one',
      'a hidden file may be readable by another spelling of its name',
    )
  const isProtected = !isReadOnly && filesystem.git_metadata === 'protected'
  const git = await planGit(plan, survey, hidden, guarded, isProtected ? 'protected' : isReadOnly ? 'ro' : 'writable')
  refuseShared(plan, request)
  await noteOwner(plan, owner, isReadOnly)
  const environment = await gitEnvironment(
    [root, ...git.repositories.map((path) => join(root, path)), ...git.gitFolders],
    owner,
    git.isCovered,
  )
  const baseline = isReadOnly ? undefined : await fingerprintSurvey(survey, scanRequest(plan, filesystem, git.gitFolders), system)
  return result(plan, request, { hidden, ...git, environment, baseline })
}

/** For what git would write into files that are covered, without being asked to: upstreams of branches, `info/refs`, reflogs of other worktrees. */
const COVERED_SETTINGS: readonly [string, string][] = [
  ['branch.autoSetupMerge', 'false'],
  ['repack.updateServerInfo', 'false'],
  ['gc.reflogExpire', 'never'],
  ['gc.reflogExpireUnreachable', 'never'],
  // In the container a worktree elsewhere looks as if it were gone.
  ['gc.worktreePruneExpire', 'never'],
]

async function gitEnvironment(places: readonly string[], owner: Owner, isCovered: boolean): Promise<Record<string, string>> {
  const settings: [string, string][] = []
  if (isCovered) settings.push(...COVERED_SETTINGS)
  const stats = await Promise.all(places.map(async (place) => await lstat(place).catch(() => undefined)))
  // CVE-2022-24765 is about repositories of other users of one machine. In the container there is one.
  if (stats.some((stat) => stat !== undefined && stat.uid !== owner.uid)) settings.push(['safe.directory', '*'])
  if (settings.length === 0) return {}
  const numbered = settings.flatMap(([key, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, key],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ])
  return { GIT_CONFIG_COUNT: String(settings.length), ...Object.fromEntries(numbered) }
}

/**
 * What an agent that runs has mounted itself it can't move away, and what it has read-only it can't change. Anything else that it
 * can write could become a link to any folder of the host between our look and the engine's.
 */
function refuseShared(plan: Plan, { others = [] }: WorkspaceRequest): void {
  for (const other of others) {
    const theirs = other.mounts.filter((mount) => mount.kind === 'bind').toSorted((one, two) => depth(two.source) - depth(one.source))
    for (const mount of plan.mounts.values()) {
      if (mount.kind !== 'bind') continue
      const holder = theirs.find(({ source }) => isWithin(mount.source, source))
      if (holder === undefined || holder.readOnly || holder.source === mount.source) continue
      throw new SallyportError('workspace_refused', `${mount.source} can be replaced by the agent of another session, which runs`, {
        hint: 'end that session first',
      })
    }
  }
}

async function noteOwner(plan: Plan, owner: Owner, isReadOnly: boolean): Promise<void> {
  const stat = await lstat(plan.root)
  const may = stat.uid === owner.uid ? stat.mode & 0o200 : stat.gid === owner.gid ? stat.mode & 0o020 : 0
  if (isReadOnly || may !== 0 || owner.uid === 0) return
  note(
    plan,
    '.',
    'not_writable',
    `a folder that the agent (uid ${owner.uid}) may not write`,
    `it belongs to uid ${stat.uid}: give it to the agent's uid, or run as its owner`,
  )
}

type Outcome = Omit<GitPlan, 'isCovered'> & {
  readonly hidden: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly baseline: GitScan | undefined
}

function result(plan: Plan, request: WorkspaceRequest, { hidden, repositories, gitFolders, environment, baseline }: Outcome): Workspace {
  const mounts = [...plan.mounts.values()]
    // Nothing is mounted below what is hidden.
    .filter(({ target }) => !hidden.some((path) => target !== join(plan.target, path) && isWithin(target, join(plan.target, path))))
    .toSorted((one, other) => depth(one.target) - depth(other.target) || (one.target < other.target ? -1 : 1))
  const { filesystem } = request
  return {
    source: plan.root,
    target: plan.target,
    mounts,
    environment,
    problems: plan.problems,
    covers: plan.covers,
    made: plan.made,
    scan: scanRequest(plan, filesystem, gitFolders),
    baseline,
    audit: {
      workspace: plan.root,
      mode: filesystem.workspace,
      gitMetadata: filesystem.git_metadata,
      repositories: [...repositories, ...gitFolders].map(shown),
      hidden: hidden.map(shown),
    },
    cleanUp: async (inUse = []) =>
      await removeMade(
        plan.made,
        inUse.map(({ path }) => path),
      ),
  }
}

function scanRequest({ root }: Plan, { hide, git_metadata }: Filesystem, gitFolders: readonly string[]): ScanRequest {
  return { workspace: root, gitFolders, isGitWritable: git_metadata === 'writable', hide }
}

function depth(path: string): number {
  return path.split('/').length
}

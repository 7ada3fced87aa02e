import { createHash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { PolicyInput } from '../../policy/policy.ts'
import { rememberedFile } from '../approvals/approvals.ts'
import { readWorkspaceFile, realWorkspace, WORKSPACE_POLICY, type WorkspaceFile } from './workspace-file.ts'
import type { TrustStore } from './workspace-trust.ts'

/**
 * Whose word a layer is. `own` is the workspace's own policy, once the operator has accepted it; `remembered` is what was answered for good;
 * `timed` and `timed-session` what the operator allowed for a time, in the workspace or in this session; `servers` is mcp.json, and `user-servers` what the operator's own configuration of a harness says of MCP servers.
 */
export type LayerKind =
  | 'global'
  | 'role'
  | 'own'
  | 'workspace'
  | 'remembered'
  | 'timed'
  | 'timed-session'
  | 'servers'
  | 'user-servers'
  | 'session'

/** One layer, read: what is judged is what is used. */
export type SessionLayer = { readonly layer: LayerKind; readonly file: string; readonly text: string }

export type SessionLayers = {
  /** In the order in which they count: global → role → the workspace's own where it is trusted → the operator's for it → what was remembered for it → what is allowed for a time → session. */
  readonly files: readonly SessionLayer[]
  /** May only deny or ask: the workspace's own policy until it is trusted. */
  readonly restricted: readonly { readonly file: string; readonly text: string }[]
  /** `error`: no session starts, and one that runs keeps the policy that it has. */
  readonly problems: readonly LayerProblem[]
}

export type LayerProblem = {
  readonly severity: 'error' | 'warning'
  readonly code: 'workspace_refused' | 'policy_not_found'
  readonly file: string
  readonly message: string
  readonly hint?: string
}

export type LayersRequest = {
  readonly home: string
  readonly workspace: string
  readonly role?: string | undefined
  /** Files of `--policy`, in order. */
  readonly sessionFiles: readonly string[]
  readonly trust: Pick<TrustStore, 'isTrusted'>
  /** That it is about, where there is one: what holds for it alone. */
  readonly session?: string | undefined
  /** What one of the operator's files would say, before it does. */
  readonly instead?: { readonly file: string; readonly text: string } | undefined
}

const IN_WORKSPACE = 'it stands in the workspace: whoever works there can change what the next session may do'

/** Name of a role: it becomes part of a path. */
const ROLE = /^[a-z0-9-]{1,64}$/

/** The operator's own folder for a workspace, by its real path: `policy.yaml`, and `workspace`, which holds that path. */
export function workspacePolicyDir(home: string, workspace: string): string {
  return join(home, 'policies', 'workspaces', createHash('sha256').update(workspace).digest('hex'))
}

/** What the operator allowed for a time: of a workspace by its real path, or of a session by its id. */
export function timedFile(home: string, of: { readonly workspace: string } | { readonly session: string }): string {
  const name = 'session' in of ? of.session : createHash('sha256').update(of.workspace).digest('hex')
  return join(home, 'policies', 'timed', `${name}.yaml`)
}

/**
 * Every layer of a session's policy, each read once.
 * @throws workspace_refused when the workspace is none, or holds the operator's own files; config_invalid for the name of a role; trust_invalid
 */
export async function layersOf(request: LayersRequest): Promise<SessionLayers> {
  const { home, role, sessionFiles, trust, session, instead } = request
  const workspace = realWorkspace(request.workspace)
  refuseNesting(workspace, home)
  if (role !== undefined && !ROLE.test(role))
    throw new SallyportError('config_invalid', `role "${role}" may have lower-case letters, digits and "-" only, 64 at most`)
  const problems: LayerProblem[] = []
  const refuse = (file: string, message: string): void => {
    problems.push({ severity: 'error', code: 'policy_not_found', file, message })
  }
  const take = (layer: LayerKind, file: string, isNeeded: boolean): SessionLayer[] => {
    const read = instead?.file === file ? instead : readOperatorFile(file)
    if (read === undefined) {
      if (isNeeded) refuse(file, layer === 'role' ? `there is no role "${role ?? ''}"` : 'it does not exist')
      return []
    }
    const real = realOf(file)
    if (real === join(workspace, WORKSPACE_POLICY)) {
      // Named as the operator's it would be trusted without being looked at.
      refuse(file, 'it is the policy that the workspace brings itself: leave it out here, and accept it with sallyport trust')
      return []
    }
    if (isInside(workspace, real)) problems.push({ severity: 'warning', code: 'workspace_refused', file, message: IN_WORKSPACE })
    if ('text' in read) return [{ layer, file, text: read.text }]
    refuse(file, read.problem)
    return []
  }
  const policies = join(home, 'policies')
  const folder = workspacePolicyDir(home, workspace)
  const misplaced = folderProblem(folder, workspace)
  if (misplaced !== undefined) refuse(join(folder, 'workspace'), misplaced)
  const own = await ownLayer(readWorkspaceFile(workspace), workspace, trust, problems)
  return {
    files: [
      ...take('global', join(policies, 'global.yaml'), false),
      ...(role === undefined ? [] : take('role', join(policies, 'roles', `${role}.yaml`), true)),
      ...own.trusted,
      ...take('workspace', join(folder, 'policy.yaml'), false),
      ...take('remembered', rememberedFile(join(policies, 'remembered'), workspace), false),
      ...take('timed', timedFile(home, { workspace }), false),
      ...(session === undefined ? [] : take('timed-session', timedFile(home, { session }), false)),
      ...sessionFiles.flatMap((file) => take('session', file, true)),
    ],
    restricted: own.restricted,
    problems,
  }
}

/** The layers of any session, whatever its workspace. */
export function homeLayersOf({ home, role, sessionFiles }: Pick<LayersRequest, 'home' | 'role' | 'sessionFiles'>): SessionLayers {
  if (role !== undefined && !ROLE.test(role)) throw new SallyportError('config_invalid', `"${shown(role)}" is no name of a role`)
  const policies = join(home, 'policies')
  const wanted = [
    { layer: 'global', file: join(policies, 'global.yaml'), isNeeded: false },
    ...(role === undefined ? [] : [{ layer: 'role', file: join(policies, 'roles', `${role}.yaml`), isNeeded: true } as const]),
    ...sessionFiles.map((file) => ({ layer: 'session', file, isNeeded: true }) as const),
  ] as const
  const files: SessionLayer[] = []
  const problems: LayerProblem[] = []
  for (const { layer, file, isNeeded } of wanted) {
    const read = readOperatorFile(file) ?? (isNeeded ? { problem: 'it does not exist' } : undefined)
    if (read === undefined) continue
    if ('text' in read) files.push({ layer, file, text: read.text })
    else problems.push({ severity: 'error', code: 'policy_not_found', file, message: read.problem })
  }
  return { files, restricted: [], problems }
}

/** The layers as a policy is loaded from them. @throws workspace_refused, policy_not_found when one of the problems is an error */
export function inputsOf({ files, restricted, problems }: SessionLayers): {
  files: readonly PolicyInput[]
  restricted: readonly PolicyInput[]
} {
  const errors = problems.filter(({ severity }) => severity === 'error')
  const [first] = errors
  if (first !== undefined)
    throw new SallyportError(
      first.code,
      errors.map(({ file, message }) => `${file}: ${message}`).join('\n'),
      first.hint === undefined ? {} : { hint: first.hint },
    )
  return { files: files.map(({ file, text }) => ({ file, text })), restricted }
}

async function ownLayer(
  own: WorkspaceFile | undefined,
  workspace: string,
  trust: LayersRequest['trust'],
  problems: LayerProblem[],
): Promise<{ trusted: SessionLayer[]; restricted: { file: string; text: string }[] }> {
  if (own === undefined) return { trusted: [], restricted: [] }
  const { file } = own
  if ('problem' in own) {
    const hint = 'look at what is there and remove it, or put a plain file in its place'
    problems.push({ severity: 'error', code: 'workspace_refused', file, message: own.problem, hint })
    return { trusted: [], restricted: [] }
  }
  const { text } = own
  return (await trust.isTrusted(workspace, text))
    ? { trusted: [{ layer: 'own', file, text }], restricted: [] }
    : { trusted: [], restricted: [{ file, text }] }
}

/** An agent that can write the operator's home folder has everything: the policy, the keys and the vault. */
function refuseNesting(workspace: string, home: string): void {
  const realHome = realOf(home)
  if (isInside(workspace, realHome) || isInside(realHome, workspace))
    throw new SallyportError(
      'workspace_refused',
      `the workspace "${workspace}" and Sallyport's own folder "${realHome}" hold one another`,
      {
        hint: 'choose a workspace that is one project, or set SALLYPORT_HOME to a folder elsewhere',
      },
    )
}

/** Where somebody copied the folder of another workspace by hand, it would hold for one that it was not written for. */
function folderProblem(folder: string, workspace: string): string | undefined {
  const read = readOperatorFile(join(folder, 'workspace'))
  if (read === undefined) return undefined
  if ('problem' in read) return read.problem
  return read.text.replace(/\n$/, '') === workspace ? undefined : `it names another workspace than "${workspace}"`
}

/** A file of the operator's, who may link it from elsewhere. */
function readOperatorFile(file: string): { readonly text: string } | { readonly problem: string } | undefined {
  try {
    // Before it is opened: a FIFO would hold the start up.
    const stat = statSync(file)
    if (!stat.isFile()) return { problem: 'it is not a file' }
    if (stat.size > LIMITS.policyFileBytesMax) return { problem: `it is larger than ${LIMITS.policyFileBytesMax} bytes` }
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(file)) }
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return undefined
    return { problem: code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8' : `it cannot be read (${code})` }
  }
}

/** The real path, or that of the nearest folder above that exists, with the rest behind it. */
function realOf(path: string): string {
  const whole = resolve(path)
  if (existsSync(whole)) return realpathSync(whole)
  const above = dirname(whole)
  return above === whole ? whole : join(realOf(above), relative(above, whole))
}

function isInside(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`)
}

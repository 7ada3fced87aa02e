import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createPlaceholders, credentialFiles } from '../credential/credential.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { shown } from '../kernel/shown.ts'
import type { System } from '../kernel/system.ts'
import { formatDiagnostic, isForGate, isOfGateAlone, loadPolicy, type Policy, type SecretGrant } from '../policy/policy.ts'
import type { SecretHolder } from '../wire/secret-holder.ts'
import { refuseMissingSecrets, sessionServers, withServers, type UserPlace } from './mcp-servers/mcp-servers.ts'
import type { PlannedServers, ServersQuery } from './mcp-servers/operator-servers.ts'
import { WORKSPACE } from './sessions/agent-environment.ts'
import { freezeLayers, frozenPolicy } from './sessions/frozen-layers.ts'
import { buildCommandOf, harnessOf, type Harness } from './sessions/harness.ts'
import { homeLayersOf, inputsOf, layersOf, type SessionLayers } from './sessions/session-layers.ts'
import { realWorkspace } from './sessions/workspace-file.ts'
import { policyFolder } from './sessions/session-names.ts'
import type { Foreseen, PlannedNames, SessionPlan, UpRequest } from './sessions/session-parts.ts'
import type { TrustStore } from './sessions/workspace-trust.ts'

export type PlanningParts = {
  readonly home: string
  /** Of the installation: where `extends` looks first. */
  readonly presets: string
  readonly trust: TrustStore
  readonly images: { readonly sidecar: string; readonly agent: string }
  /** Of the gate, besides what every gate gets. */
  readonly gate: Pick<SessionPlan['sidecar'], 'environment' | 'mounts'>
  /** Where the operator's own MCP servers are. */
  readonly userServers?: UserPlace
  /** Why a secret has no value for this holder, as far as it can be told now. */
  readonly secretProblem?: (grant: SecretGrant, holder: SecretHolder) => Promise<string | undefined>
  readonly system: Pick<System, 'now' | 'random'>
}

export type Planning = {
  /** @throws policy_invalid, policy_not_found, policy_untrusted, workspace_refused, usage for a harness that is none */
  prepare(request: UpRequest, names: PlannedNames): Promise<SessionPlan>
  /** The same with what it was made of. Nothing is written. @throws the same */
  foresee(request: UpRequest, names: Omit<PlannedNames, 'policyFolder'>): Promise<Foreseen>
  /** The session's policy as its files are now, in the place of the one before. @throws the same: then that one stays */
  refreeze(names: PlannedNames, request: Pick<UpRequest, 'policy' | 'role' | 'harness'>): Promise<void>
  /**
   * What MCP servers a session would have; without a workspace, any session. Nothing is written.
   * @param homeText what `mcp.json` might say, in the place of what it says
   * @throws the same, and mcp_config_invalid
   */
  servers(query: ServersQuery, homeText?: string): Promise<PlannedServers>
  /** All layers that a session has, with its MCP servers; `instead`: as one of the operator's files would be. @throws the same */
  layers(query: LayersQuery): Promise<SessionLayers>
  /** Of a session's policy as it was frozen last. @throws policy_not_found, policy_invalid */
  policyDigest(session: string): string
}

export type LayersQuery = Pick<UpRequest, 'policy' | 'role' | 'harness'> & {
  readonly workspace: string
  readonly session?: string | undefined
  readonly instead?: { readonly file: string; readonly text: string } | undefined
}

/** The tools of the harnesses' images, and a shell. */
const NO_HARNESS = 'plain'

/** Makes of the operator's wishes, their policy and the harness one plan of a session. */
export function createPlanning(parts: PlanningParts): Planning {
  const policyDirs = [parts.presets, join(parts.home, 'policies')]
  const layersFor = async (
    { policy, harness, ...query }: Omit<LayersQuery, 'workspace'> & { workspace?: string | undefined },
    homeText?: string,
  ) => {
    const { home, trust, userServers: user } = parts
    const { workspace } = query
    const asked = { home, sessionFiles: policy, trust, ...query }
    const layers = workspace === undefined ? homeLayersOf(asked) : await layersOf({ ...asked, workspace })
    return withServers(withHarness(layers, harness), { home, policyDirs, user, homeText })
  }
  const freeze = async (names: PlannedNames, request: Pick<UpRequest, 'policy' | 'role' | 'harness'>) => {
    const { layers, kept } = await layersFor(queryOf(names, request))
    return { ...freezeLayers(layers, { policyDirs, into: names.policyFolder }, parts.system), kept }
  }
  const load = async (query: Parameters<typeof layersFor>[0], homeText?: string) => {
    const { layers, kept } = await layersFor(query, homeText)
    const inputs = inputsOf(layers)
    return { layers, kept, policy: loadPolicy(inputs.files, { policyDirs, restricted: inputs.restricted }) }
  }
  return {
    async prepare(request, names) {
      const frozen = await freeze(names, request)
      const { files, restricted, policyDirs: dirs } = frozen
      return { ...(await planOf(parts, request, names, frozen)), policy: { files, restricted, policyDirs: dirs } }
    },
    async foresee(request, names) {
      const { layers, policy, kept } = await load(queryOf(names, request))
      const plan = await planOf(parts, request, names, { policy, kept })
      return { layers, policy, plan, missing: await withoutValue(parts, policy, holderOf(request, names.workspace)) }
    },
    async refreeze(names, request) {
      await freeze(names, request)
    },
    async servers({ workspace, policy: files, role, harness }, homeText) {
      const named = { policy: [...files], ...(role !== undefined && { role }), ...(harness !== undefined && { harness }) }
      const { policy, kept } = await load({ workspace, ...named }, homeText)
      const holder = { ...(workspace !== undefined && { workspace: realWorkspace(workspace) }), ...(role !== undefined && { role }) }
      return { policy, kept, holder }
    },
    layers: async (query) => (await layersFor(query)).layers,
    policyDigest: (session) => frozenPolicy(policyFolder(parts.home, session)).digest,
  }
}

function holderOf({ role }: Pick<UpRequest, 'role'>, workspace: string): SecretHolder {
  return { workspace, ...(role !== undefined && { role }) }
}

/** Secrets that the gate would not get, as far as it can be told now: the start ends there. */
async function withoutValue({ secretProblem }: PlanningParts, { secrets }: Policy, holder: SecretHolder): Promise<readonly string[]> {
  if (secretProblem === undefined) return []
  const found = await Promise.all(secrets.filter(isForGate).map(async (grant) => ({ grant, problem: await secretProblem(grant, holder) })))
  return found.flatMap(({ grant, problem }) => (problem === undefined ? [] : `secret "${grant.name}" has no value: ${problem}`))
}

type Loaded = { readonly policy: Policy; readonly kept: PlannedServers['kept'] }

/** What a request, a policy and a harness make together. */
async function planOf(
  parts: PlanningParts,
  request: UpRequest,
  names: Omit<PlannedNames, 'policyFolder'>,
  { policy, kept }: Loaded,
): Promise<Foreseen['plan']> {
  const { secretProblem } = parts
  const holder = holderOf(request, names.workspace)
  if (secretProblem) await refuseMissingSecrets(policy, (grant) => secretProblem(grant, holder))
  const placeholders = createPlaceholders(policy.placeholders, names.id).values
  const harness = harnessOf(request.harness ?? policy.effective.harness?.value ?? NO_HARNESS, {
    workspace: WORKSPACE,
    secrets: policy.secrets.map(({ name }) => name),
    placeholders,
    mcpServers: sessionServers(policy, kept).map(({ registered }) => registered),
    now: parts.system.now(),
  })
  return {
    agent: {
      ...limitsOf(policy),
      ...imageFor(harness, request.image ?? policy.session.image, parts.images.agent),
      command: request.command.length > 0 ? request.command : commandOf(request, harness),
      environment: { ...harness.environment, ...placeholders },
      files: filesOf(policy, harness, placeholders),
      mounts: [],
      settings: {},
    },
    ...(harness.name !== NO_HARNESS && { harness: harness.name }),
    sidecar: { image: parts.images.sidecar, ...parts.gate },
    filesystem: { workspace: policy.filesystem.workspace, hide: policy.filesystem.hide, git_metadata: policy.filesystem.gitMetadata },
    requiresLease: policy.isLeaseRequired,
    warnings: [...policy.warnings.filter((one) => !isOfGateAlone(one)).map(formatDiagnostic), ...(kept?.notes ?? [])],
  }
}

function queryOf(
  { id, workspace }: Omit<PlannedNames, 'policyFolder'>,
  { policy, role, harness }: Pick<UpRequest, 'policy' | 'role' | 'harness'>,
): LayersQuery {
  return { workspace, policy, session: id, ...(role !== undefined && { role }), ...(harness !== undefined && { harness }) }
}

/** The policy of a session that was prepared, also by a daemon before this one. @throws policy_not_found, policy_invalid */
export function plannedPolicy(folder: string): Policy {
  return frozenPolicy(folder)
}

/** `--harness` is a layer of its own, over all others. */
function withHarness(layers: SessionLayers, harness: string | undefined): SessionLayers {
  if (harness === undefined || harness === NO_HARNESS) return layers
  harnessOf(harness, { workspace: WORKSPACE, secrets: [], placeholders: {}, mcpServers: [], now: 0 })
  const text = `version: 1\nnetwork: {harness: ${harness}}\n`
  return { ...layers, files: [...layers.files, { layer: 'session', file: `--harness ${harness}`, text }] }
}

/** @throws image_missing */
function imageFor(
  { name, image, policy }: Harness,
  named: string | undefined,
  plain: string,
): Pick<SessionPlan['agent'], 'image' | 'imageHint'> {
  if (named !== undefined) return { image: named }
  if (policy === undefined) return { image: plain }
  if (image !== undefined) return { image, imageHint: `make it, in the folder of Sallyport: ${buildCommandOf(name)}` }
  throw new SallyportError('image_missing', `there is no image of ${name}: its program is in no public registry`, {
    hint: 'make one with the program in it, FROM sallyport/agent, and name it: --image REF, or session.image in the policy',
  })
}

/** Without a command an attached session has the harness's own; a detached one waits for `exec`. */
function commandOf(request: UpRequest, harness: Harness): readonly string[] {
  return request.tty ? harness.command : []
}

function filesOf(policy: Policy, { homeFiles }: Harness, placeholders: Readonly<Record<string, string>>): SessionPlan['agent']['files'] {
  const own = credentialFiles(policy.credentials, placeholders)
  const taken = new Set<string>(own.map(({ path }) => path))
  return [...own, ...homeFiles.filter(({ path }) => !taken.has(path)).map((file) => ({ ...file, name: file.path.replaceAll('/', '_') }))]
}

function limitsOf({ session }: Policy): Partial<SessionPlan['agent']> {
  const { memoryBytes, cpus, pids, runtime, user, seccomp } = session
  return {
    ...(memoryBytes !== undefined && { memoryBytes }),
    ...(cpus !== undefined && { cpus }),
    ...(pids !== undefined && { processes: pids }),
    ...(runtime !== undefined && { runtime }),
    ...(user !== 'operator' && { user: user === 'root' ? { uid: 0, gid: 0 } : user }),
    ...(seccomp !== undefined && { seccompProfile: readProfile(seccomp) }),
  }
}

/** Of a profile that lets through what it does not name, a list of refusals would have to be complete: none is, over kernels. */
const CLOSED: ReadonlySet<string> = new Set([
  'SCMP_ACT_ERRNO',
  'SCMP_ACT_KILL',
  'SCMP_ACT_KILL_THREAD',
  'SCMP_ACT_KILL_PROCESS',
  'SCMP_ACT_TRAP',
])

/** @throws config_invalid, config_prohibited for one that is open where it says nothing */
function readProfile(file: string): string {
  let text: string
  let profile: unknown
  try {
    const stat = statSync(file)
    if (!stat.isFile() || stat.size > LIMITS.policyFileBytesMax) throw new Error('it is not a file of that size')
    text = readFileSync(file, 'utf8')
    profile = JSON.parse(text)
  } catch (cause) {
    throw new SallyportError('config_invalid', `session.seccomp "${file}" is no seccomp profile in JSON (${codeOf(cause)})`, { cause })
  }
  const action = typeof profile === 'object' && profile !== null && 'defaultAction' in profile ? String(profile.defaultAction) : 'none'
  if (CLOSED.has(action)) return text
  throw new SallyportError('config_prohibited', `session.seccomp "${file}" has "${shown(action)}" for system calls that it does not name`, {
    hint: 'a profile names what it allows: begin with the one of the engine, whose defaultAction is SCMP_ACT_ERRNO',
  })
}

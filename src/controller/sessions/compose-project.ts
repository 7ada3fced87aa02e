import { createHash, randomBytes } from 'node:crypto'
import { accessSync, constants, existsSync, mkdirSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { leaseDigest } from '../../lease/lease.ts'
import { agentFileOf, refuseTakenVariables, writeAgentFiles, writeResolver, type Owner, type Worthless } from './agent-files.ts'
import { coverMountsBelow, workspaceFile } from './compose-files.ts'
import { engineCpus, engineHasImage, engineIsolates, engineNetworks, engineRuns } from './engine-facts.ts'
import { readEnvFile, writeEnvFile } from './env-file.ts'
import type { Jail } from './jail.ts'
import { ownerOf } from './owner.ts'
import { makeProjectSocketFolder, readProjectFile, writeProjectFile } from './project-file.ts'
import { demoTokenHash, handOver, makeSecretsFolder } from './project-secrets.ts'
import { realpathOfNearest } from './real-path.ts'
import { homeLabel } from './session-names.ts'
import type { SessionParts, WorkspaceMounts } from './session-parts.ts'
import { missingSecrets, readSessionPolicy, type SecretFile, type SessionPolicy } from './session-policy.ts'
import { reserveJail } from './subnets.ts'

/** What the operator asks for. Paths may be relative to the current folder. */
export type ProjectRequest = {
  readonly envFile: string
  /** Default: the one in the file, else the current folder. */
  readonly workspace: string | undefined
  /** Files in one folder. Default: the ones in the file. */
  readonly policy: readonly string[]
  readonly demo: boolean
  /** A daemon runs, which has places for secrets that no container sees. */
  readonly hasController: boolean
}

/** The workspace with what lies over it. `others`: what is kept of the sessions that live. */
export type GuardWorkspace = (others: readonly unknown[]) => Pick<SessionParts['workspace'], 'mounts'>

/** Where Sallyport is: the folder that holds compose.yaml, `SALLYPORT_HOME`, and where policies that are extended are looked for. */
export type Installation = { readonly packageRoot: string; readonly home: string; readonly policyDirs: readonly string[] }

/** A compose project for one workspace, as written. Paths are real ones. */
export type ComposeProject = Plan & {
  readonly jail: Jail
  /** Warnings about the policy, `file:line: …` each. */
  readonly warnings: readonly string[]
  /** Secrets that the policy names and whose files are not in the folder of secrets. */
  readonly missing: readonly SecretFile[]
  /** What the agent gets in the place of credentials. */
  readonly worthless: Worthless
  /** Containers of it run. */
  readonly isRunning: boolean
  /** Where a daemon puts its socket and the lease for it. */
  readonly controlDir: string
}

type Plan = {
  readonly name: string
  readonly envFile: string
  readonly workspace: string
  /** The folder of all projects that this one chooses its subnet beside. */
  readonly home: string
  readonly stateDir: string
  readonly secretsDir: string
  readonly policies: { readonly dir: string; readonly files: readonly string[] }
  /** `policies/` of the operator's home, where there is one. */
  readonly ownPolicies: string | undefined
  /** Authorities that the sidecar trusts besides its own, as PEM. */
  readonly extraCa: string | undefined
  readonly owner: Owner
  /** What the sidecar makes its placeholders from too. */
  readonly placeholderSeed: string
  readonly demo: boolean
  /** What the file said for this workspace before. */
  readonly present: ReadonlyMap<string, string>
  readonly leavesDemo: boolean
  /** What the file says that images are built on. */
  readonly baseImage: string | undefined
}
type Environment = Readonly<Record<string, string | undefined>>

const AGENT_CPUS_MAX = 2
/** What compose.yaml cannot say for every workspace, beside the project's state. */
const WORKSPACE_FILE = 'workspace.yaml'
const DEMO_PROFILE = 'demo'
const POLICY_MOUNT = '/etc/sallyport/policy'
/** What images are built on: by default, and what set-up makes where no registry answers. */
const BASE_IMAGE = 'node:24-bookworm-slim'
const OWN_BASE_IMAGE = 'sallyport/node-base:24'
const ENGINE_SOCKET = '/var/run/docker.sock'
/** What compose.yaml mounts by a variable. compose takes one of the environment rather than the file's. */
const MOUNTED = [
  'SALLYPORT_SECRETS_DIR',
  'SALLYPORT_POLICY_DIR',
  'SALLYPORT_STATE_DIR',
  'SALLYPORT_CONTROL_DIR',
  'SALLYPORT_OWN_POLICIES',
  'SALLYPORT_EXTRA_CA',
]

/**
 * Writes the `.env` and the state of a compose project for one workspace. What stands in the file already is kept.
 * @throws SallyportError config_invalid when anything that holds the agent lies where the agent can write, or the file cannot be
 * written or belongs to another workspace; usage, policy_not_found and policy_invalid for policies, with every error in the message;
 * workspace_refused; engine_unavailable, subnet_exhausted. Nothing is written then but files that are to be covered in the workspace, an
 * empty folder and a reservation of a subnet.
 */
export async function writeComposeProject(
  request: ProjectRequest,
  installation: Installation,
  environment: Environment,
  guard: GuardWorkspace,
): Promise<ComposeProject> {
  const plan = planProject(request, installation, environment)
  checkPlaces(plan, installation, environment)
  const policies = plan.policies.files.map((file) => join(plan.policies.dir, file))
  const policy = readSessionPolicy(policies, {
    ...installation,
    placeholderSeed: plan.placeholderSeed,
    hasController: request.hasController,
  })
  refuseTakenVariables(installation.packageRoot, Object.keys(policy.worthless.values))
  return await writeProject(plan, policy, installation, guard)
}

function planProject(request: ProjectRequest, { packageRoot, home }: Installation, environment: Environment): Plan {
  const envFile = resolve(request.envFile)
  checkWritable(envFile)
  const file = readEnvFile(envFile)
  const served = file.get('SALLYPORT_WORKSPACE') || undefined
  const before = served === undefined ? undefined : placeInFile(served, packageRoot)
  const workspace = realFolder(request.workspace ?? before ?? process.cwd(), 'workspace')
  // Its secrets and its policy are the other workspace's, and a project of that name may be up.
  if (before !== undefined && before !== workspace) {
    throw new SallyportError('config_invalid', `${envFile} belongs to another workspace: ${before}`, {
      hint: 'name another file with --output, or delete it',
    })
  }
  const present = before === undefined ? new Map<string, string>() : file
  const name = present.get('COMPOSE_PROJECT_NAME') ?? projectName(workspace)
  const projects = realpathOfNearest(join(resolve(home), 'compose'))
  // The file's own, whatever SALLYPORT_HOME is now: its secrets are where its state is.
  const state = present.get('SALLYPORT_STATE_DIR')
  const stateDir = state ? placeInFile(state, packageRoot) : join(projects, name)
  const secrets = present.get('SALLYPORT_SECRETS_DIR')
  const extraCa = environment['SALLYPORT_EXTRA_CA']
  return {
    name,
    envFile,
    workspace,
    home: basename(stateDir) === name ? dirname(stateDir) : projects,
    stateDir,
    secretsDir: secrets ? placeInFile(secrets, packageRoot) : join(stateDir, 'secrets'),
    policies: policyFiles(request, present, packageRoot),
    ownPolicies: existsSync(join(home, 'policies')) ? realFolder(join(home, 'policies'), 'folder of own policies') : undefined,
    // From the whole file: its line stays, whatever else the file is for.
    extraCa: extraCa ? realFile(resolve(extraCa)) : realFile(file.get('SALLYPORT_EXTRA_CA'), packageRoot),
    owner: ownerOf(workspace),
    placeholderSeed:
      environment['SALLYPORT_PLACEHOLDER_SEED'] || present.get('SALLYPORT_PLACEHOLDER_SEED') || randomBytes(24).toString('base64url'),
    demo: request.demo || (request.policy.length === 0 && present.get('COMPOSE_PROFILES') === DEMO_PROFILE),
    present,
    leavesDemo: file.get('COMPOSE_PROFILES') === DEMO_PROFILE,
    baseImage: file.get('NODE_IMAGE') || undefined,
  }
}

function checkWritable(envFile: string): void {
  const folder = dirname(envFile)
  const fail = (problem: string, hint: string): never => {
    throw new SallyportError('config_invalid', `"${envFile}" cannot be written: ${problem}`, { hint })
  }
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    fail(`there is no folder ${folder}`, 'make the folder first, or name another file with --output')
  if (statSync(envFile, { throwIfNoEntry: false })?.isFile() === false)
    fail('it is not a file', 'name a file with --output, for example my-workspace.env')
  try {
    accessSync(folder, constants.W_OK)
    if (existsSync(envFile)) accessSync(envFile, constants.R_OK)
  } catch (cause) {
    fail(codeOf(cause), 'name a file of yours with --output')
  }
}

/** Whatever the agent can write must not decide what holds the agent, or what the operator's next command runs. */
function checkPlaces(plan: Plan, { packageRoot }: Installation, environment: Environment): void {
  const places = [
    ['the .env', plan.envFile],
    ['compose.yaml', packageRoot],
    ["Sallyport's state", plan.stateDir],
    ["Sallyport's state", plan.home],
    ['the folder of secrets', plan.secretsDir],
    ['the policy', plan.policies.dir],
    ['the folder of own policies', plan.ownPolicies],
    ['SALLYPORT_EXTRA_CA', plan.extraCa],
    ["the engine's socket", ENGINE_SOCKET],
    ...MOUNTED.map((name) => [name, environment[name] && resolve(packageRoot, environment[name])] as const),
  ] as const
  for (const [what, place] of places) if (place) refuseInside(plan.workspace, what, place)
}

async function writeProject(plan: Plan, policy: SessionPolicy, installation: Installation, guard: GuardWorkspace): Promise<ComposeProject> {
  const { name, stateDir, secretsDir, owner } = plan
  // Before the subnet: a reservation whose project has no folder here counts as abandoned.
  const isRunning = engineRuns(name)
  const networks = engineNetworks()
  for (const folder of [join(plan.home, name), stateDir]) mkdirSync(folder, { recursive: true, mode: 0o700 })
  const workspace = await coveredWorkspace(plan, policy, guard, isRunning)
  const jail = reserveJail(plan.home, name, plan.present.get('SALLYPORT_SUBNET'), networks)
  const env = environmentOf(plan, jail, installation, agentFileOf(stateDir, policy.worthless))
  const lease = plan.present.get('SALLYPORT_LEASE') || randomBytes(24).toString('base64url')
  // What proves a request to be the session's own, for policies that want that.
  env.set('SALLYPORT_LEASE', lease)
  env.set('SALLYPORT_PROXY_URL', policy.isLeaseRequired ? `http://agent:${lease}@sallyport:3128` : '')
  const controlDir = makeProjectSocketFolder(dirname(plan.home), name, owner)
  env.set('SALLYPORT_CONTROL_DIR', controlDir)
  writeState(plan, policy.worthless, workspaceFile(workspace, policy.session), jail)
  if (plan.demo) env.set('SALLYPORT_DEMO_TOKEN_SHA256', demoTokenHash(secretsDir))
  writeEnvFile(plan.envFile, env)
  writeProjectFile(stateDir, {
    version: 1,
    name,
    workspace: plan.workspace,
    owner,
    policies: plan.policies.files.map((file) => join(plan.policies.dir, file)),
    policyDirs: [...installation.policyDirs],
    secretsDir,
    agentLeases: [leaseDigest(lease)],
    filesystem: policy.filesystem,
    kept: workspace.kept,
  })
  const { worthless, secretFiles } = policy
  const warnings = [...policy.warnings, ...workspace.warnings]
  return { ...plan, jail, warnings, worthless, isRunning, controlDir, missing: missingSecrets(secretFiles, secretsDir) }
}

/**
 * As a session of the controller has it. Where the project runs already, its own agent is one of those that could put links in the place
 * of what is about to be mounted, unless it was covered before that agent started.
 */
async function coveredWorkspace(
  { workspace, stateDir, owner }: Plan,
  { filesystem }: SessionPolicy,
  guard: GuardWorkspace,
  isRunning: boolean,
): Promise<WorkspaceMounts> {
  const filesDir = join(stateDir, 'files')
  const before = isRunning ? readProjectFile(stateDir)?.kept : undefined
  const covered = await guard(before === undefined ? [] : [before]).mounts({ workspace, filesystem, owner, filesDir })
  if (filesystem.workspace !== 'rw') return covered
  return { ...covered, mounts: [...covered.mounts, ...(await coverMountsBelow(covered.mounts, workspace, filesDir, owner))] }
}

function environmentOf(plan: Plan, jail: Jail, { packageRoot }: Installation, agentFile: string | undefined): Map<string, string> {
  const { name, workspace, stateDir, secretsDir, policies, extraCa, owner, demo, present } = plan
  const env = new Map([
    ['COMPOSE_PROJECT_NAME', name],
    ['COMPOSE_FILE', [join(packageRoot, 'compose.yaml'), join(stateDir, WORKSPACE_FILE), agentFile ?? []].flat().join(':')],
    ['SALLYPORT_WORKSPACE', workspace],
    ['SALLYPORT_SUBNET', jail.subnet],
    ['SALLYPORT_IP_RANGE', jail.ipRange],
    ['SALLYPORT_SIDECAR_IP', jail.sidecar],
    ['SALLYPORT_GATEWAY_MODE', engineIsolates() ? 'isolated' : 'nat'],
    ['SALLYPORT_UID', String(owner.uid)],
    ['SALLYPORT_GID', String(owner.gid)],
    ['SALLYPORT_STATE_DIR', stateDir],
    ['SALLYPORT_HOME_ID', homeLabel(dirname(plan.home))['sallyport.home']],
    ['SALLYPORT_SECRETS_DIR', secretsDir],
    ['SALLYPORT_POLICY_DIR', policies.dir],
    ['SALLYPORT_POLICY', policies.files.map((policy) => `${POLICY_MOUNT}/${policy}`).join(':')],
    ['SALLYPORT_OWN_POLICIES', plan.ownPolicies ?? ''],
    ['SALLYPORT_PLACEHOLDER_SEED', plan.placeholderSeed],
    ['SALLYPORT_AGENT_CPUS', present.get('SALLYPORT_AGENT_CPUS') ?? String(Math.min(AGENT_CPUS_MAX, engineCpus()))],
  ])
  if (extraCa !== undefined) env.set('SALLYPORT_EXTRA_CA', extraCa)
  const baseImage = baseImageOf(plan.baseImage)
  if (baseImage !== undefined) env.set('NODE_IMAGE', baseImage)
  // Without the demo its authority must not stay among those that upstreams may be certified by.
  if (demo || plan.leavesDemo) {
    env.set('COMPOSE_PROFILES', demo ? DEMO_PROFILE : '')
    env.set('SALLYPORT_UPSTREAM_CA', demo ? '/etc/sallyport/demo-ca/ca.crt' : '')
    env.set('SALLYPORT_DEMO_TOKEN_SHA256', '')
  }
  return env
}

/** What `docker compose build` needs where no registry answers. `undefined` leaves the file's line as it is, an empty text is the default. */
function baseImageOf(named: string | undefined): string | undefined {
  if (named !== undefined && named !== OWN_BASE_IMAGE) return undefined
  if (engineHasImage(OWN_BASE_IMAGE) && !engineHasImage(BASE_IMAGE)) return OWN_BASE_IMAGE
  return named === undefined ? undefined : ''
}

function projectName(workspace: string): string {
  const slug = basename(workspace)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 24)
  const hash = createHash('sha256').update(workspace).digest('hex').slice(0, 8)
  return ['sallyport', slug, hash].filter(Boolean).join('-')
}

function policyFiles(request: ProjectRequest, present: ReadonlyMap<string, string>, packageRoot: string): Plan['policies'] {
  const paths = request.demo && request.policy.length === 0 ? [join(packageRoot, 'policies', 'demo.yaml')] : request.policy
  if (paths.length === 0) {
    const [dir, files] = [present.get('SALLYPORT_POLICY_DIR'), present.get('SALLYPORT_POLICY')]
    if (dir !== undefined && files !== undefined) {
      return { dir: placeInFile(dir, packageRoot), files: files.split(':').map((file) => basename(file)) }
    }
    throw new SallyportError('usage', 'no policy is named', { hint: 'add --policy FILE, or --demo to try it out' })
  }
  const real = paths.map((file) => {
    if (!existsSync(file)) throw new SallyportError('policy_not_found', `policy "${file}" does not exist`)
    return realpathSync(file)
  })
  const split = real.find((file) => basename(file).includes(':'))
  if (split !== undefined)
    throw new SallyportError('config_invalid', `policy "${split}" has a ":" in its name, which separates policies`, { hint: 'rename it' })
  const dirs = new Set(real.map((file) => dirname(file)))
  if (dirs.size > 1) {
    throw new SallyportError('usage', `the policies lie in ${dirs.size} folders`, {
      hint: 'put them into one: a container can mount one folder here',
    })
  }
  return { dir: dirname(real[0] ?? ''), files: real.map((file) => basename(file)) }
}

function realFolder(path: string, what: string): string {
  try {
    if (statSync(path).isDirectory()) return realpathSync(path)
  } catch (cause) {
    if (codeOf(cause) !== 'ENOENT') throw cause
  }
  throw new SallyportError('config_invalid', `${what} "${path}" is not a folder`)
}

/** A path of the `.env`. compose reads a relative one from the folder of compose.yaml. */
function placeInFile(path: string, packageRoot: string): string {
  return realpathOfNearest(resolve(packageRoot, path))
}

/** The real path is what is checked and what is written: a symlink on the way could lead through the workspace. */
function realFile(path: string | undefined, base = '/'): string | undefined {
  if (path === undefined || path === '') return undefined
  const full = resolve(base, path)
  if (existsSync(full) && statSync(full).isFile()) return realpathSync(full)
  throw new SallyportError('config_invalid', `SALLYPORT_EXTRA_CA "${path}" is not a file`, { hint: 'write the whole path of a PEM file' })
}

function refuseInside(workspace: string, what: string, place: string): void {
  const inside = relative(workspace, realpathOfNearest(place))
  if (inside === '' || (inside !== '..' && !inside.startsWith(`..${sep}`))) {
    throw new SallyportError('config_invalid', `${what} (${place}) lies in the workspace ${workspace}, where the agent could rewrite it`, {
      hint: 'keep it outside of what the agent may write',
    })
  }
}

function writeState(plan: Plan, worthless: Worthless, text: string, jail: Jail): void {
  const { stateDir, secretsDir, owner, demo } = plan
  writeFileSync(join(stateDir, WORKSPACE_FILE), text)
  writeAgentFiles(stateDir, owner, worthless)
  writeResolver(stateDir, jail.sidecar)
  makeSecretsFolder(secretsDir, demo)
  // A folder that the operator named is the operator's to set up.
  if (secretsDir === join(stateDir, 'secrets')) handOver(secretsDir, owner)
}

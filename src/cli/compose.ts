import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { readEnvFile, writeEnvFile } from '../controller/sessions/env-file.ts'
import { GIT_ENVIRONMENT, guardGit } from '../controller/sessions/git-guard.ts'
import type { Jail } from '../controller/sessions/jail.ts'
import { reserveJail, type EngineNetwork } from '../controller/sessions/subnets.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { homeOf, packageRoot, parseFlags, type Command, type Io } from './command.ts'

/** For an operator who is root: the containers' processes are nobody on the host. */
const UNPRIVILEGED_UID = 10_001
const AGENT_CPUS_MAX = 2
/** What compose.yaml cannot say for every workspace, beside the project's state. */
const WORKSPACE_FILE = 'workspace.yaml'
const DEMO_PROFILE = 'demo'
const POLICY_MOUNT = '/etc/sallyport/policy'

export const composeCommand: Command = {
  summary: 'write the .env that compose.yaml reads for one workspace',
  usage: `usage: sallyport compose [--workspace DIR] [--policy FILE]… [--output FILE] [--demo]

Writes the .env for one workspace: a project name of its own, a free subnet for the jail network, the sidecar's address, the
operator's uid, and where the policy and the secrets are. What stands in the file already is kept, so that it can be run again.
Then: docker compose up -d --wait sidecar agent

  --workspace DIR    what the agent works on (default: the one in the file, else the current folder)
  --policy FILE      policy of the session; all in one folder, which is mounted read-only (default: the ones in the file)
  --output FILE      default: .env next to compose.yaml. A second workspace has a file of its own; name it to docker compose
                     with --env-file
  --demo             the demo's policy, a token made at random, and the profile "demo"

Secrets are files in the folder SALLYPORT_SECRETS_DIR, which only the sidecar sees as /run/secrets.
`,
  async run(argv, io) {
    const { values } = parseFlags(
      argv,
      {
        workspace: { type: 'string' },
        policy: { type: 'string', multiple: true },
        // Not --env-file: Node takes an option of that name for itself wherever it stands on the command line.
        output: { type: 'string' },
        demo: { type: 'boolean', default: false },
      },
      { min: 0, max: 0 },
    )
    const envFile = resolve(values.output ?? join(packageRoot, '.env'))
    const project = planProject(envFile, { workspace: values.workspace, policy: values.policy ?? [], demo: values.demo }, io.env)
    writeState(project)
    writeEnvFile(envFile, project.env)
    io.out(describe(project, envFile))
    return 0
  },
}

type Owner = { readonly uid: number; readonly gid: number }
type Asked = { readonly workspace: string | undefined; readonly policy: readonly string[]; readonly demo: boolean }
type Project = {
  readonly name: string
  readonly workspace: string
  readonly stateDir: string
  readonly secretsDir: string
  readonly jail: Jail
  readonly owner: Owner
  readonly demo: boolean
  readonly env: Map<string, string>
}

function planProject(envFile: string, asked: Asked, environment: Io['env']): Project {
  const file = readEnvFile(envFile)
  const workspace = realFolder(asked.workspace ?? file.get('SALLYPORT_WORKSPACE') ?? process.cwd(), 'workspace')
  // A file that served another workspace passes nothing on: its secrets and its policy were that one's.
  const present = file.get('SALLYPORT_WORKSPACE') === workspace ? file : new Map<string, string>()
  const demo = asked.demo || (asked.policy.length === 0 && present.get('COMPOSE_PROFILES') === DEMO_PROFILE)
  const name = present.get('COMPOSE_PROJECT_NAME') ?? projectName(workspace)
  const home = join(resolve(homeOf(environment)), 'compose')
  const stateDir = join(home, name)
  const secretsDir = present.get('SALLYPORT_SECRETS_DIR') ?? join(stateDir, 'secrets')
  const policies = policyFiles(asked, present)
  // Whatever the agent can write must not decide what holds the agent, or what the operator's next command runs.
  for (const [what, place] of [
    ['the .env', envFile],
    ['compose.yaml', packageRoot],
    ["Sallyport's state", stateDir],
    ['the folder of secrets', secretsDir],
    ['the policy', policies.dir],
    ["the engine's socket", '/var/run/docker.sock'],
  ] as const) {
    refuseInside(workspace, what, place)
  }
  const owner = ownerOf(workspace)
  // Before the subnet: a reservation whose project has no state counts as abandoned.
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  const jail = reserveJail(home, name, present.get('SALLYPORT_SUBNET'), engineNetworks())
  const env = new Map([
    ['COMPOSE_PROJECT_NAME', name],
    ['COMPOSE_FILE', [join(packageRoot, 'compose.yaml'), join(stateDir, WORKSPACE_FILE)].join(':')],
    ['SALLYPORT_WORKSPACE', workspace],
    ['SALLYPORT_SUBNET', jail.subnet],
    ['SALLYPORT_IP_RANGE', jail.ipRange],
    ['SALLYPORT_SIDECAR_IP', jail.sidecar],
    ['SALLYPORT_GATEWAY_MODE', engineIsolates() ? 'isolated' : 'nat'],
    ['SALLYPORT_UID', String(owner.uid)],
    ['SALLYPORT_GID', String(owner.gid)],
    ['SALLYPORT_STATE_DIR', stateDir],
    ['SALLYPORT_SECRETS_DIR', secretsDir],
    ['SALLYPORT_POLICY_DIR', policies.dir],
    ['SALLYPORT_POLICY', policies.files.map((policy) => `${POLICY_MOUNT}/${policy}`).join(':')],
    ['SALLYPORT_AGENT_CPUS', present.get('SALLYPORT_AGENT_CPUS') ?? String(Math.min(AGENT_CPUS_MAX, engineCpus()))],
  ])
  const extraCa = environment['SALLYPORT_EXTRA_CA']
  if (extraCa !== undefined && extraCa !== '') env.set('SALLYPORT_EXTRA_CA', realpathSync(extraCa))
  // Without the demo its authority must not stay among those that upstreams may be certified by.
  if (demo || file.get('COMPOSE_PROFILES') === DEMO_PROFILE) {
    env.set('COMPOSE_PROFILES', demo ? DEMO_PROFILE : '')
    env.set('SALLYPORT_UPSTREAM_CA', demo ? '/etc/sallyport/demo-ca/ca.crt' : '')
    env.set('SALLYPORT_DEMO_TOKEN_SHA256', '')
  }
  return { name, workspace, stateDir, secretsDir, jail, owner, demo, env }
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

function policyFiles(asked: Asked, present: ReadonlyMap<string, string>): { dir: string; files: string[] } {
  const paths = asked.demo && asked.policy.length === 0 ? [join(packageRoot, 'policies', 'demo.yaml')] : asked.policy
  if (paths.length === 0) {
    const [dir, files] = [present.get('SALLYPORT_POLICY_DIR'), present.get('SALLYPORT_POLICY')]
    if (dir !== undefined && files !== undefined) return { dir, files: files.split(':').map((file) => basename(file)) }
    throw new SallyportError('usage', 'no policy is named', { hint: 'add --policy FILE, or --demo to try it out' })
  }
  const real = paths.map((file) => {
    if (!existsSync(file)) throw new SallyportError('policy_not_found', `policy "${file}" does not exist`)
    return realpathSync(file)
  })
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

function refuseInside(workspace: string, what: string, place: string): void {
  const inside = relative(workspace, realpathOfNearest(place))
  if (inside === '' || (inside !== '..' && !inside.startsWith(`..${sep}`))) {
    throw new SallyportError('config_invalid', `${what} (${place}) lies in the workspace ${workspace}, where the agent could rewrite it`, {
      hint: 'keep it outside of what the agent may write',
    })
  }
}

/** The real path of what exists of a path, with the rest appended: the workspace may be reached through a symlink. */
function realpathOfNearest(path: string): string {
  return existsSync(path) ? realpathSync(path) : join(realpathOfNearest(dirname(path)), basename(path))
}

/** The operator; for root the workspace's owner, and where that is root too, a uid that owns nothing. */
function ownerOf(workspace: string): Owner {
  const [uid, gid] = [process.getuid?.() ?? UNPRIVILEGED_UID, process.getgid?.() ?? UNPRIVILEGED_UID]
  if (uid !== 0) return { uid, gid }
  const folder = statSync(workspace)
  return folder.uid === 0 ? { uid: UNPRIVILEGED_UID, gid: UNPRIVILEGED_UID } : { uid: folder.uid, gid: folder.gid }
}

function engineNetworks(): EngineNetwork[] {
  const ids = docker(['network', 'ls', '--quiet', '--no-trunc']).split('\n').filter(Boolean)
  if (ids.length === 0) return []
  const format = '{{index .Labels "com.docker.compose.project"}}|{{range .IPAM.Config}}{{.Subnet}} {{end}}'
  return docker(['network', 'inspect', '--format', format, ...ids])
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [project = '', subnets = ''] = line.split('|')
      return { project, subnets: subnets.split(' ').filter(Boolean) }
    })
}

function engineCpus(): number {
  const count = Number(docker(['info', '--format', '{{.NCPU}}']))
  return Number.isInteger(count) && count > 0 ? count : availableParallelism()
}

/** Engine 28 (API 1.48) can leave a bridge without any address of the host by itself. */
function engineIsolates(): boolean {
  const [major = 0, minor = 0] = docker(['version', '--format', '{{.Server.APIVersion}}']).split('.').map(Number)
  return major > 1 || (major === 1 && minor >= 48)
}

function docker(args: readonly string[]): string {
  try {
    return execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 30_000 }).trim()
  } catch (cause) {
    throw new SallyportError('engine_unavailable', `docker ${args.slice(0, 2).join(' ')} failed`, {
      hint: 'is the Docker Engine running, and may you use it? "docker version" must show a Server',
      cause,
    })
  }
}

function writeState(project: Project): void {
  const { workspace, stateDir, secretsDir, owner, demo, env } = project
  mkdirSync(secretsDir, { recursive: true, mode: 0o700 })
  writeFileSync(join(stateDir, WORKSPACE_FILE), workspaceFile(workspace))
  writeFileSync(join(stateDir, 'passwd'), passwd(owner), { mode: 0o644 })
  writeFileSync(join(stateDir, 'group'), group(owner), { mode: 0o644 })
  if (demo) {
    const file = join(secretsDir, 'DEMO_TOKEN')
    if (!existsSync(file)) writeFileSync(file, randomBytes(32).toString('base64url'), { mode: 0o400, flag: 'wx' })
    env.set('SALLYPORT_DEMO_TOKEN_SHA256', createHash('sha256').update(readFileSync(file, 'utf8').trim()).digest('hex'))
  }
  // A folder that the operator named is the operator's to set up.
  if (secretsDir === join(stateDir, 'secrets')) handOver(secretsDir, owner)
}

/** The mounts over the workspace's git metadata, as JSON, which is YAML too. compose reads a dollar sign as a variable. */
function workspaceFile(workspace: string): string {
  const volumes = guardGit(workspace).map(({ path, readOnly }) => ({
    type: 'bind',
    source: join(workspace, path),
    target: `/workspace/${path}`,
    read_only: readOnly,
    bind: { create_host_path: false },
  }))
  const agent = volumes.length === 0 ? {} : { volumes, environment: GIT_ENVIRONMENT }
  return `${JSON.stringify({ services: { agent } }, null, 2).replaceAll('$', '$$$$')}\n`
}

/** Only the sidecar's uid reads the secrets. The owner can be set by root only; anybody else is that uid already. */
function handOver(secretsDir: string, owner: Owner): void {
  const isRoot = process.getuid?.() === 0
  for (const name of readdirSync(secretsDir)) {
    const file = join(secretsDir, name)
    if (!lstatSync(file).isFile()) continue
    chmodSync(file, 0o400)
    if (isRoot) chownSync(file, owner.uid, owner.gid)
  }
  chmodSync(secretsDir, 0o700)
  if (isRoot) chownSync(secretsDir, owner.uid, owner.gid)
}

function passwd({ uid, gid }: Owner): string {
  return `root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\nagent:x:${uid}:${gid}:agent:/home/agent:/bin/bash\n`
}

function group({ gid }: Owner): string {
  return `root:x:0:\nnogroup:x:65534:\nagent:x:${gid}:\n`
}

function describe({ name, workspace, jail, owner, secretsDir }: Project, envFile: string): string {
  const folder = statSync(workspace)
  const warning =
    folder.uid === owner.uid || (folder.mode & 0o002) !== 0
      ? ''
      : `note       the agent runs as uid ${owner.uid} and cannot write the workspace, which belongs to uid ${folder.uid}: chown -R ${owner.uid}:${owner.gid} it, or leave it so\n`
  return `project    ${name}\nworkspace  ${workspace}\nsubnet     ${jail.subnet} (sidecar ${jail.sidecar})\nsecrets    ${secretsDir}\nwritten    ${envFile}\n${warning}`
}

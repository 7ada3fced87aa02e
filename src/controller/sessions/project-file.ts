import { createHash } from 'node:crypto'
import { chmodSync, chownSync, lstatSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import * as z from 'zod'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { loadPolicy, type Policy } from '../../policy/policy.ts'
import type { SecretSource } from '../../wire/secret-source.ts'
import type { Owner } from './agent-files.ts'

const NAME = /^sallyport-[a-z0-9-]{1,64}$/

/** What a compose project is, for a daemon of the same home. No secret is in it. */
export const ProjectFile = z.strictObject({
  version: z.literal(1),
  name: z.string().regex(NAME),
  workspace: z.string(),
  owner: z.strictObject({ uid: z.int(), gid: z.int() }),
  policies: z.array(z.string()),
  policyDirs: z.array(z.string()),
  secretsDir: z.string(),
  /** SHA-256, hex, of what the agent shows as its lease. */
  agentLeases: z.array(z.string()),
  filesystem: z.strictObject({
    workspace: z.enum(['rw', 'ro', 'none']),
    hide: z.array(z.string()),
    git_metadata: z.enum(['protected', 'writable']),
  }),
  /** What the workspace's guard looks at when a session ends. */
  kept: z.unknown(),
})
export type ProjectFile = z.infer<typeof ProjectFile>

const FILE = 'project.json'
const MOUNT = '/run/secrets'

/** Folders of all compose projects of a home. */
export function projectsFolder(home: string): string {
  return join(home, 'compose')
}

export function writeProjectFile(stateDir: string, project: ProjectFile): void {
  const file = join(stateDir, FILE)
  writeFileSync(file, JSON.stringify(project), { mode: 0o600 })
  chmodSync(file, 0o600)
}

/** The project of this folder; undefined where there is none, or none that this version knows. */
export function readProjectFile(stateDir: string): ProjectFile | undefined {
  try {
    const file = join(stateDir, FILE)
    if (statSync(file).size > LIMITS.operatorBodyBytesMax) return undefined
    const read = ProjectFile.safeParse(JSON.parse(readFileSync(file, 'utf8')))
    return read.success && read.data.name === basename(stateDir) ? read.data : undefined
  } catch (error) {
    if (error instanceof SyntaxError || ['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return undefined
    throw error
  }
}

/** The project of this name in a home. Who may ask for one by its name may not say where: its policy and its secrets are what its file says. */
export function findProject(home: string, name: string): ProjectFile | undefined {
  if (!NAME.test(name)) return undefined
  const folder = join(projectsFolder(home), name)
  return lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() === true ? readProjectFile(folder) : undefined
}

/** Every project that was made in this home. */
export function projectsOf(home: string): ProjectFile[] {
  try {
    return readdirSync(projectsFolder(home)).flatMap((name) => findProject(home, name) ?? [])
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}

/** The folder that the gate of a project mounts, for a daemon to put its socket into: a path short enough for one. */
export function projectSocketFolder(home: string, project: string): string {
  return join(home, 'c', createHash('sha256').update(project).digest('hex').slice(0, 8))
}

/** Makes that folder, empty: without a daemon the gate finds no lease in it. */
export function makeProjectSocketFolder(home: string, project: string, { uid, gid }: Owner): string {
  const folder = projectSocketFolder(home, project)
  mkdirSync(dirname(folder), { recursive: true, mode: 0o700 })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  chmodSync(folder, 0o700)
  if (process.getuid?.() === 0) chownSync(folder, uid, gid)
  return folder
}

/**
 * A project's policy as it is now, with the folder of secrets where it is on the host.
 * @throws policy_invalid, policy_not_found
 */
export function projectPolicy(home: string, name: string): Policy {
  const project = findProject(home, name)
  if (project === undefined) throw new SallyportError('policy_not_found', `the compose project ${name} is gone from ${home}`)
  const { policies, policyDirs, secretsDir } = project
  for (const file of policies)
    if (statSync(file, { throwIfNoEntry: false }) === undefined)
      throw new SallyportError('policy_not_found', `policy "${file}" does not exist`)
  const policy = loadPolicy(policies, { policyDirs })
  return { ...policy, secrets: policy.secrets.map((grant) => ({ ...grant, source: onHost(grant.source, secretsDir) })) }
}

function onHost(source: SecretSource, secretsDir: string): SecretSource {
  if (source.kind === 'file' && source.path.startsWith(`${MOUNT}/`))
    return { ...source, path: join(secretsDir, source.path.slice(MOUNT.length)) }
  if (source.kind === 'exec') return { ...source, argv: source.argv.map((argument) => argument.replaceAll(`${MOUNT}/`, `${secretsDir}/`)) }
  return source
}

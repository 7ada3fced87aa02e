import { existsSync, realpathSync, statSync } from 'node:fs'
import { join, posix, relative, sep } from 'node:path'
import { createPlaceholders, credentialFiles } from '../../credential/credential.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { formatDiagnostic, formatPlace, loadPolicy, showPolicy, type Policy } from '../../policy/policy.ts'
import type { SecretSource } from '../../wire/secret-source.ts'
import type { Worthless } from './agent-files.ts'
import type { ProjectFile } from './project-file.ts'

/** A file below /run/secrets that the policy's secrets are read from. */
export type SecretFile = {
  /** The secret, as the policy calls it. */
  readonly name: string
  /** Its file, from the folder of secrets. */
  readonly path: string
  /** The sidecar reads it when it starts, and does not start without. Else a command reads it when a request needs it. */
  readonly atStart: boolean
}

/** What a policy asks of the machine that a session is set up on. */
export type SessionPolicy = {
  /** `file:line: …` each. */
  readonly warnings: readonly string[]
  /** By path, each once. */
  readonly secretFiles: readonly SecretFile[]
  /** Whether the agent's programs have to show the session's lease. */
  readonly isLeaseRequired: boolean
  /** What its agent holds in the place of credentials. */
  readonly worthless: Worthless
  /** What its agent has of the workspace. */
  readonly filesystem: ProjectFile['filesystem']
  /** What its agent's container is made of. */
  readonly session: Policy['session']
}

type ProjectSurroundings = { readonly policyDirs: readonly string[]; readonly placeholderSeed: string; readonly hasController?: boolean }

/** What the sidecar sees of the host's secrets. */
const SECRETS_MOUNT = '/run/secrets'
/** Sources that a container sees nothing of: vaults, and programs that know the operator. */
const HOST_KINDS: ReadonlySet<SecretSource['kind']> = new Set(['vault', 'op', 'keychain', 'libsecret', 'pass', 'vault-http', 'mcp-config'])
/** A path within an argument, as in `--file=/run/secrets/NAME` or the script of `sh -c`. */
const WITHIN_ARGUMENT = /\/run\/secrets\/([\w.@+/-]+)/g

/**
 * Reads the policy as the sidecar of a compose project will: from the named files and those of the installation, with secrets
 * from files and commands only, and makes its placeholders from the same seed. `files` are real paths.
 * @throws SallyportError policy_invalid, policy_not_found with every error in the message, one a line
 */
export function readSessionPolicy(
  files: readonly string[],
  { policyDirs, placeholderSeed, hasController = false }: ProjectSurroundings,
): SessionPolicy {
  const policy = loadPolicy(files, { policyDirs })
  refuseFilesOutside(policy, files, policyDirs)
  refuseSources(policy, hasController)
  refuseSettings(policy)
  const found = policy.secrets.flatMap(({ name, source }) =>
    filesOf(source).map((path) => ({ name, path, atStart: source.kind === 'file' })),
  )
  // Of two that read one file the stricter says when it must be there.
  const byPath = new Map(found.toSorted((a, b) => Number(a.atStart) - Number(b.atStart)).map((file) => [file.path, file]))
  const { values } = createPlaceholders(policy.placeholders, placeholderSeed)
  return {
    warnings: policy.warnings.map(formatDiagnostic),
    secretFiles: found.filter((file) => byPath.get(file.path) === file),
    isLeaseRequired: policy.isLeaseRequired,
    worthless: { values, files: credentialFiles(policy.credentials, values) },
    filesystem: {
      workspace: policy.filesystem.workspace,
      hide: [...policy.filesystem.hide],
      git_metadata: policy.filesystem.gitMetadata,
    },
    session: policy.session,
  }
}

/** Those of which the folder of secrets has no file: also none behind a symlink that leads out of the folder, which is all that is mounted. */
export function missingSecrets(secretFiles: readonly SecretFile[], secretsDir: string): SecretFile[] {
  const root = realpathSync(secretsDir)
  return secretFiles.filter(({ path }) => {
    try {
      const real = realpathSync(join(root, path))
      return !real.startsWith(`${root}${sep}`) || !statSync(real).isFile()
    } catch {
      return true
    }
  })
}

/** The sidecar's `extends` finds what its image holds and what the operator's own policy folder does: that is all that is mounted, and no link leads out of it. */
function refuseFilesOutside(policy: Policy, named: readonly string[], policyDirs: readonly string[]): void {
  const roots = policyDirs.filter((folder) => existsSync(folder)).map((folder) => realpathSync(folder))
  const outside = showPolicy(policy).files.filter((file) => {
    const real = realpathSync(file)
    return !named.includes(real) && !roots.some((root) => isInside(root, real))
  })
  if (outside.length === 0) return
  throw new SallyportError(
    'policy_invalid',
    outside.map((file) => `${file}: extended by the policy, but the sidecar cannot see it`).join('\n'),
    {
      hint: 'put it beside the policy and name it with --policy as well, instead of extending it',
    },
  )
}

/** What compose.yaml cannot do: to leave it out in silence would be to give an agent more than the policy says. */
function refuseSettings({ session, effective }: Policy): void {
  const from = { user: effective.session.user?.from, seccomp: effective.session.seccomp?.from }
  const names = (['user', 'seccomp'] as const).filter((name) =>
    name === 'user' ? session.user !== 'operator' : session.seccomp !== undefined,
  )
  if (names.length === 0) return
  const errors = names.map(
    (name) => `${from[name] === undefined ? '' : `${formatPlace(from[name])}: `}session.${name} is not for a compose project`,
  )
  throw new SallyportError('policy_invalid', errors.join('\n'), { hint: 'leave it out, or start the session with sallyport up' })
}

/** `hasController`: a daemon of this home has the secrets that are kept on the host. */
function refuseSources(policy: Policy, hasController: boolean): void {
  const errors = showPolicy(policy).secrets.flatMap(({ name, source, from }) => {
    if (source.kind === 'env')
      return [`${formatPlace(from)}: secret "${name}": the sidecar of a compose project has no environment variable ${source.variable}`]
    if (source.kind === 'file' && filesOf(source).length === 0)
      return [`${formatPlace(from)}: secret "${name}": the sidecar of a compose project does not see ${source.path}`]
    if (HOST_KINDS.has(source.kind) && !hasController)
      return [
        `${formatPlace(from)}: secret "${name}": the sidecar of a compose project cannot read "${source.kind}:", which is on the host`,
      ]
    return []
  })
  if (errors.length === 0) return
  throw new SallyportError('policy_invalid', errors.join('\n'), {
    hint: `use "file:${SECRETS_MOUNT}/NAME": the folder of secrets is mounted there, and this command says where it is`,
  })
}

/** Below the folder of secrets. */
function filesOf(source: SecretSource): string[] {
  switch (source.kind) {
    case 'file':
      return belowMount(source.path)
    case 'exec':
      return source.argv.flatMap((argument) =>
        argument.startsWith(`${SECRETS_MOUNT}/`)
          ? belowMount(argument)
          : [...argument.matchAll(WITHIN_ARGUMENT)].flatMap(([path]) => belowMount(path)),
      )
    default:
      return []
  }
}

function belowMount(path: string): string[] {
  const below = posix.relative(SECRETS_MOUNT, posix.normalize(path))
  return below === '' || below === '..' || below.startsWith('../') || path.endsWith('/') ? [] : [below]
}

function isInside(folder: string, file: string): boolean {
  const inside = relative(folder, file)
  return inside !== '..' && !inside.startsWith(`..${sep}`)
}

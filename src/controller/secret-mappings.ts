import { existsSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { codeOf } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { describeAlso, describePlace, loadPolicy, type EffectivePolicy, type Place, type Policy } from '../policy/policy.ts'
import type { SecretSource } from '../wire/secret-source.ts'
import type { MappingPlace, MappingsView } from '../wire/secrets.ts'
import { rememberedFile } from './approvals/approvals.ts'
import { namesIn, rolesOfHome, workspacesOfHome } from './home-policies.ts'
import { readHomeServers } from './mcp-servers/home-file.ts'

export type MappingsParts = {
  readonly home: string
  /** The folder of the installation. */
  readonly packageRoot: string
  /** Sessions that live. @throws policy_not_found, policy_invalid from `policy` */
  readonly livePolicies: () => readonly { readonly id: string; readonly name: string; readonly policy: () => Policy }[]
}

type Seen = { readonly label: string; readonly policy: Policy; readonly session?: { readonly id: string; readonly name: string } }

/** Who has a use for a key of the vault, by the operator's layers as they are now, and the sessions that live. No value is read. */
export function mappingsOf(key: string, parts: MappingsParts): MappingsView {
  const problems: string[] = []
  const found = { declarations: new Map<string, unknown>(), credentials: new Map<string, unknown>(), servers: new Map<string, unknown>() }
  const sessions: { id: string; name: string }[] = []
  for (const { policy, session } of policiesOf(parts, problems)) {
    const { effective } = policy
    const declared = effective.secrets.filter(({ source }) => source.kind === 'vault' && source.key === key)
    if (declared.length === 0) continue
    if (session !== undefined) sessions.push({ id: session.id, name: session.name })
    const names = new Set(declared.map(({ name }) => name))
    for (const { name, uses } of policy.secrets) {
      const from = declared.find((one) => one.name === name)?.from
      if (from === undefined) continue
      const said = `${name} ${uses.join(' ')}`
      if (!found.declarations.has(said)) found.declarations.set(said, { ...placeOf(from, parts), secret: name, resources: uses })
    }
    for (const one of credentialsOf(effective, names)) {
      const said = JSON.stringify([one.id, one.domains, one.place])
      if (!found.credentials.has(said)) found.credentials.set(said, { ...one, ...placeOf(one.from, parts) })
    }
    for (const server of policy.mcpServers)
      if (mentions(server, key)) found.servers.set(server.name, { name: server.name, where: session?.name ?? 'policies' })
  }
  for (const { name } of homeServersWith(key, parts.home, problems)) found.servers.set(name, { name, where: 'mcp.json' })
  return {
    declarations: [...found.declarations.values()] as MappingsView['declarations'],
    credentials: [...found.credentials.values()] as MappingsView['credentials'],
    servers: [...found.servers.values()] as MappingsView['servers'],
    sessions,
    problems: [...new Set(problems)],
  }
}

/** Whether some policy of the operator's, or of a session that lives, has this very source for a secret. */
export function isDeclared(source: SecretSource, parts: MappingsParts): boolean {
  const text = JSON.stringify(source)
  return policiesOf(parts, []).some(({ policy }) => policy.secrets.some((one) => JSON.stringify(one.source) === text))
}

/** Every policy that the layers make without a session, and those of sessions. What cannot be read is told. */
function policiesOf({ home, packageRoot, livePolicies }: MappingsParts, problems: string[]): Seen[] {
  const policies = join(home, 'policies')
  const policyDirs = [join(packageRoot, 'policies'), policies]
  const global = join(policies, 'global.yaml')
  const below = existsSync(global) ? [global] : []
  const wanted: { label: string; files: string[] }[] = [
    { label: 'global', files: below },
    ...rolesOfHome(home).map((role) => ({ label: `role ${role}`, files: [...below, join(policies, 'roles', `${role}.yaml`)] })),
    ...namesIn(join(policies, 'workspaces')).map((name) => {
      const own = join(policies, 'workspaces', name, 'policy.yaml')
      const remembered = join(policies, 'remembered', `${name}.yaml`)
      return { label: `workspace ${name.slice(0, 8)}`, files: [...below, ...[own, remembered].filter((file) => existsSync(file))] }
    }),
  ]
  if (wanted.length > LIMITS.secretLayersMax)
    problems.push(`${wanted.length} layers, of which ${LIMITS.secretLayersMax} are looked through`)
  const seen: Seen[] = []
  const look = (label: string, policy: () => Policy, session?: Seen['session']): void => {
    try {
      seen.push({ label, policy: policy(), ...(session && { session }) })
    } catch (error) {
      problems.push(`${label}: ${error instanceof Error ? error.message : codeOf(error)}`)
    }
  }
  for (const { label, files } of wanted.slice(0, LIMITS.secretLayersMax))
    if (files.length > 0) look(label, () => loadPolicy(files, { policyDirs }))
  for (const { id, name, policy } of livePolicies()) look(`session ${name}`, policy, { id, name })
  return seen
}

function credentialsOf({ credentials }: EffectivePolicy, names: ReadonlySet<string>) {
  return credentials.flatMap(({ id, secret, also, place, domains, methods, paths, from }) => {
    const others = also.filter((one) => names.has(one.secret))
    const isAws = place.kind === 'aws' && [place.accessKeyId, place.sessionToken].some((name) => name !== undefined && names.has(name))
    if (!names.has(secret) && others.length === 0 && !isAws) return []
    const said = [...(names.has(secret) || isAws ? [describePlace(place)] : []), ...others.map(describeAlso)].join('; ')
    return [{ id, domains, ...(methods && { methods }), ...(paths && { paths }), place: said, from }]
  })
}

function homeServersWith(key: string, home: string, problems: string[]): readonly { readonly name: string }[] {
  try {
    return readHomeServers(home).entries.filter((server) => mentions(server, key))
  } catch (error) {
    problems.push(error instanceof Error ? error.message : codeOf(error))
    return []
  }
}

function mentions(server: object, key: string): boolean {
  return JSON.stringify(server).includes(`\${secret:${key}}`)
}

function placeOf({ file, line }: Place, { home, packageRoot }: MappingsParts): MappingPlace {
  const policies = join(home, 'policies')
  const own = relative(policies, file)
  const preset = [relative(join(packageRoot, 'policies'), file), own].find((path) => /^(?:service|harness)\/[^/]+\.yaml$/.test(path))
  const role = /^roles\/([^/]+)\.yaml$/.exec(own)?.[1]
  const workspace = workspacesOfHome(home).find((folder) => isOf(folder, own, policies))
  const layer =
    preset !== undefined
      ? `preset ${preset.replace(/\.yaml$/, '')}`
      : own === 'global.yaml'
        ? 'global'
        : role !== undefined
          ? `role ${role}`
          : workspace !== undefined
            ? `workspace ${workspace}`
            : 'session'
  return { file, line, layer }
}

function isOf(workspace: string, own: string, policies: string): boolean {
  const remembered = rememberedFile(join(policies, 'remembered'), workspace)
  const digest = basename(remembered, '.yaml')
  return own === join('workspaces', digest, 'policy.yaml') || own === relative(policies, remembered)
}

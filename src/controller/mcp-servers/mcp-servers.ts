import { SallyportError } from '../../kernel/errors.ts'
import { formatPlace, loadPolicy, secretsOfServer, type Place, type Policy, type SecretGrant } from '../../policy/policy.ts'
import { GATE_MCP_URL, type ServerHow } from '../../wire/mcp-server.ts'
import type { McpServer as Registered } from '../sessions/harness.ts'
import { inputsOf, type SessionLayer, type SessionLayers } from '../sessions/session-layers.ts'
import { policyText } from './entries.ts'
import { homeServersFile, readHomeServers } from './home-file.ts'
import { keepUserServers, type KeptServers, type UserPlace } from './user-servers.ts'

export { userValues, type UserPlace } from './user-servers.ts'

/** An MCP server of a session, as the operator is told of it. */
export type SessionServer = {
  readonly name: string
  readonly how: ServerHow
  /** Its program with arguments, or its URL. No secret is in either. */
  readonly what: string
  /** `file:line`, or a file. */
  readonly from: string
  /** By name. */
  readonly secrets: readonly string[]
  /** Patterns of the tools that agents have; undefined for all. */
  readonly tools?: readonly string[]
  /** What its harness is told. */
  readonly registered: Registered
}

/** The layers of a session with its servers, and what the policy does not say of them. */
export type ServerLayers = {
  readonly layers: SessionLayers
  /** Of the operator's own configuration: called by the agent itself. */
  readonly kept: KeptServers | undefined
}

export type ServersRequest = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  readonly policyDirs: readonly string[]
  /** Where the operator's own servers are; without it none are kept. */
  readonly user?: UserPlace | undefined
  /** What `mcp.json` might say, in the place of what it says. */
  readonly homeText?: string | undefined
}

/**
 * Adds what `mcp.json` and the operator's own configuration of the session's harness say. Both come before the session's own layers, and no
 * value of a secret is in either.
 * @throws mcp_config_invalid for mcp.json; policy_invalid and its kin for the layers
 */
export function withServers(layers: SessionLayers, { home, policyDirs, user, homeText }: ServersRequest): ServerLayers {
  const { entries, lines } = readHomeServers(home, homeText)
  const text = policyText(entries, [], lines)
  const own = entries.length === 0 ? layers : inserted(layers, { layer: 'servers', file: homeServersFile(home), text })
  if (user === undefined) return { layers: own, kept: undefined }
  const { files, restricted } = inputsOf(own)
  const { effective } = loadPolicy(files, { policyDirs, restricted })
  const harness = effective.harness?.value
  if (harness === undefined || effective.mcpUserServers.value === 'drop') return { layers: own, kept: undefined }
  const kept = keepUserServers(user, harness, new Set(effective.mcpServers.map(({ name }) => name)))
  if (kept.file === undefined || kept.servers.length === 0) return { layers: own, kept }
  return { layers: inserted(own, { layer: 'user-servers', file: kept.file, text: policyText(kept.servers, kept.secrets) }), kept }
}

/** Every server of a session, in the order in which they were written. */
export function sessionServers(policy: Policy, kept?: Pick<KeptServers, 'called' | 'file'>): readonly SessionServer[] {
  const ofPolicy = policy.effective.mcpServers.map((server): SessionServer => {
    const { name, tools, from } = server
    const shared = { name, from: placeOf(from, kept?.file), secrets: secretsOfServer(server), ...(tools && { tools }) }
    const atGate = { name, url: `${GATE_MCP_URL}/${name}` }
    if (server.kind === 'http') return { ...shared, how: 'route', what: server.url, registered: atGate }
    const { command, env, isContained } = server
    const [program, ...args] = command
    const what = command.join(' ')
    return isContained
      ? { ...shared, how: 'tool', what, registered: atGate }
      : { ...shared, how: 'direct', what, registered: { name, command: program, args, env } }
  })
  const called = (kept?.called ?? []).map(({ name, url }): SessionServer => ({
    name,
    how: 'direct',
    what: url,
    from: kept?.file ?? '',
    secrets: [],
    registered: { name, url },
  }))
  return [...ofPolicy, ...called]
}

/** Whether a secret has a value for this session, as far as it can be told; else why not. Nothing of the value is kept. */
export type SecretProblem = (grant: SecretGrant) => Promise<string | undefined>

/** Each secret of a server that has no value, a line each. */
export async function missingSecrets(policy: Policy, problemOf: SecretProblem): Promise<readonly string[]> {
  const lines: string[] = []
  for (const server of policy.effective.mcpServers)
    for (const key of secretsOfServer(server)) {
      const grant = policy.secrets.find(({ name }) => name === key)
      const problem = grant === undefined ? `there is no secret ${key}` : await problemOf(grant)
      if (problem !== undefined) lines.push(`${formatPlace(server.from)}: MCP server "${server.name}": ${problem}`)
    }
  return lines
}

/** @throws mcp_config_invalid with every secret that has no value */
export async function refuseMissingSecrets(policy: Policy, problemOf: SecretProblem): Promise<void> {
  const lines = await missingSecrets(policy, problemOf)
  if (lines.length === 0) return
  throw new SallyportError('mcp_config_invalid', lines.join('\n'), {
    hint: 'store it with "sallyport secret set KEY", or take the reference out; "sallyport mcp ls" shows what is from where',
  })
}

/** In a file of another program the line is not known. */
function placeOf(from: Place, userFile: string | undefined): string {
  return from.file === userFile ? from.file : formatPlace(from)
}

function inserted(layers: SessionLayers, layer: SessionLayer): SessionLayers {
  const at = layers.files.findIndex((one) => one.layer === 'session')
  const files = at === -1 ? [...layers.files, layer] : layers.files.toSpliced(at, 0, layer)
  return { ...layers, files }
}

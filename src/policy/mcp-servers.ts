import { entriesOf, valueAt } from './entries.ts'
import type { Layer } from './layers.ts'
import { secretsIn } from './mcp-values.ts'
import type { Diagnostic, EffectiveCredential, EffectiveMcpServer, EffectiveRoute, EffectiveSecret, Place, Said } from './model.ts'
import { formatPlace } from './place.ts'
import { parsed } from './ranking.ts'
import { parseUpstream, type Upstream } from './routes.ts'
import { McpSection, McpServerEntry, type McpServerShape } from './schema-mcp.ts'

export type McpParts = {
  readonly servers: readonly EffectiveMcpServer[]
  readonly userServers: Said<'keep' | 'drop'>
  /** What leads to servers elsewhere, and writes their fields: for them alone. */
  readonly routes: readonly EffectiveRoute[]
  readonly credentials: readonly EffectiveCredential[]
  /** Keys of the vault that no `secrets` entry declares. */
  readonly secrets: readonly EffectiveSecret[]
  readonly errors: readonly Diagnostic[]
}

/** What the route to a server elsewhere is called. Agents do not get to it by that name. */
export function routeOfServer(name: string): string {
  return `mcp-${name}`
}

/** Every secret that a server has, each once. */
export function secretsOfServer(server: Pick<EffectiveMcpServer, 'kind'> & Partial<Values>): string[] {
  return [...new Set(Object.values({ ...server.env, ...server.headers }).flatMap(secretsIn))]
}

type Values = { readonly env: Readonly<Record<string, string>>; readonly headers: Readonly<Record<string, string>> }

/**
 * `mcp_servers` and `mcp` of all layers. A server is said once: a later layer may say the same again, and nothing else.
 * @param declared the secrets of the policy
 */
export function assembleMcp(layers: readonly Layer[], declared: readonly EffectiveSecret[]): McpParts {
  const errors: Diagnostic[] = []
  const servers = new Map<string, EffectiveMcpServer>()
  for (const { raw, from } of layers.flatMap((layer) => entriesOf(layer, ['mcp_servers']))) {
    const entry = McpServerEntry.safeParse(raw).data
    if (entry === undefined) continue
    const server = toServer(entry, from)
    const before = servers.get(server.name)
    if (before === undefined) servers.set(server.name, server)
    else if (spelled(before) !== spelled(server))
      errors.push({
        ...from,
        message: `MCP server "${server.name}" is another one at ${formatPlace(before.from)}: give one of them another name`,
      })
  }
  const all = [...servers.values()]
  errors.push(...all.flatMap((server) => withheldProblems(server, declared)))
  return {
    servers: all,
    userServers: userServersOf(layers),
    routes: all.flatMap((server) => (server.kind === 'http' ? [toRoute(server)] : [])),
    credentials: all.flatMap((server) => toCredential(server) ?? []),
    secrets: undeclared(all, declared),
    errors,
  }
}

/** Secrets for the tool of a server elsewhere are for its route: that is how it uses them. */
export function withToolRoutes(secrets: readonly EffectiveSecret[], servers: readonly EffectiveMcpServer[]): EffectiveSecret[] {
  return secrets.map((secret) => {
    const routes = servers.flatMap(({ kind, name }) =>
      kind === 'http' && secret.resources?.includes(`tool:${name}`) === true ? [`route:${routeOfServer(name)}`] : [],
    )
    return routes.length === 0 ? secret : { ...secret, resources: [...new Set([...(secret.resources ?? []), ...routes])] }
  })
}

function toServer(entry: McpServerShape, from: Place): EffectiveMcpServer {
  const { name, command, env = {}, workspace = 'none', image, url = '', headers = {}, plaintext = 'refuse', addresses = [], tools } = entry
  const shared = { name, from, ...(tools && { tools }) }
  const [program, ...rest] = command ?? []
  if (program === undefined) return { ...shared, kind: 'http', url, headers, plaintext, addresses }
  return {
    ...shared,
    kind: 'stdio',
    command: [program, ...rest],
    env,
    workspace,
    isContained:
      workspace !== 'none' || image !== undefined || tools !== undefined || Object.values(env).some((value) => secretsIn(value).length > 0),
    ...(image !== undefined && { image }),
  }
}

function spelled({ from: _from, ...server }: EffectiveMcpServer): string {
  return JSON.stringify(server, (_key, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  )
}

function toRoute({ name, url, plaintext, addresses, from, ...server }: EffectiveMcpServer & { kind: 'http' }): EffectiveRoute {
  const hasSecret = secretsOfServer(server).length > 0
  return {
    name: routeOfServer(name),
    upstream: url.replace(/\/$/, ''),
    ...(hasSecret && { credential: routeOfServer(name) }),
    plaintext,
    addresses,
    plane: 'agent',
    ofServer: name,
    from,
  }
}

/** The first field with a secret, and the others with it. */
function toCredential(server: EffectiveMcpServer): EffectiveCredential | undefined {
  if (server.kind !== 'http') return undefined
  const fields = Object.entries(server.headers).flatMap(([header, value]) => {
    const [secret] = secretsIn(value)
    return secret === undefined
      ? []
      : [{ secret, place: { kind: 'header' as const, header, prefix: value.slice(0, value.indexOf('${secret:')) } }]
  })
  const [first, ...also] = fields
  if (first === undefined) return undefined
  const { host } = parsed<Upstream>(parseUpstream(server.url.replace(/\/$/, '')))
  return {
    id: routeOfServer(server.name),
    ...first,
    also,
    domains: [host],
    methods: ['GET', 'POST', 'DELETE'],
    ofServer: server.name,
    from: server.from,
  }
}

/** I30: what the policy declares it also says the use of; a key of the vault that it does not name is for this server alone. */
function withheldProblems(server: EffectiveMcpServer, declared: readonly EffectiveSecret[]): Diagnostic[] {
  return secretsOfServer(server).flatMap((key) => {
    const secret = declared.find(({ name }) => name === key)
    if (secret === undefined || secret.resources?.includes(`tool:${server.name}`) === true) return []
    return [
      {
        ...server.from,
        message: `MCP server "${server.name}": the secret "${key}" (${formatPlace(secret.from)}) is not for it: add tool:${server.name} to its resources`,
      },
    ]
  })
}

function undeclared(servers: readonly EffectiveMcpServer[], declared: readonly EffectiveSecret[]): EffectiveSecret[] {
  const found = new Map<string, { from: Place; resources: string[] }>()
  for (const server of servers)
    for (const key of secretsOfServer(server)) {
      if (declared.some(({ name }) => name === key)) continue
      const entry = found.get(key) ?? { from: server.from, resources: [] }
      found.set(key, entry)
      entry.resources.push(`tool:${server.name}`)
    }
  return [...found].map(([name, { from, resources }]) => ({ name, source: { kind: 'vault', key: name }, resources, from }))
}

function userServersOf(layers: readonly Layer[]): Said<'keep' | 'drop'> {
  for (const { document } of layers.toReversed()) {
    const value = McpSection.shape.user_servers.unwrap().safeParse(valueAt(document.data, ['mcp', 'user_servers'])).data
    if (value !== undefined) return { value, from: document.placeOf(['mcp', 'user_servers']) }
  }
  return { value: 'keep' }
}

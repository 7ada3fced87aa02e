import { visible } from '../kernel/visible.ts'
import { describeAlso, describeBudget, describeExchange, describeFile, describePlace } from './describe.ts'
import { secretsOfServer } from './mcp-servers.ts'
import type { EffectiveCredential, EffectivePolicy, EffectiveRoute, EffectiveRule, Place, Said } from './model.ts'
import { describeSource } from './sources.ts'

/** A line of a policy as it holds, and where it is written. */
export type DescribedLine = {
  readonly text: string
  readonly depth: 0 | 1
  readonly from?: Place
  /** One value, which has a default: without a place it is that. */
  readonly isSetting?: true
}

/** A policy as it holds, for people: all its parts, each with its place. No secret is in it. */
export function describeEffective(policy: EffectivePolicy): readonly DescribedLine[] {
  return [
    setting(0, 'mode', policy.mode),
    policy.harness === undefined ? head('harness none') : setting(0, 'harness', policy.harness),
    setting(0, 'lease', policy.lease),
    head(`rules${policy.rules.length === 0 ? ` none${policy.mode.value === 'open' ? '' : ': everything is denied'}` : ''}`),
    ...policy.rules.map((rule) => part(`${rule.action.padEnd(5)}  ${rule.id}  ${describeRule(rule)}`, rule.from)),
    ...list(
      'routes',
      policy.routes.map((route) => part(`${route.name}  ${describeRoute(route)}`, route.from)),
    ),
    ...list(
      'credentials',
      policy.credentials.map((credential) => part(`${credential.id}  ${describeCredential(credential)}`, credential.from)),
    ),
    ...list(
      'secrets',
      policy.secrets.map((secret) => part(`${secret.name}  ${describeSecret(secret)}`, secret.from)),
    ),
    ...list('mcp_servers', policy.mcpServers.map(describeServer)),
    ...describeSession(policy),
    ...describeHostCommands(policy.hostCommands),
    ...describeGateway(policy),
  ]
}

function head(text: string): DescribedLine {
  return { text, depth: 0 }
}

function part(text: string, from: Place): DescribedLine {
  return { text, depth: 1, from }
}

function list(name: string, lines: readonly DescribedLine[]): DescribedLine[] {
  return [head(`${name}${lines.length === 0 ? ' none' : ''}`), ...lines]
}

function setting(depth: 0 | 1, name: string, { value, from }: Said<string>): DescribedLine {
  return { text: `${name} ${value}`, depth, isSetting: true, ...(from && { from }) }
}

function describeSecret({ source, resources, ttlMs }: EffectivePolicy['secrets'][number]): string {
  const parts = [describeSource(source), resources && `for ${resources.join(' ')}`, ttlMs && `kept for ${ttlMs / 1000} s`]
  return parts.filter(Boolean).join('  ')
}

/** As they stand in the policy: `sallyport mcp ls` has those of mcp.json and of the harness as well. */
function describeServer(server: EffectivePolicy['mcpServers'][number]): DescribedLine {
  const secrets = secretsOfServer(server)
  const parts = [server.name, server.kind === 'http' ? server.url : server.command.join(' ')]
  if (secrets.length > 0) parts.push(`secrets ${secrets.join(' ')}`)
  if (server.tools !== undefined) parts.push(`tools ${server.tools.join(' ') || 'none'}`)
  return part(visible(parts.join('  ')), server.from)
}

/** What says something about the session around the gate; what is the default of whoever makes it is left out. */
function describeSession({ filesystem, session }: EffectivePolicy): DescribedLine[] {
  const { workspace, hide, gitMetadata } = filesystem
  const { user, memoryBytes, ...rest } = session
  const said: [string, Said<string | number>][] = [
    ['workspace', workspace],
    ...hide.map((pattern): [string, Said<string>] => ['hide', pattern]),
    ['git_metadata', gitMetadata],
    ['user', { ...user, value: typeof user.value === 'string' ? user.value : `${user.value.uid}:${user.value.gid}` }],
    ...(memoryBytes === undefined
      ? []
      : [['memory', { ...memoryBytes, value: `${memoryBytes.value / 1_024 ** 2}m` }] as [string, Said<string>]]),
    ...Object.entries(rest),
  ]
  const lines = said.flatMap(([name, { value, from }]) => (from === undefined ? [] : [setting(1, name, { value: String(value), from })]))
  return [head(lines.length === 0 ? 'session default' : 'session'), ...lines]
}

/** Nothing where no file says anything of it. */
function describeHostCommands({ mode, presence, rules }: EffectivePolicy['hostCommands']): DescribedLine[] {
  if (mode.from === undefined && rules.length === 0 && Object.values(presence).every(({ from }) => from === undefined)) return []
  const tiers = Object.entries(presence).map(([level, { value }]) => `${level} ${value}`)
  return [
    setting(0, 'host_commands', mode),
    ...rules.map((rule) => part(`${rule.list.padEnd(5)}  ${rule.pattern}${describeExtras(rule)}`, rule.from)),
    head(`presence ${tiers.join(', ')}`),
  ]
}

function describeExtras({
  cwd,
  workspaceCode,
  presence,
  expiresAt,
  environment,
}: EffectivePolicy['hostCommands']['rules'][number]): string {
  const parts = [
    cwd && `in ${cwd}`,
    workspaceCode && 'workspace code',
    presence && `presence ${presence}`,
    expiresAt && `until ${new Date(expiresAt).toISOString()}`,
    ...Object.keys(environment).map((name) => `with ${name}`),
  ].filter(Boolean)
  return parts.length === 0 ? '' : `  ${parts.join('  ')}`
}

function describeGateway({ gateway: { disabled } }: EffectivePolicy): DescribedLine[] {
  if (disabled.length === 0) return [head('gateway default')]
  return [head('gateway'), ...disabled.map(({ value, from }) => setting(1, 'disabled', { value, from }))]
}

function describeRoute({ upstream, credential, plaintext, addresses, plane }: EffectiveRoute): string {
  const parts = [upstream, credential && `credential ${credential}`]
  if (plaintext === 'accept') parts.push('plaintext accepted')
  if (addresses.length > 0) parts.push(`addresses ${addresses.join(' ')}`)
  if (plane === 'control_plane') parts.push('of the harness')
  return parts.filter((one) => one !== undefined).join('  ')
}

function describeRule(rule: EffectiveRule): string {
  const parts = [`${rule.host}:${rule.ports.join(',')}`, rule.methods?.join(' '), rule.paths?.join(' ')]
  if (rule.protocol === 'tcp') parts.push('tcp')
  else if (rule.tls === 'passthrough') parts.push('passthrough')
  if (rule.upgrade !== undefined) parts.push(`upgrade ${rule.upgrade}`)
  if (rule.plaintext === 'accept') parts.push('plaintext accepted')
  if (rule.addresses.length > 0) parts.push(`addresses ${rule.addresses.join(' ')}`)
  if (rule.scrub !== 'replace') parts.push(`scrub ${rule.scrub}`)
  if (rule.ownCredentials !== undefined) parts.push(`own credentials ${rule.ownCredentials}`)
  if (rule.expiresAt !== undefined) parts.push(`until ${new Date(rule.expiresAt).toISOString()}`)
  if (rule.plane === 'control_plane') parts.push('of the harness')
  return parts.filter((one) => one !== undefined).join('  ')
}

function describeCredential(credential: EffectiveCredential): string {
  const { secret, place, also, exchange, budget, file, domains, methods, paths } = credential
  const parts = [domains.join(' '), methods?.join(' '), paths?.join(' '), describePlace(place), `secret ${secret}`]
  if (place.kind === 'aws') parts.push(`secret ${place.accessKeyId}`, place.sessionToken && `secret ${place.sessionToken}`)
  for (const field of also) parts.push(`also ${describeAlso(field)}`)
  if (exchange !== undefined) parts.push(describeExchange(exchange), exchange.clientSecret && `secret ${exchange.clientSecret}`)
  if (budget !== undefined) parts.push(`budget ${describeBudget(budget)}`)
  if (file !== undefined) parts.push(`file ${describeFile(file)}`)
  return parts.filter(Boolean).join('  ')
}

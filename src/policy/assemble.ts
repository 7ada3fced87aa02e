import type {
  Diagnostic,
  EffectiveCredential,
  EffectivePolicy,
  EffectiveRoute,
  EffectiveRule,
  EffectiveSecret,
  Place,
  Plane,
} from './model.ts'
import { toCredential } from './credential-entries.ts'
import { entriesOf, isListOrNone, valueAt } from './entries.ts'
import { parseHostPattern, type HostPattern } from './hosts.ts'
import { assembleGateway } from './gateway-section.ts'
import { parseExpiry } from './host-commands/schema.ts'
import { assembleHostCommands } from './host-commands/section.ts'
import { formatPlace } from './place.ts'
import type { Layer } from './layers.ts'
import { assembleMcp, withToolRoutes } from './mcp-servers.ts'
import { parseUpstream } from './routes.ts'
import { Credential } from './schema-credentials.ts'
import { Network, RouteEntry, Rule, SecretEntry, type RouteEntryShape, type RuleEntry, type SecretEntryShape } from './schema.ts'
import { assembleFilesystem, assembleSession } from './sections.ts'
import { parseSource } from './sources.ts'

/** Rules without `ports` are about these. */
const DEFAULT_PORTS: readonly number[] = [80, 443]

/** Rules that have an error of their own, as far as they are known. */
export type Damage = {
  /** Without the fields that are wrong: good for what is said about single fields, never for what they match. */
  readonly rules: readonly EffectiveRule[]
  /** Hosts that they are about; `undefined` when one of them does not say. */
  readonly hosts: readonly HostPattern[] | undefined
  /** Whether a route is left out. */
  readonly hasRoutes: boolean
}

/**
 * Puts the layers together: lists add up, scalars of the later layer win. Parts that are not well-formed are left out;
 * their errors are known already.
 */
export function assemble(layers: readonly Layer[]): { effective: EffectivePolicy; errors: Diagnostic[]; damage: Damage } {
  const written = layers.flatMap((layer) => entriesOf(layer, ['network', 'rules']).map((entry) => ({ ...entry, plane: layer.plane })))
  const read = written.map((item) => ({ ...item, entry: Rule.safeParse(item.raw).data }))
  const rules = read.flatMap(({ entry, from, plane }) => (entry === undefined ? [] : [{ entry, rule: toRule(entry, from, plane) }]))
  const writtenRoutes = layers.flatMap((layer) => entriesOf(layer, ['routes']).map((entry) => ({ ...entry, plane: layer.plane })))
  const routes = writtenRoutes.flatMap(({ raw, from, plane }) => {
    const entry = RouteEntry.safeParse(raw).data
    return entry === undefined ? [] : [{ entry, route: toEffectiveRoute(entry, from, plane) }]
  })
  const secrets = layers.flatMap((layer) =>
    entriesOf(layer, ['secrets']).flatMap(({ raw, from }) => {
      const entry = SecretEntry.safeParse(raw).data
      return entry === undefined ? [] : [toSecret(entry, from)]
    }),
  )
  const mcp = assembleMcp(layers, secrets)
  const damaged = read.filter(({ entry }) => entry === undefined)
  const kept = damaged.flatMap(({ raw, from, plane }) => {
    const entry = salvageRule(raw)
    return entry === undefined ? [] : [{ entry, rule: toRule(entry, from, plane) }]
  })
  const hosts = damaged.map(({ raw }) => hostOf(raw))
  const isList = layers.every((layer) => isListOrNone(valueAt(layer.document.data, ['network', 'rules'])))
  return {
    effective: {
      files: layers.map((layer) => layer.file),
      mode: { value: 'restricted', ...lastOf(layers, 'mode', Network.shape.mode.unwrap()) },
      ...withHarness(layers),
      lease: { value: 'optional', ...lastOf(layers, 'lease', Network.shape.lease.unwrap()) },
      rules: rules.map(({ rule }) => rule),
      routes: [...routes.map(({ route }) => route), ...mcp.routes],
      credentials: [...credentialsOf(layers), ...mcp.credentials],
      secrets: withToolRoutes([...secrets, ...mcp.secrets], mcp.servers),
      filesystem: assembleFilesystem(layers),
      session: assembleSession(layers),
      hostCommands: assembleHostCommands(layers),
      gateway: assembleGateway(layers),
      mcpServers: mcp.servers,
      mcpUserServers: mcp.userServers,
    },
    errors: [
      ...mcp.errors,
      ...[...rules, ...kept].flatMap(({ entry, rule }) => ruleProblems(rule, entry)),
      ...routes.flatMap(({ entry, route }) => routeProblems(route, entry)),
    ],
    damage: {
      rules: kept.map(({ rule }) => rule),
      hosts: isList && hosts.every((host) => host !== undefined) ? hosts : undefined,
      hasRoutes: routes.length < writtenRoutes.length,
    },
  }
}

function credentialsOf(layers: readonly Layer[]): EffectiveCredential[] {
  return layers.flatMap((layer) =>
    entriesOf(layer, ['credentials']).flatMap(({ raw, from }) => {
      const entry = Credential.safeParse(raw).data
      return entry === undefined ? [] : [toCredential(entry, from)]
    }),
  )
}

export { formatPlace }

/** `file:line: message`. */
export function formatDiagnostic(diagnostic: Diagnostic): string {
  return `${formatPlace(diagnostic)}: ${diagnostic.message}`
}

/** A rule without the fields that are wrong, where id, host and action are right. */
function salvageRule(raw: unknown): RuleEntry | undefined {
  const { error } = Rule.safeParse(raw)
  if (typeof raw !== 'object' || raw === null || error === undefined) return undefined
  const wrong = new Set(error.issues.flatMap((issue) => (issue.code === 'unrecognized_keys' ? issue.keys : issue.path.slice(0, 1))))
  return Rule.safeParse(Object.fromEntries(Object.entries(raw).filter(([key]) => !wrong.has(key)))).data
}

function hostOf(raw: unknown): HostPattern | undefined {
  const text = valueAt(raw, ['host'])
  const host = typeof text === 'string' ? parseHostPattern(text) : undefined
  return typeof host === 'string' ? undefined : host
}

/** The value of the last layer that says one, and where. */
function lastOf<T>(
  layers: readonly Layer[],
  key: 'mode' | 'harness' | 'lease',
  schema: { safeParse(value: unknown): { data?: T } },
): { value: T; from: Place } | undefined {
  for (const { document } of layers.toReversed()) {
    const value = schema.safeParse(valueAt(document.data, ['network', key])).data
    if (value !== undefined) return { value, from: document.placeOf(['network', key]) }
  }
  return undefined
}

function withHarness(layers: readonly Layer[]): Pick<EffectivePolicy, 'harness'> {
  const harness = lastOf(layers, 'harness', Network.shape.harness.unwrap())
  return harness === undefined ? {} : { harness }
}

/** Nothing but HTTP has these, so a rule that has one is about HTTP. */
const HTTP_FIELDS = ['methods', 'paths', 'tls', 'upgrade', 'plaintext', 'scrub', 'own_credentials'] as const

function protocolOf(entry: RuleEntry): EffectiveRule['protocol'] {
  if (entry.protocol !== undefined) return entry.protocol
  return entry.action === 'allow' || HTTP_FIELDS.some((key) => entry[key] !== undefined) ? 'http' : 'any'
}

/** A rule as it holds, with all defaults. */
export function toRule(entry: RuleEntry, from: Place, plane: Plane): EffectiveRule {
  const protocol = protocolOf(entry)
  return {
    id: entry.id,
    host: entry.host,
    // Without ports such a rule is refused: until then it is about none.
    ports: entry.ports ?? (protocol === 'tcp' ? [] : DEFAULT_PORTS),
    protocol,
    ...(entry.methods && { methods: entry.methods }),
    ...(entry.paths && { paths: entry.paths }),
    action: entry.action,
    tls: entry.tls ?? (protocol === 'tcp' ? 'passthrough' : 'intercept'),
    ...(entry.upgrade && { upgrade: entry.upgrade }),
    plaintext: entry.plaintext ?? 'refuse',
    addresses: entry.addresses ?? [],
    plane,
    scrub: entry.scrub ?? 'replace',
    ...(entry.own_credentials && { ownCredentials: entry.own_credentials }),
    ...expiryOf(entry),
    from,
  }
}

function expiryOf({ expires }: RuleEntry): Pick<EffectiveRule, 'expiresAt'> {
  const expiresAt = expires === undefined ? undefined : parseExpiry(expires)
  return expiresAt === undefined ? {} : { expiresAt }
}

function toEffectiveRoute(entry: RouteEntryShape, from: Place, plane: Plane): EffectiveRoute {
  return {
    name: entry.name,
    upstream: entry.upstream,
    ...(entry.credential !== undefined && { credential: entry.credential }),
    plaintext: entry.plaintext ?? 'refuse',
    addresses: entry.addresses ?? [],
    plane,
    from,
  }
}

function toSecret(entry: SecretEntryShape, from: Place): EffectiveSecret {
  const source = parseSource(entry.source)
  if (typeof source === 'string') throw new Error(source) // the schema has refused it before
  return {
    name: entry.name,
    source,
    ...(entry.ttl !== undefined && { ttlMs: entry.ttl * 1000 }),
    ...(entry.resources && { resources: entry.resources }),
    from,
  }
}

/** What contradicts itself within one rule. */
export function ruleProblems(rule: EffectiveRule, written: RuleEntry): Diagnostic[] {
  const { from, action } = rule
  const say = (message: string): Diagnostic => ({ ...from, message: `rule "${rule.id}": ${message}` })
  const isWritten = (key: keyof RuleEntry): boolean => written[key] !== undefined
  // What it denies would be open again with nobody having said so.
  if (action === 'deny' && isWritten('expires')) return [say('a denial has no end: remove expires, and the rule when it is over')]
  if (rule.protocol === 'tcp') return tcpProblems(written).map(say)
  const found: Diagnostic[] = []
  if (action === 'deny') {
    const idle = (['tls', 'upgrade', 'plaintext', 'addresses', 'scrub', 'own_credentials'] as const).filter(isWritten)
    return idle.map((key) => say(`${key} has no effect on a rule that does not allow (action: ${action}): remove it`))
  }
  if (action === 'ask' && isWritten('tls'))
    found.push(say('tls has no effect on a rule that asks: the question is about what is inside, so it is always intercepted'))
  if (action === 'allow' && rule.tls === 'passthrough') {
    const inside = (['methods', 'paths', 'upgrade', 'scrub', 'own_credentials'] as const).filter(isWritten)
    return inside.map((key) => say(`${key} cannot be enforced inside a passthrough tunnel: use tls: intercept, or remove ${key}`))
  }
  if (rule.upgrade !== undefined) {
    if (rule.ports.includes(80) && !rule.ports.includes(443)) found.push(say('upgrade: https sends port 80 to 443: add 443 to ports'))
    if (rule.ports.includes(443) && !rule.ports.includes(80))
      found.push(say('upgrade: https is for plain http, which comes to port 80: add 80 to ports'))
    if (rule.plaintext === 'accept') found.push(say('plaintext: accept has no effect with upgrade: https: remove one of them'))
  }
  return found
}

function tcpProblems(written: RuleEntry): string[] {
  const found = HTTP_FIELDS.filter((key) => written[key] !== undefined).map(
    (key) => `${key} is about HTTP, and nothing looks into a tcp connection: remove it, or use protocol: http`,
  )
  if (written.action === 'deny' && written.addresses !== undefined)
    found.push('addresses has no effect on a rule that does not allow (action: deny): remove it')
  // The default is for web pages. What a rule opens unseen is named.
  if (written.ports === undefined) found.push('protocol: tcp needs ports: name those that are meant')
  return found
}

/** What contradicts itself within one route. */
function routeProblems(route: EffectiveRoute, written: RouteEntryShape): Diagnostic[] {
  const say = (message: string): Diagnostic => ({ ...route.from, message: `route "${route.name}": ${message}` })
  const upstream = parseUpstream(route.upstream)
  if (typeof upstream === 'string') return []
  if (upstream.scheme === 'https')
    return written.plaintext === undefined ? [] : [say('plaintext has no effect on an https upstream: remove it')]
  return route.credential !== undefined && route.plaintext === 'refuse'
    ? [say(`credential "${route.credential}" is not written over plain http: use an https upstream, or add plaintext: accept`)]
    : []
}

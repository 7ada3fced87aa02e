import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openAudit, openForwardedAudit, type Audit, type Outgoing } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import { system as realSystem, type System } from '../kernel/system.ts'
import { createAuthority, openAuthority, publishAuthority, type Authority } from '../pki/pki.ts'
import type { Policy } from '../policy/policy.ts'
import { createAsking, type AskOperator } from './egress/asking.ts'
import type { Controlled } from './controlled.ts'
import { createCredentialUse } from './credential-use.ts'
import type { Enforcement } from './egress/enforced.ts'
import { createExchanges, type Exchanges } from './egress/exchange.ts'
import { createHandle, type Handle } from './egress/handle.ts'
import { createLease, type CheckLease } from './egress/lease.ts'
import { createLive } from './egress/live.ts'
import { createLoad } from './egress/load.ts'
import { openEnforcement } from './enforcement.ts'
import { createConnections } from './inbound/connections.ts'
import { createContexts } from './inbound/contexts.ts'
import { createFront, type Front } from './inbound/front.ts'
import { openFurtherWays, portOf } from './further-ways.ts'
import type { CallController } from './gateway/gateway.ts'
import type { RelayParts } from './gateway/mcp-relay.ts'
import type { IsClient } from './side-networks.ts'
import type { Transport } from './link.ts'
import { createListeners, endListeners, type Endpoint, type Listeners } from './listeners.ts'
import { createOwnPorts, type OwnPorts } from './own-ports.ts'
import { openResolver } from './resolver/resolver.ts'
import { loadTrust } from './trust.ts'
import { createAddresses } from './upstream/addresses.ts'
import { createResolve } from './upstream/resolve.ts'
import type { UpstreamProxy } from './upstream/proxy.ts'
import { createUpstreams } from './upstream/upstreams.ts'
import { watchFiles } from './watch.ts'

export type { AskOperator, Answer, Question } from './egress/asking.ts'
export type { CheckLease } from './egress/lease.ts'
export { parseUpstreamProxy, type UpstreamProxy } from './upstream/proxy.ts'
export type { Transport } from './link.ts'
export type { Endpoint } from './listeners.ts'

export type SidecarConfig = {
  readonly version: string
  readonly session: string
  readonly workspace?: string
  /** Reads the policy: at the start, and at each reload. @throws policy_invalid, policy_not_found */
  readonly loadPolicy: () => Policy
  readonly http: readonly Endpoint[]
  readonly socks: readonly Endpoint[]
  /** Where programs that know no proxy arrive, each for the port that they think they talk to. */
  readonly transparent: readonly (Endpoint & { readonly meant: 80 | 443 })[]
  /** Each must be an address of one interface: it is what allowed names get for an answer. */
  readonly dns: readonly Endpoint[]
  readonly gateway: readonly Endpoint[]
  /** Folder for the public part of the CA. */
  readonly caDir: string
  /** Folder that keeps the CA with its key over restarts; without it the CA lives in memory. */
  readonly caPersist?: string
  /** PEM files of further authorities that upstreams may be certified by. */
  readonly upstreamCa: readonly string[]
  /** The operator's own proxy, by which everything leaves. */
  readonly upstreamProxy?: UpstreamProxy
  /** Addresses that the operator gives for names. */
  readonly fixedAddresses: ReadonlyMap<string, readonly string[]>
  /** The audit's file. Where a controller takes its lines it may be empty: they are in memory until it has them. */
  readonly audit: string
  /** When given, connections from other addresses are closed at once. */
  readonly allowsClient?: IsClient
  /** The way to a controller: secrets, certificate authority and lease are its own then, whatever else is said of them here. */
  readonly control?: { readonly transport: Transport; readonly agent: string }
  /** Whether a text is the session's lease, for policies that require one. */
  readonly checkLease?: CheckLease
  /** Brings questions to the operator. Without it rules that ask refuse. */
  readonly ask?: AskOperator
  /** What placeholders are made from: the same seed gives the same ones, which the agent may hold already. */
  readonly placeholderSeed: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Bound addresses, in the order of the configuration. */
type Ways = {
  readonly http: readonly string[]
  readonly socks: readonly string[]
  readonly transparent: readonly string[]
  readonly dns: readonly string[]
  readonly gateway: readonly string[]
}

export type Sidecar = AsyncDisposable &
  Ways & {
    readonly caFile: string
    readonly auditFile: string
    /** Worthless values for the agent's environment, by the name of their variable, as of the policy in force. */
    readonly placeholders: Readonly<Record<string, string>>
    /** Reads policy and secrets anew; a fault in them leaves the old ones in force. True when they were replaced. */
    reload(): Promise<boolean>
    /** Stops accepting, lets running exchanges end within `LIMITS.drainMs`. */
    drain(): Promise<void>
  }

/**
 * Builds the gate's parts in order, and takes them down in reverse. It listens when this resolves.
 * @throws policy_invalid, policy_not_found, secret_missing, secret_invalid, ca_invalid, ca_file_invalid, audit_open_failed,
 *   listen_failed, config_invalid, control_unreachable, control_refused, control_version_mismatch
 */
export async function openSidecar(config: SidecarConfig, log: Log, system: System = realSystem): Promise<Sidecar> {
  await using parts = new AsyncDisposableStack()
  const { control } = config
  // Loaded where there is a controller: a gate without one does not pay for it.
  const controlled = control && parts.use(await (await import('./controlled.ts')).openControlled({ ...config, ...control }, log, system))
  const checkLease = controlled?.checkLease ?? config.checkLease
  const reloading = openEnforcement({ ...config, ...controlled, hasLease: checkLease !== undefined, system })
  const { enforcement } = reloading
  const { trust, publicRoots } = await loadTrust(config.upstreamCa)
  const authority = controlled?.authority ?? (await ownAuthority(config, system))
  await mkdir(config.caDir, { recursive: true })
  await publishAuthority(config.caDir, authority, publicRoots)

  const audit = await beginAudit(config, parts, enforcement().policy.digest, system, log)
  const exchanges = createExchanges({ audit, log, system })
  // What runs when its connections end has its end recorded before the audit is closed.
  parts.defer(() => exchanges.settled())

  const asked = controlled?.ask ?? config.ask
  const inside = buildInside(config, parts, { enforcement, exchanges, audit, trust, authority, checkLease, asked, log, system })
  const { front, listeners, ownPorts, allowsClient, live, upstreams, forget } = inside
  const caPem = authority.certificatePem
  const knowsName = knownNames(enforcement)
  const listening = new Set<() => void>()
  const relay = relayOf(inside.handle, enforcement, audit, controlled)
  const ways = await openWays({ ...config, allowsClient }, parts, listeners, front, {
    onChange: (listener) => void listening.add(listener),
    knowsName,
    ownPorts,
    relay,
    certificatePem: caPem,
    checkLease,
    callController: controlled?.callController ?? withoutController,
    enforcement,
    log,
    system,
  })

  const { sideNetworks, follow } = await openFurtherWays(config, ways, parts, { ...inside, knowsName, caPem })
  listening.add(follow)
  const retire = (generation: number): void => {
    upstreams.retire(generation)
    for (const listener of listening) listener()
  }
  const replaced = { live, retire, audit, log }
  const change = serially((run: () => Promise<unknown>) => run())
  const reload = (isRetry: boolean): Promise<boolean> => change(() => reloading.reload(replaced, isRetry)) as Promise<boolean>
  const onChange = (): void => void reload(reloading.isFailing)
  const onLook = (): void => reloading.end(replaced)
  parts.use(watchFiles(reloading.files, onChange, () => reloading.isFailing, onLook))
  controlled?.serve({
    reloading,
    replaced,
    forget,
    outgoing: audit.outgoing,
    sideNetworks,
    onServerTest: async (server, pass) => (await import('./gateway/server-test.ts')).testServer(relay, server, pass, config.version),
    serially: async (run) => void (await change(run)),
  })

  const running = parts.move()
  return {
    ...ways,
    caFile: join(config.caDir, 'ca.crt'),
    auditFile: config.audit,
    get placeholders() {
      return enforcement().placeholders.values
    },
    reload: () => reload(false),
    drain: () => drain(listeners, [front, sideNetworks], exchanges, system),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

type InsideParts = {
  readonly enforcement: Enforcement
  readonly exchanges: Exchanges
  readonly audit: Audit
  readonly trust: Awaited<ReturnType<typeof loadTrust>>['trust']
  readonly authority: Authority
  readonly checkLease: CheckLease | undefined
  readonly asked: AskOperator | undefined
  readonly log: Log
  readonly system: System
}

/** What stands between the ways in and the ways out; nothing listens yet. */
function buildInside(config: SidecarConfig, parts: AsyncDisposableStack, from: InsideParts) {
  const { enforcement, exchanges, audit, log, system } = from
  const ownPorts = createOwnPorts()
  const elsewhere = new Set<IsClient>()
  const isBeside: IsClient = (address) => elsewhere.size > 0 && [...elsewhere].some((isClient) => isClient(address))
  // I13: a side network may be a part of the jail's subnet, and who is there is not the agent.
  const allowsClient = config.allowsClient && ((address: string) => config.allowsClient?.(address) === true && !isBeside(address))
  const listeners = createListeners(allowsClient, ownPorts)
  const resolve = createResolve({ fixed: config.fixedAddresses, isLeftToProxy: config.upstreamProxy !== undefined }, system)
  const addresses = createAddresses(resolve, { isListener: (address, port) => ownPorts.has(address, port), isBeside }, system)
  const upstreams = parts.use(createUpstreams(from.trust, config.upstreamProxy))
  const asking = parts.use(createAsking(from.asked, log, system))
  const live = createLive(enforcement)
  const lease = createLease(from.checkLease)
  const shared = { enforcement, exchanges, asking, lease, live, addresses, upstreams, load: createLoad(), log }
  const credentials = parts.use(createCredentialUse({ ...shared, audit, system }))
  const handle = createHandle({ ...shared, ...credentials })
  const contexts = createContexts(from.authority, system)
  const inbound = { ...shared, contexts, connections: createConnections(), isResolver: config.dns.length > 0, system }
  const front = createFront({ ...inbound, handle })
  parts.defer(() => endListeners(listeners, front))
  return { ...inbound, ...credentials, handle, front, listeners, ownPorts, elsewhere, allowsClient }
}

/** What stands before the session's MCP servers. */
function relayOf(handle: Handle, enforcement: Enforcement, audit: Audit, controlled: Controlled | undefined): RelayParts {
  return {
    servers: () => enforcement().policy.mcpServers,
    handle,
    askTool: controlled?.askTool ?? withoutController,
    audit: (event) => audit.append(event),
  }
}

async function drain(
  listeners: Listeners,
  all: readonly { drain(): void }[],
  exchanges: { readonly running: number },
  system: System,
): Promise<void> {
  const closed = listeners.close()
  const deadline = system.elapsed() + LIMITS.drainMs
  let quiet = system.elapsed() + LIMITS.farewellMs
  // Connections that stay silent are not waited for, but answers that are on their way are.
  while (listeners.connections > 0 && system.elapsed() < Math.min(deadline, quiet)) {
    listeners.closeIdleConnections()
    for (const one of all) one.drain()
    await new Promise((done) => setTimeout(done, DRAIN_LOOK_MS))
    if (exchanges.running > 0) quiet = system.elapsed() + LIMITS.farewellMs
  }
  listeners.closeConnections()
  await closed
}

/** From its first event on, until the rest is closed. */
async function beginAudit(config: SidecarConfig, parts: AsyncDisposableStack, policy: string, system: System, log: Log) {
  const audit = parts.use(await openOwnAudit(config, system, log))
  await audit.append({ event: 'started', version: config.version, policy })
  parts.defer(() =>
    audit.append({ event: 'stopped' }).catch((error: unknown) => log.error({ code: codeOf(error) }, 'the end could not be audited')),
  )
  return audit
}

/** Where a controller takes the lines they can be without a file. */
async function openOwnAudit(config: SidecarConfig, system: System, log: Log): Promise<Audit & { readonly outgoing?: Outgoing }> {
  const { audit: file, session, workspace, control } = config
  const identity = { session, ...(workspace !== undefined && { workspace }) }
  if (!control) return openAudit({ ...identity, file }, system, log)
  return openForwardedAudit({ ...identity, agent: control.agent, file: file || undefined }, system, log)
}

/** Where no controller has one. */
function ownAuthority({ caPersist, session }: SidecarConfig, system: System): Promise<Authority> | Authority {
  return caPersist === undefined ? createAuthority(session, system) : openAuthority(caPersist, session, system)
}

function withoutController(): Promise<never> {
  const hint = 'requests to the host need a session of "sallyport daemon"'
  return Promise.reject(new SallyportError('controller_unavailable', 'this gate has no controller', { hint }))
}

/** How often a drain looks whether it is done. */
const DRAIN_LOOK_MS = 50

export function newSessionId(): string {
  return randomUUID()
}

/** Opens every way in, the resolver and the gateway last: where they answer, the rest listens. */
async function openWays(
  config: Omit<SidecarConfig, 'allowsClient'> & { readonly allowsClient: SidecarConfig['allowsClient'] | undefined },
  parts: AsyncDisposableStack,
  listeners: Listeners,
  front: Front,
  own: {
    certificatePem: string
    onChange: (listener: () => void) => void
    checkLease: CheckLease | undefined
    callController: CallController
    relay: RelayParts
    enforcement: Enforcement
    knowsName: Policy['knowsName']
    ownPorts: OwnPorts
    log: Log
    system: System
  },
): Promise<Ways> {
  const http = await inOrder(config.http, (endpoint) => listeners.open(front.createProxy(), endpoint))
  const socks = await inOrder(config.socks, (endpoint) => listeners.open(front.createSocks(), endpoint))
  const transparent = await inOrder(config.transparent, (endpoint) => listeners.open(front.createTransparent(endpoint.meant), endpoint))
  let dns: readonly string[] = []
  if (config.dns.length > 0) {
    const { allowsClient } = config
    const resolver = parts.use(await openResolver(config.dns, { ...own, ...(allowsClient && { allowsClient }) }))
    dns = resolver.addresses
    for (const address of dns) own.ownPorts.add(portOf(address))
  }
  const gateway = await inOrder(config.gateway, async (endpoint) => {
    // Loaded where it is asked for: its framework is a tenth of an idle gate's memory.
    const [{ createGateway }, { createMcpRelay }] = await Promise.all([import('./gateway/gateway.ts'), import('./gateway/mcp-relay.ts')])
    const server = await createGateway(
      {
        caPem: own.certificatePem,
        files: () => own.enforcement().files,
        placeholders: () => own.enforcement().placeholders.values,
        checkLease: own.checkLease,
        callController: own.callController,
        policy: () => own.enforcement().policy,
        onChange: own.onChange,
        connectToolServer: createMcpRelay({ ...own.relay, onChange: own.onChange }),
        system: own.system,
      },
      front,
    )
    return listeners.open(server, endpoint)
  })
  return { http, socks, transparent, dns, gateway }
}

/** Which names the resolver answers, by the policy in force. */
function knownNames(enforcement: Enforcement): Policy['knowsName'] {
  return (host) => {
    const { policy, placeholders } = enforcement()
    return policy.knowsName(host) && placeholders.inHostname(host) === undefined
  }
}

/** One run at a time: who comes meanwhile gets the next. */
function serially<A, T>(run: (argument: A) => Promise<T>): (argument: A) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (argument) => {
    const next = last.then(() => run(argument))
    last = next.catch(() => {})
    return next
  }
}

async function inOrder<T, R>(items: readonly T[], each: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (const item of items) results.push(await each(item))
  return results
}

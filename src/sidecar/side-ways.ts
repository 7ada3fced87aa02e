import { BlockList, isIP } from 'node:net'
import type { Hostname } from '../kernel/hostname.ts'
import type { SideNetwork } from '../wire/control.ts'
import { inNetwork } from './egress/exchange.ts'
import { createHandle, type HandleParts } from './egress/handle.ts'
import { givenLease } from './egress/lease.ts'
import { createConnections } from './inbound/connections.ts'
import { createFront, type FrontParts } from './inbound/front.ts'
import { createListeners, endListeners, type Listeners } from './listeners.ts'
import type { OwnPorts } from './own-ports.ts'
import type { PortWays } from './port-ways.ts'
import { openResolver } from './resolver/resolver.ts'

/** The ports of the gate's ways on its first address: they are the same in every network. */
export type WayPorts = {
  readonly http: readonly number[]
  readonly socks: readonly number[]
  readonly transparent: readonly { readonly port: number; readonly meant: 80 | 443 }[]
  readonly dns: readonly number[]
  readonly gateway: readonly number[]
}

export type SideWaysParts = Omit<FrontParts, 'handle'> &
  HandleParts & {
    readonly ports: WayPorts
    readonly listeners: Listeners
    readonly ownPorts: OwnPorts
    readonly portWays: PortWays
    readonly knowsName: (host: Hostname) => boolean
    readonly caPem: string
  }

/** All ways in of one side network. Disposed nothing listens there, and what came by them has ended. */
export type SideWays = AsyncDisposable & {
  /** Ends idle connections; running exchanges go on. */
  drain(): void
}

/**
 * The gate's ways in, on its address in a further network, for the clients of that network alone. Only the controller puts containers
 * there: to be there is the proof that a policy may want (`network.lease`), for what leaves by the gate. All of it is decided, bounded
 * and recorded as the agent's own, and its events name the network. I13
 * @throws listen_failed
 */
export async function openSideWays({ address: host, subnet, label }: SideNetwork, parts: SideWaysParts): Promise<SideWays> {
  await using open = new AsyncDisposableStack()
  const { ports, knowsName } = parts
  const allowsClient = clientsOf(subnet)
  const side = {
    ...parts,
    lease: givenLease(parts.lease),
    exchanges: inNetwork(parts.exchanges, label),
    connections: createConnections(parts.connections),
  }
  const front = createFront({ ...side, handle: createHandle(side) })
  const listeners = createListeners(allowsClient, parts.ownPorts, parts.listeners)
  open.defer(() => endListeners(listeners, front))
  for (const port of ports.http) await listeners.open(front.createProxy(), { host, port })
  for (const port of ports.socks) await listeners.open(front.createSocks(), { host, port })
  for (const { port, meant } of ports.transparent) await listeners.open(front.createTransparent(meant), { host, port })
  if (ports.transparent.length > 0) open.use(await parts.portWays.join({ host, front, listeners }))
  const places = ports.dns.map((port) => ({ host, port }))
  if (places.length > 0) open.use(await openResolver(places, { ...parts, knowsName, allowsClient }))
  if (ports.gateway.length > 0) {
    // With it comes the framework of the gateway, which a gate without one is not to pay for.
    const { createSideGateway } = await import('./gateway/side-gateway.ts')
    for (const port of ports.gateway) await listeners.open(createSideGateway(parts.caPem, front), { host, port })
  }
  const opened = open.move()
  return { drain: () => front.drain(), [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

/** Whether an address of a client is in that subnet. I13 */
export function clientsOf(subnet: string): (address: string) => boolean {
  const [network = '', bits = ''] = subnet.split('/')
  const clients = new BlockList()
  clients.addSubnet(network, Number(bits), 'ipv4')
  return (address) => {
    const family = isIP(address)
    // Among the spellings of IPv6 are those of IPv4 addresses (RFC 4291 §2.5.5.2).
    return family !== 0 && clients.check(address, family === 4 ? 'ipv4' : 'ipv6')
  }
}

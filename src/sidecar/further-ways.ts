import type { Front } from './inbound/front.ts'
import type { Endpoint } from './listeners.ts'
import { createPortWays } from './port-ways.ts'
import { createSideNetworks, type IsClient, type SideNetworks } from './side-networks.ts'
import { openSideWays, type SideWaysParts, type WayPorts } from './side-ways.ts'

/** Where each way listens, as it is said and as it was bound. */
type Configured = {
  readonly http: readonly Endpoint[]
  readonly socks: readonly Endpoint[]
  readonly transparent: readonly (Endpoint & { readonly meant: 80 | 443 })[]
  readonly dns: readonly Endpoint[]
  readonly gateway: readonly Endpoint[]
}
type Bound = { readonly [K in keyof Configured]: readonly string[] }

/**
 * The ways that come and go: ports for other TCP, with the policy, wherever programs that know no proxy arrive; all ways in a side
 * network, with the controller's word. `follow` is for each policy that has come into force.
 */
export async function openFurtherWays(
  configured: Configured,
  bound: Bound,
  opened: AsyncDisposableStack,
  parts: Omit<SideWaysParts, 'ports' | 'portWays'> & { readonly front: Front; readonly elsewhere: Set<IsClient> },
): Promise<{ readonly sideNetworks: SideNetworks; readonly follow: () => void }> {
  const { enforcement, front, listeners, addresses, elsewhere, log } = parts
  const portWays = createPortWays(enforcement, log)
  const hosts = new Set(configured.transparent.map(({ host }) => host))
  for (const host of hosts) opened.use(await portWays.join({ host, front, listeners }))
  const sideParts = { ...parts, portWays, ports: portsOfFirst(configured, bound) }
  const sideNetworks = createSideNetworks({
    openIn: (network) => openSideWays(network, sideParts),
    onAddress: () => addresses.refresh(),
    elsewhere,
    log,
  })
  opened.use(sideNetworks)
  return { sideNetworks, follow: () => void portWays.follow() }
}

/** The ports of each way on its first address. */
function portsOfFirst(configured: Configured, bound: Bound): WayPorts {
  const ofFirst = (way: keyof Configured): number[] =>
    bound[way].filter((_, index) => configured[way][index]?.host === configured[way][0]?.host).map(portOf)
  return {
    http: ofFirst('http'),
    socks: ofFirst('socks'),
    transparent: configured.transparent.flatMap(({ host, meant }, index) =>
      host === configured.transparent[0]?.host ? [{ meant, port: portOf(bound.transparent[index] ?? '') }] : [],
    ),
    dns: ofFirst('dns'),
    gateway: ofFirst('gateway'),
  }
}

/** The port of `HOST:PORT`. */
export function portOf(authority: string): number {
  return Number(authority.slice(authority.lastIndexOf(':') + 1))
}

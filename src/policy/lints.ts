import { isAddress, isHostname, parseHostname } from '../kernel/hostname.ts'
import { nearest } from '../kernel/nearest.ts'
import { classifyAddress, openedMetadata, specialName } from './addresses.ts'
import type { HostPattern } from './hosts.ts'
import { METHODS } from './methods.ts'
import type { Diagnostic, EffectiveRoute, Place } from './model.ts'
import { suffixBelow } from './public-suffixes.ts'
import type { ParsedRule } from './ranking.ts'
import type { Upstream } from './routes.ts'

/** What an `ask` is told of, as nobody is there to be asked where a gate runs alone. */
const ALONE = 'action: ask is refused while no controller is there to ask'

/** Of no concern where a controller is there. */
export function isOfGateAlone({ message }: Diagnostic): boolean {
  return message.endsWith(ALONE)
}

/** What is allowed but unwise in one field of a rule, whatever the others are. */
export function lintRule({ rule, host, ports }: ParsedRule): Diagnostic[] {
  const found: string[] = []
  for (const method of rule.methods ?? []) found.push(...lintMethod(method))
  if (rule.action === 'ask') found.push(ALONE)
  if (rule.action !== 'deny') found.push(...lintOpened(rule))
  if (rule.action === 'allow') {
    for (const path of rule.paths ?? []) if (isWide(path)) found.push(`path "${path}" matches nearly every path`)
    if (rule.protocol === 'tcp' && (ports.has(80) || ports.has(443)))
      found.push('protocol: tcp lets web requests pass unseen on this port: use protocol: http, or tls: passthrough for pinned clients')
    const suffix = host.kind === 'below' ? suffixBelow(host.parent) : undefined
    if (suffix !== undefined) found.push(`host "${rule.host}" covers names under "${suffix}", where anybody can have one`)
  }
  return found.map((message) => sayOf('rule', rule, message))
}

/** Hosts that are refused for what they are, unless the rule lists addresses. */
export function lintRefused({ rule, host }: ParsedRule): Diagnostic[] {
  if (rule.action === 'deny') return []
  return refusedHost(host, rule.addresses).map((message) => sayOf('rule', rule, message('rule')))
}

export function lintRoute(route: EffectiveRoute, upstream: Upstream): Diagnostic[] {
  const refused = refusedHost({ kind: 'exact', host: upstream.host }, route.addresses).map((message) => message('route'))
  return [...lintOpened(route), ...refused].map((message) => sayOf('route', { id: route.name, from: route.from }, message))
}

/** A finding about one part, which it names. */
export function sayOf(
  what: 'rule' | 'route' | 'credential',
  { id, from }: { readonly id: string; readonly from: Place },
  message: string,
): Diagnostic {
  return { ...from, message: `${what} "${id}": ${message}` }
}

/** What a rule or route opens that is closed otherwise. */
export function lintOpened({ plaintext, addresses }: { plaintext: 'accept' | 'refuse'; addresses: readonly string[] }): string[] {
  const found = plaintext === 'accept' ? ['plaintext: accept lets credentials cross the network in the clear'] : []
  for (const range of addresses) {
    if (range.endsWith('/0')) found.push(`addresses "${range}" opens every private network: name the ranges that are meant`)
    const metadata = openedMetadata(range)
    if (metadata !== undefined)
      found.push(`addresses "${range}" opens a metadata or host address (${metadata}): what answers there may give out keys`)
  }
  return found
}

/** Why a host is refused for what it is, where no addresses are listed. */
export function refusedHost(host: HostPattern, addresses: readonly string[]): ((what: 'rule' | 'route' | 'oauth2') => string)[] {
  if (addresses.length > 0) return []
  const found: ((what: 'rule' | 'route' | 'oauth2') => string)[] = []
  const name = parseHostname(host.kind === 'exact' ? host.host : host.parent)
  const special = isHostname(name) ? specialName(name) : undefined
  if (special !== undefined)
    found.push((what) => `names under "${special}" are refused unless the ${what} lists addresses that they may lead to`)
  const address = host.kind === 'exact' && isAddress(host.host) ? classifyAddress(host.host) : undefined
  if (host.kind === 'exact' && address !== undefined)
    found.push((what) => `${host.host} is refused (${address.name}) unless the ${what} lists it in addresses`)
  return found
}

export function lintMethod(method: string): string[] {
  if (METHODS.has(method)) return []
  const near = nearest(method, METHODS)
  return [`method "${method}" is none that the gate lets in${near === undefined ? '' : `: did you mean "${near}"?`}`]
}

/** `**` with nothing literal before it. */
export function isWide(path: string): boolean {
  return path.startsWith('/**')
}

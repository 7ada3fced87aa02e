import { isAddress, type Hostname } from '../kernel/hostname.ts'
import { LIMITS } from '../kernel/limits.ts'
import { GATE_PORTS } from '../wire/gate-ports.ts'
import { sayOf } from './lints.ts'
import { isInForce } from './modes.ts'
import type { Diagnostic, EffectiveRule, NetworkMode, Policy } from './model.ts'
import { parseRule, type ParsedRule } from './ranking.ts'

/** One port of `protocol: tcp`, and all rules that let something pass on it. */
type TcpPort = {
  /** Of the first rule that names one host and few ports. */
  readonly host: Hostname
  readonly rule: EffectiveRule
  /** A rule that has the port for another host, or for many. */
  other?: EffectiveRule
}

const OWN: ReadonlySet<number> = new Set(Object.values(GATE_PORTS))

/**
 * Where connections lead that know no proxy and say nothing of a host: each port that rules of `protocol: tcp` have for one host alone,
 * and that this host can be reached on. `LIMITS.tcpPortsMax` at most, in the order of the rules.
 */
export function findTcpPorts(
  rules: readonly ParsedRule[],
  mode: NetworkMode,
  decideTunnel: Policy['decideTunnel'],
): ReadonlyMap<number, Hostname> {
  const found = new Map<number, Hostname>()
  for (const [port, { host, other }] of candidates(rules, mode).slice(0, LIMITS.tcpPortsMax)) {
    if (other !== undefined) continue
    const decision = decideTunnel(host, port)
    if (decision.action !== 'deny' && decision.carries === 'tcp') found.set(port, host)
  }
  return found
}

/** Ports on which a program without a proxy will look for a host in vain, though a rule names both. */
export function lintTcpPorts(rules: readonly ParsedRule[], mode: NetworkMode): Diagnostic[] {
  const found: Diagnostic[] = []
  for (const [port, { host, rule, other }] of portsOf(rules, mode)) {
    if (OWN.has(port)) {
      found.push(sayOf('rule', rule, `port ${port} is the gate's own: programs get to ${host} there by SOCKS or CONNECT only`))
    } else if (other !== undefined) {
      const message = `rule "${other.id}" has port ${port} too, for ${other.host}: without a proxy nobody can tell which is meant, and no connection is carried; use SOCKS or CONNECT, or different ports`
      found.push(sayOf('rule', rule, message))
    }
  }
  const [first] = candidates(rules, mode).slice(LIMITS.tcpPortsMax)
  if (first !== undefined) {
    const [port, { rule }] = first
    const message = `programs without a proxy arrive at ${LIMITS.tcpPortsMax} ports of all rules, and not at ${port} and what follows: use SOCKS or CONNECT`
    found.push(sayOf('rule', rule, message))
  }
  return found
}

/** Why a program that knows no proxy does not arrive there by name, where a rule lets the connection pass. */
export function whyNotByName(policy: Pick<Policy, 'tcpPorts' | 'effective'>, host: Hostname, port: number): string | undefined {
  if (policy.tcpPorts.get(port) === host) return undefined
  if (isAddress(host)) return 'an address is reached by a proxy only'
  if (OWN.has(port)) return `port ${port} is the gate's own`
  const rules = policy.effective.rules.filter((rule) => rule.restricted !== true).map(parseRule)
  const found = portsOf(rules, policy.effective.mode.value).get(port)
  if (found?.other !== undefined) return `rules "${found.rule.id}" and "${found.other.id}" have port ${port} for different hosts`
  return `that takes a rule for this host by its name, with ${LIMITS.tcpRulePortsMax} ports at most, and ${LIMITS.tcpPortsMax} of all rules`
}

function candidates(rules: readonly ParsedRule[], mode: NetworkMode): [number, TcpPort][] {
  return [...portsOf(rules, mode)].filter(([port]) => !OWN.has(port))
}

/** A long list of ports is about whatever may be there, not about services of one host. No name leads to an address. */
function portsOf(rules: readonly ParsedRule[], mode: NetworkMode): Map<number, TcpPort> {
  const passing = rules.filter(({ rule, host }) => isTcp(rule) && isInForce(rule, mode) && !(host.kind === 'exact' && isAddress(host.host)))
  const found = new Map<number, TcpPort>()
  for (const { rule, host, ports } of passing)
    if (host.kind === 'exact' && ports.size <= LIMITS.tcpRulePortsMax)
      for (const port of ports) if (!found.has(port)) found.set(port, { host: host.host, rule })
  for (const { rule, host, ports } of passing) {
    for (const port of ports) {
      const first = found.get(port)
      if (first !== undefined && !(host.kind === 'exact' && host.host === first.host)) first.other ??= rule
    }
  }
  return found
}

function isTcp({ protocol, action }: EffectiveRule): boolean {
  return protocol === 'tcp' && action !== 'deny'
}

import type { Hostname } from '../kernel/hostname.ts'
import type { HostIndex } from './hosts.ts'
import { findBest, indexRules, rulesFor, type HostRules } from './host-rules.ts'
import { isInForce, notPublic, OPEN_PORTS, OPEN_RULE } from './modes.ts'
import type { Decision, Facts, NetworkMode, Policy, Route, TunnelDecision } from './model.ts'
import { pathOf, pathProblem } from './paths.ts'
import { rankRules, withStricter, type ParsedRule, type Ranked } from './ranking.ts'
import { compileRestrictions } from './restrictions.ts'
import { noneOfHarness, notAllowed, notCanonical, nothingAllows, outsideRoute } from './refusals.ts'
import { judgeTunnel, type Otherwise } from './tunnels.ts'

export type RuleSet = Pick<Policy, 'decide' | 'decideTunnel' | 'decideRoute' | 'knowsName'>

type Compiled = {
  readonly hosts: HostIndex<HostRules>
  readonly mode: NetworkMode
  /** Whether a credential for this host depends on the path. */
  readonly credentialsSeePaths: (host: Hostname) => boolean
}

const OPEN: Decision = { action: 'allow', rule: OPEN_RULE }

/** @param source rules of restricted files only take away from what the others let through */
export function compileRules(source: readonly ParsedRule[], mode: NetworkMode, credentialsSeePaths: (host: Hostname) => boolean): RuleSet {
  const [restricted, full] = [source.filter(({ rule }) => rule.restricted), source.filter(({ rule }) => !rule.restricted)]
  const hosts = indexRules(rankRules(full.filter(({ rule }) => isInForce(rule, mode))))
  const compiled = { hosts, mode, credentialsSeePaths }
  const rules: RuleSet = {
    decide: (facts) => decide(compiled, facts),
    decideTunnel: (host, port) => decideTunnel(compiled, host, port),
    decideRoute: (route, facts) => decideRoute(compiled, route, facts),
    knowsName: (host) => knowsName(compiled, host),
  }
  if (restricted.length === 0) return rules
  const { ofRequest, ofTunnel } = compileRestrictions(restricted)
  const tunnel: RuleSet['decideTunnel'] = (host, port) => ofTunnel(rules.decideTunnel(host, port), host, port)
  return {
    decide: (facts) => ofRequest(rules.decide(facts), facts),
    decideTunnel: tunnel,
    decideRoute: (route, facts) => ofRequest(rules.decideRoute(route, facts), facts),
    knowsName: (host) =>
      rules.knowsName(host) &&
      passingPorts(compiled, host)
        .values()
        .some((port) => tunnel(host, port).action !== 'deny'),
  }
}

function decide(compiled: Compiled, facts: Facts): Decision {
  const first = decideAt(compiled, facts, facts.port)
  if (first.action === 'deny' || !first.rule.upgrade || facts.scheme !== 'http' || facts.port !== 80) return first
  // It leaves on port 443, so what is denied or asked about there is denied or asked about here.
  const second = decideAt(compiled, facts, 443)
  if (second.action === 'deny') return second
  const rule = withStricter(first.rule, second.rule)
  if (first.action === 'allow' && second.action === 'ask') return { action: 'ask', rule: { ...rule, id: second.rule.id } }
  return rule === first.rule ? first : { ...first, rule }
}

function decideAt(compiled: Compiled, facts: Facts, port: number): Decision {
  const { hosts, mode, credentialsSeePaths } = compiled
  const found = rulesFor(hosts, facts.host, port)
  if (found.length === 0 && mode !== 'open') return unmatchedRequest(compiled, facts.host, port)
  const path = pathOf(facts.path)
  const looksAtPath = found.some((rules) => rules.pathPorts.has(port)) || credentialsSeePaths(facts.host)
  const problem = looksAtPath ? pathProblem(path) : undefined
  if (problem !== undefined) return { action: 'deny', refusal: notCanonical(facts.host, path, problem) }
  const best = findBest(found, port, facts.method, looksAtPath ? path : undefined)
  if (best !== undefined) return best.decision
  return found.length === 0 || (mode === 'open' && OPEN_PORTS.has(port))
    ? unmatchedRequest(compiled, facts.host, port)
    : { action: 'deny', refusal: nothingAllows(facts.host, facts.method, path) }
}

function decideTunnel(compiled: Compiled, host: Hostname, port: number): TunnelDecision {
  const matching: Ranked[] = []
  compiled.hosts.each(host, (rules) => {
    for (const rule of rules.all) if (rule.ports.has(port)) matching.push(rule)
  })
  return judgeTunnel(matching, () => unmatched(compiled, host, port))
}

function decideRoute(compiled: Compiled, route: Route, facts: Facts): Decision {
  const { hosts, mode, credentialsSeePaths } = compiled
  const path = pathOf(facts.path)
  const found = rulesFor(hosts, facts.host, facts.port)
  const looksAtPath = route.basePath !== '' || found.some((rules) => rules.pathPorts.has(facts.port)) || credentialsSeePaths(facts.host)
  // "/v1/../admin" begins with "/v1/" and is outside of it.
  const problem = looksAtPath ? pathProblem(path) : undefined
  if (problem !== undefined) return { action: 'deny', refusal: notCanonical(facts.host, path, problem) }
  const isInside = path === route.basePath || path.startsWith(`${route.basePath}/`)
  if (!isInside || facts.host !== route.host || facts.port !== route.port || facts.scheme !== route.scheme)
    return { action: 'deny', refusal: outsideRoute(route) }
  // In this mode a route opens nothing: it leads only where the control plane may go.
  if (mode === 'none' && route.rule.plane === 'agent') return decide(compiled, facts)
  const best = findBest(found, facts.port, facts.method, looksAtPath ? path : undefined, ({ rule }) => rule.action !== 'allow')
  if (best === undefined) return { action: 'allow', rule: route.rule }
  if (best.rule.action === 'ask') return { action: 'ask', rule: { ...withStricter(route.rule, best.allowed), id: best.rule.id } }
  return best.decision
}

function knowsName(compiled: Compiled, host: Hostname): boolean {
  const found: HostRules[] = []
  compiled.hosts.each(host, (rules) => found.push(rules))
  const isOpen = compiled.mode === 'open' && notPublic(host) === undefined
  if (!found.some((rules) => rules.hasDenials)) return isOpen || found.some((rules) => rules.passingPorts.size > 0)
  return passingPorts(compiled, host)
    .values()
    .some((port) => decideTunnel(compiled, host, port).action !== 'deny')
}

/** Every port that might be reached at this host. */
function passingPorts(compiled: Compiled, host: Hostname): ReadonlySet<number> {
  let ports: ReadonlySet<number> = compiled.mode === 'open' && notPublic(host) === undefined ? OPEN_PORTS : new Set()
  compiled.hosts.each(host, (rules) => (ports = ports.union(rules.passingPorts)))
  return ports
}

function unmatchedRequest(compiled: Compiled, host: Hostname, port: number): Decision {
  const otherwise = unmatched(compiled, host, port)
  return 'code' in otherwise ? { action: 'deny', refusal: otherwise } : OPEN
}

/** What becomes of a request that no rule about HTTP is about. */
function unmatched({ hosts, mode }: Compiled, host: Hostname, port: number): Otherwise {
  const ports = new Set<number>()
  let tcp: Ranked | undefined
  hosts.each(host, (rules) => {
    rules.ports.forEach((known) => ports.add(known))
    tcp ??= rules.tcp.find(({ rule, ports: own }) => rule.action !== 'deny' && own.has(port))
  })
  // A port that a rule gives to tcp is no port of the web, whatever its number.
  if (mode === 'open' && OPEN_PORTS.has(port) && tcp === undefined) return notPublic(host) ?? OPEN_RULE
  if (mode === 'none') return noneOfHarness(host)
  const known = [...ports].toSorted((a, b) => a - b)
  return notAllowed(host, port, known, tcp?.rule.id)
}

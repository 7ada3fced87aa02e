import type { Refusal } from '../kernel/errors.ts'
import type { Hostname } from '../kernel/hostname.ts'
import { shown } from '../kernel/shown.ts'
import { createHostIndex } from './hosts.ts'
import { loosen, splitPathLoosely } from './lenient-paths.ts'
import { isInForce, notPublic, OPEN_PORTS, OPEN_RULE } from './modes.ts'
import type { Decision, Facts, NetworkMode, Policy, Route } from './model.ts'
import { createPathIndex, type PathIndex } from './path-index.ts'
import { canonicalPath, pathOf, pathProblem, splitPath } from './paths.ts'
import { rankRules, type ParsedRule, type Ranked } from './ranking.ts'
import { judgeTunnel, type Otherwise } from './tunnels.ts'

/** All rules for one host pattern. */
type HostRules = {
  readonly all: Ranked[]
  /** Ports where some rule is about HTTP. */
  readonly ports: Set<number>
  /** Ports where some rule looks at paths. */
  readonly pathPorts: Set<number>
  /** Ports of rules that allow or ask. */
  readonly passingPorts: Set<number>
  hasDenials: boolean
  /** For the path as it stands. */
  readonly exact: PathIndex<Ranked>
  /** Rules that deny or ask, for the path as lenient servers may read it. */
  readonly loose: PathIndex<Ranked>
}

export type RuleSet = Pick<Policy, 'decide' | 'decideTunnel' | 'decideRoute' | 'knowsName'>

const OPEN: Decision = { action: 'allow', rule: OPEN_RULE }

/** @param credentialsSeePaths whether a credential for this host depends on the path */
export function compileRules(source: readonly ParsedRule[], mode: NetworkMode, credentialsSeePaths: (host: Hostname) => boolean): RuleSet {
  const hosts = createHostIndex<HostRules>()
  for (const ranked of rankRules(source.filter(({ rule }) => isInForce(rule, mode)))) addRule(hosts.at(ranked.host, newHostRules), ranked)

  function decide(facts: Facts): Decision {
    const first = decideAt(facts, facts.port)
    if (first.action === 'deny' || !first.rule.upgrade || facts.scheme !== 'http' || facts.port !== 80) return first
    // It leaves on port 443, so what is denied or asked about there is denied or asked about here.
    const second = decideAt(facts, 443)
    if (second.action === 'deny') return second
    return first.action === 'allow' && second.action === 'ask' ? { action: 'ask', rule: { ...first.rule, id: second.rule.id } } : first
  }

  function decideAt(facts: Facts, port: number): Decision {
    const found = rulesFor(facts.host, port)
    if (found.length === 0 && mode !== 'open') return decisionFrom(unmatched(facts.host, port))
    const path = pathOf(facts.path)
    const looksAtPath = found.some((rules) => rules.pathPorts.has(port)) || credentialsSeePaths(facts.host)
    const problem = looksAtPath ? pathProblem(path) : undefined
    if (problem !== undefined) return { action: 'deny', refusal: notCanonical(facts.host, path, problem) }
    const best = findBest(found, port, facts.method, looksAtPath ? path : undefined)
    if (best !== undefined) return best.decision
    return found.length === 0 || (mode === 'open' && OPEN_PORTS.has(port))
      ? decisionFrom(unmatched(facts.host, port))
      : { action: 'deny', refusal: nothingAllows(facts.host, facts.method, path) }
  }

  function decideTunnel(host: Hostname, port: number) {
    const matching: Ranked[] = []
    hosts.each(host, (rules) => {
      for (const rule of rules.all) if (rule.ports.has(port)) matching.push(rule)
    })
    return judgeTunnel(matching, () => unmatched(host, port))
  }

  function decideRoute(route: Route, facts: Facts): Decision {
    // In this mode a route opens nothing: it leads only where the control plane may go.
    if (mode === 'none' && route.rule.plane === 'agent') return decide(facts)
    const path = pathOf(facts.path)
    const isInside = path === route.basePath || path.startsWith(`${route.basePath}/`)
    const found = rulesFor(facts.host, facts.port)
    const looksAtPath = route.basePath !== '' || found.some((rules) => rules.pathPorts.has(facts.port)) || credentialsSeePaths(facts.host)
    // "/v1/../admin" begins with "/v1/" and is outside of it.
    const problem = looksAtPath ? pathProblem(path) : undefined
    if (problem !== undefined) return { action: 'deny', refusal: notCanonical(facts.host, path, problem) }
    if (!isInside || facts.host !== route.host || facts.port !== route.port || facts.scheme !== route.scheme)
      return { action: 'deny', refusal: outsideRoute(route) }
    const best = findBest(found, facts.port, facts.method, looksAtPath ? path : undefined, ({ rule }) => rule.action !== 'allow')
    if (best === undefined) return { action: 'allow', rule: route.rule }
    return best.rule.action === 'ask' ? { action: 'ask', rule: { ...route.rule, id: best.rule.id } } : best.decision
  }

  function knowsName(host: Hostname): boolean {
    const found: HostRules[] = []
    hosts.each(host, (rules) => found.push(rules))
    const isOpen = mode === 'open' && notPublic(host) === undefined
    if (!found.some((rules) => rules.hasDenials)) return isOpen || found.some((rules) => rules.passingPorts.size > 0)
    const ports = found.reduce((all, rules) => all.union(rules.passingPorts), isOpen ? OPEN_PORTS : new Set<number>())
    return ports.values().some((port) => decideTunnel(host, port).action !== 'deny')
  }

  /** Those with a rule about HTTP on this port. */
  function rulesFor(host: Hostname, port: number): HostRules[] {
    const found: HostRules[] = []
    hosts.each(host, (rules) => {
      if (rules.ports.has(port)) found.push(rules)
    })
    return found
  }

  function unmatched(host: Hostname, port: number): Otherwise {
    if (mode === 'open' && OPEN_PORTS.has(port)) return notPublic(host) ?? OPEN_RULE
    const ports = new Set<number>()
    let tcp: Ranked | undefined
    hosts.each(host, (rules) => {
      rules.ports.forEach((known) => ports.add(known))
      tcp ??= rules.all.find((rule) => rule.rule.protocol === 'tcp' && rule.ports.has(port))
    })
    return notAllowed(
      host,
      port,
      [...ports].toSorted((a, b) => a - b),
      tcp?.rule.id,
    )
  }

  return { decide, decideTunnel, decideRoute, knowsName }
}

function decisionFrom(otherwise: Otherwise): Decision {
  return 'code' in otherwise ? { action: 'deny', refusal: otherwise } : OPEN
}

function newHostRules(): HostRules {
  return {
    all: [],
    ports: new Set(),
    pathPorts: new Set(),
    passingPorts: new Set(),
    hasDenials: false,
    exact: createPathIndex(),
    loose: createPathIndex(),
  }
}

function addRule(rules: HostRules, ranked: Ranked): void {
  const { action, protocol } = ranked.rule
  rules.all.push(ranked)
  if (action === 'deny') rules.hasDenials = true
  else for (const port of ranked.ports) rules.passingPorts.add(port)
  // Requests are decided by what is said about HTTP.
  if (protocol === 'tcp') return
  for (const port of ranked.ports) {
    rules.ports.add(port)
    if (ranked.paths !== undefined) rules.pathPorts.add(port)
  }
  for (const pattern of ranked.paths ?? [undefined]) {
    rules.exact.add(pattern, ranked)
    if (pattern === undefined || action === 'allow') continue
    rules.loose.add(pattern, ranked)
    for (const lenient of loosen(pattern)) {
      // In both: most paths have one reading only, and that is met by a pattern's lenient readings too.
      rules.exact.add(lenient, ranked)
      rules.loose.add(lenient, ranked)
    }
  }
}

function findBest(
  found: readonly HostRules[],
  port: number,
  method: string,
  path: string | undefined,
  isWanted: (rule: Ranked) => boolean = () => true,
): Ranked | undefined {
  const segments = path === undefined ? undefined : splitPath(path)
  const readings = path === undefined ? [] : splitPathLoosely(path)
  const accept = (rule: Ranked): boolean =>
    rule.ports.has(port) && (rule.methods === undefined || rule.methods.has(method)) && isWanted(rule)
  let best: Ranked | undefined
  for (const rules of found) {
    for (const hit of [rules.exact.find(segments, accept), ...readings.map((reading) => rules.loose.find(reading, accept))]) {
      if (hit !== undefined && (best === undefined || hit.item.rank < best.rank)) best = hit.item
    }
  }
  return best
}

function notAllowed(host: Hostname, port: number, ports: readonly number[], tcp: string | undefined): Refusal {
  if (tcp !== undefined) {
    const message = `no rule allows HTTP to ${host} on port ${port}`
    return { code: 'host_not_allowed', message, hint: `rule "${tcp}" is about tcp connections there: open one with CONNECT or SOCKS` }
  }
  return ports.length === 0
    ? { code: 'host_not_allowed', message: `no rule allows ${host}`, hint: 'the operator can add a rule for this host' }
    : {
        code: 'host_not_allowed',
        message: `no rule allows ${host} on port ${port}`,
        hint: `rules name port ${ports.slice(0, 8).join(', ')}`,
      }
}

function nothingAllows(host: Hostname, method: string, path: string): Refusal {
  return {
    code: 'denied_by_rule',
    message: `no rule for ${host} allows ${shown(method)} ${shown(path)}`,
    hint: 'the operator can add the method and path to a rule for this host',
  }
}

function notCanonical(host: Hostname, path: string, problem: string): Refusal {
  const right = canonicalPath(path)
  return {
    code: 'path_not_canonical',
    message: `rules look at paths of ${host}, and "${shown(path)}" could be read in two ways: ${problem}`,
    ...(right !== undefined && { hint: `write "${shown(right)}"` }),
  }
}

function outsideRoute({ name, rule }: Route): Refusal {
  return { code: 'denied_by_rule', message: `the request is not below the upstream of route "${name}"`, rule: rule.id }
}

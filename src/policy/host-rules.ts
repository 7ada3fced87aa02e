import type { Hostname } from '../kernel/hostname.ts'
import { createHostIndex, type HostIndex } from './hosts.ts'
import { loosen, splitPathLoosely } from './lenient-paths.ts'
import { createPathIndex, type PathIndex } from './path-index.ts'
import { splitPath } from './paths.ts'
import type { Ranked } from './ranking.ts'

/** All rules for one host pattern. */
export type HostRules = {
  readonly all: Ranked[]
  /** Those about tcp connections. */
  readonly tcp: Ranked[]
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

/** @param ranked best first */
export function indexRules(ranked: readonly Ranked[]): HostIndex<HostRules> {
  const hosts = createHostIndex<HostRules>()
  for (const rule of ranked) addRule(hosts.at(rule.host, newHostRules), rule)
  return hosts
}

/** Those for this host that have a rule about HTTP on this port. */
export function rulesFor(hosts: HostIndex<HostRules>, host: Hostname, port: number): HostRules[] {
  const found: HostRules[] = []
  hosts.each(host, (rules) => {
    if (rules.ports.has(port)) found.push(rules)
  })
  return found
}

function newHostRules(): HostRules {
  return {
    all: [],
    tcp: [],
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
  if (protocol === 'tcp') {
    rules.tcp.push(ranked)
    return
  }
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

/** The strictest rule for a request, of those that are wanted. Without a path only rules for any path are looked at. */
export function findBest(
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

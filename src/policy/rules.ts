import type { Refusal } from '../kernel/errors.ts'
import type { Hostname } from '../kernel/hostname.ts'
import { shown } from '../kernel/shown.ts'
import { parseAddressRange } from './addresses.ts'
import { createHostIndex, hostSpecificity, parseHostPattern, type HostPattern } from './hosts.ts'
import { loosen, splitPathLoosely } from './lenient-paths.ts'
import type { AllowedRule, Decision, EffectiveRule, Facts } from './model.ts'
import { createPathIndex, type PathIndex } from './path-index.ts'
import { canonicalPath, parsePathPattern, pathOf, pathProblem, splitPath, type PathPattern } from './paths.ts'

/** A rule with everything parsed. The schema has checked all of it before. */
export type ParsedRule = {
  readonly rule: EffectiveRule
  readonly host: HostPattern
  readonly ports: ReadonlySet<number>
  readonly methods: ReadonlySet<string> | undefined
  readonly paths: readonly PathPattern[] | undefined
}

type Ranked = ParsedRule & { readonly rank: number; readonly decision: Decision; readonly allowed: AllowedRule }

/** All rules for one host pattern. */
type HostRules = {
  readonly all: Ranked[]
  readonly ports: Set<number>
  /** Ports where some rule looks at paths. */
  readonly pathPorts: Set<number>
  /** For the path as it stands. */
  readonly exact: PathIndex<Ranked>
  /** Rules that deny or ask, for the path as lenient servers may read it. */
  readonly loose: PathIndex<Ranked>
}

export type RuleSet = {
  decide(facts: Facts): Decision
  decideTunnel(host: Hostname, port: number): Decision
}

/** @param credentialsSeePaths whether a credential for this host depends on the path */
export function compileRules(source: readonly ParsedRule[], credentialsSeePaths: (host: Hostname) => boolean): RuleSet {
  const hosts = createHostIndex<HostRules>()
  for (const ranked of rankRules(source)) addRule(hosts.at(ranked.host, newHostRules), ranked)

  function decide(facts: Facts): Decision {
    const first = decideAt(facts, facts.port)
    if (first.action === 'allow' && first.rule.upgrade && facts.scheme === 'http' && facts.port === 80) {
      // It leaves on port 443, so what is denied there is denied here.
      const second = decideAt(facts, 443)
      if (second.action === 'deny') return second
    }
    return first
  }

  function decideAt(facts: Facts, port: number): Decision {
    const found: HostRules[] = []
    hosts.each(facts.host, (rules) => {
      if (rules.ports.has(port)) found.push(rules)
    })
    if (found.length === 0) return { action: 'deny', refusal: notAllowed(facts.host, port, portsOf(facts.host)) }
    const path = pathOf(facts.path)
    const looksAtPath = found.some((rules) => rules.pathPorts.has(port)) || credentialsSeePaths(facts.host)
    const problem = looksAtPath ? pathProblem(path) : undefined
    if (problem !== undefined) return { action: 'deny', refusal: notCanonical(facts.host, path, problem) }
    const best = findBest(found, port, facts.method, looksAtPath ? path : undefined)
    return best === undefined ? { action: 'deny', refusal: nothingAllows(facts.host, facts.method, path) } : best.decision
  }

  function portsOf(host: Hostname): number[] {
    const ports = new Set<number>()
    hosts.each(host, (rules) => rules.ports.forEach((port) => ports.add(port)))
    return [...ports].toSorted((a, b) => a - b)
  }

  function decideTunnel(host: Hostname, port: number): Decision {
    const matching: Ranked[] = []
    hosts.each(host, (rules) => {
      if (rules.ports.has(port)) for (const rule of rules.all) if (rule.ports.has(port)) matching.push(rule)
    })
    if (matching.length === 0) return { action: 'deny', refusal: notAllowed(host, port, portsOf(host)) }
    matching.sort((a, b) => a.rank - b.rank)
    const closed = matching.find(({ rule, methods, paths }) => rule.action !== 'allow' && methods === undefined && paths === undefined)
    if (closed !== undefined) return closed.decision
    const allows = matching.filter(({ rule }) => rule.action === 'allow')
    const best = allows[0]
    // Only conditional denials and questions: nothing inside could pass.
    if (best === undefined)
      return (
        (matching.find(({ rule }) => rule.action === 'ask') ?? matching[0])?.decision ?? {
          action: 'deny',
          refusal: notAllowed(host, port, []),
        }
      )
    const isBlind = matching.every(
      ({ rule, methods, paths }) => rule.tls === 'passthrough' && rule.action === 'allow' && methods === undefined && paths === undefined,
    )
    if (isBlind) return best.decision
    // What is inside is decided anew, by its own rule; the tunnel may lead wherever one of them may.
    const addresses = [...new Map(allows.flatMap(({ allowed }) => allowed.addresses.map((range) => [range.text, range]))).values()]
    return { action: 'allow', rule: { ...best.allowed, tls: 'intercept', addresses } }
  }

  return { decide, decideTunnel }
}

/** Parses what a rule says. */
export function parseRule(rule: EffectiveRule): ParsedRule {
  const host = parseHostPattern(rule.host)
  if (typeof host === 'string') throw new Error(host) // the schema has refused it before
  return {
    rule,
    host,
    ports: new Set(rule.ports),
    methods: rule.methods && new Set(rule.methods),
    paths: rule.paths?.map((text) => parsed(parsePathPattern(text))),
  }
}

export function parsed<T>(value: T | string): T {
  if (typeof value === 'string') throw new Error(value) // the schema has refused it before
  return value
}

function newHostRules(): HostRules {
  return { all: [], ports: new Set(), pathPorts: new Set(), exact: createPathIndex(), loose: createPathIndex() }
}

function addRule(rules: HostRules, ranked: Ranked): void {
  rules.all.push(ranked)
  for (const port of ranked.ports) {
    rules.ports.add(port)
    if (ranked.paths !== undefined) rules.pathPorts.add(port)
  }
  for (const pattern of ranked.paths ?? [undefined]) {
    rules.exact.add(pattern, ranked)
    if (pattern === undefined || ranked.rule.action === 'allow') continue
    rules.loose.add(pattern, ranked)
    for (const lenient of loosen(pattern)) {
      // In both: most paths have one reading only, and that is met by a pattern's lenient readings too.
      rules.exact.add(lenient, ranked)
      rules.loose.add(lenient, ranked)
    }
  }
}

function findBest(found: readonly HostRules[], port: number, method: string, path: string | undefined): Ranked | undefined {
  const segments = path === undefined ? undefined : splitPath(path)
  const readings = path === undefined ? [] : splitPathLoosely(path)
  const accept = (rule: Ranked): boolean => rule.ports.has(port) && (rule.methods === undefined || rule.methods.has(method))
  let best: Ranked | undefined
  for (const rules of found) {
    for (const hit of [rules.exact.find(segments, accept), ...readings.map((reading) => rules.loose.find(reading, accept))]) {
      if (hit !== undefined && (best === undefined || hit.item.rank < best.rank)) best = hit.item
    }
  }
  return best
}

/** I9 */
const STRICTNESS = { deny: 0, ask: 1, allow: 2 }

/**
 * Rules in the order in which they win: strictest action, intercept before passthrough, then the more specific one,
 * then the one that opens less, then the one written first.
 */
function rankRules(rules: readonly ParsedRule[]): Ranked[] {
  const keyOf = ({ rule, host }: ParsedRule): number[] => [
    STRICTNESS[rule.action],
    rule.tls === 'intercept' ? 0 : 1,
    -hostSpecificity(host),
    rule.paths === undefined ? 1 : 0,
    rule.methods === undefined ? 1 : 0,
    rule.addresses.length === 0 ? 0 : 1,
    rule.plaintext === 'refuse' ? 0 : 1,
    rule.upgrade === undefined ? 1 : 0,
  ]
  const keyed = rules.map((rule) => ({ rule, key: keyOf(rule) }))
  keyed.sort((a, b) => {
    for (const [index, value] of a.key.entries()) {
      const difference = value - (b.key[index] ?? 0)
      if (difference !== 0) return difference
    }
    return 0
  })
  return keyed.map(({ rule }, rank) => {
    const allowed = allowedRule(rule.rule)
    return { ...rule, rank, allowed, decision: decisionOf(rule.rule, allowed) }
  })
}

function allowedRule(rule: EffectiveRule): AllowedRule {
  return {
    id: rule.id,
    tls: rule.tls,
    upgrade: rule.upgrade === 'https',
    plaintext: rule.plaintext === 'accept',
    addresses: rule.addresses.map((text) => parsed(parseAddressRange(text))),
  }
}

function decisionOf(rule: EffectiveRule, allowed: AllowedRule): Decision {
  if (rule.action === 'allow') return { action: 'allow', rule: allowed }
  if (rule.action === 'ask') {
    return {
      action: 'deny',
      refusal: {
        code: 'controller_unavailable',
        message: `rule "${rule.id}" asks the operator first, and no controller is there to ask`,
        hint: 'the operator can change the rule to allow or deny',
        rule: rule.id,
      },
    }
  }
  return { action: 'deny', refusal: { code: 'denied_by_rule', message: `rule "${rule.id}" denies it`, rule: rule.id } }
}

function notAllowed(host: Hostname, port: number, ports: readonly number[]): Refusal {
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

import type { Damage } from './assemble.ts'
import { findCovered, findOverruled, named, type Findings, type ParsedRoute } from './coverage.ts'
import { findCredentialConflicts } from './credential-conflicts.ts'
import type { CredentialPart } from './credentials.ts'
import { hostsOverlap, type HostPattern } from './hosts.ts'
import type { Section } from './layers.ts'
import { lintCredential, lintScrub } from './credential-lints.ts'
import { lintRefused, lintRoute, lintRule } from './lints.ts'
import { lintMode } from './modes.ts'
import type { EffectivePolicy, EffectiveRule } from './model.ts'
import { parsed, parseRule, type ParsedRule } from './ranking.ts'
import { checkReach, checkRoute } from './reach.ts'
import { lintTcpPorts } from './tcp-ports.ts'
import { parseUpstream, type Upstream } from './routes.ts'

/**
 * What contradicts itself between the parts of a policy, and what is allowed but unwise.
 * @param damage parts that are left out because of errors: nothing is said that they could make wrong
 * @param doubts sections of which parts may stand where nothing could be read
 */
export function findConflicts(
  policy: EffectivePolicy,
  rules: readonly ParsedRule[],
  parts: readonly CredentialPart[],
  damage: Damage,
  doubts: ReadonlySet<Section>,
): Findings {
  const mode = policy.mode.value
  const mayLackRules = doubts.has('network')
  const mayLackRoutes = doubts.has('routes') || damage.hasRoutes
  const routes = policy.routes.map((route): ParsedRoute => ({ route, upstream: parsed<Upstream>(parseUpstream(route.upstream)) }))
  const covered = findCovered(rules, routes, mode)
  const modes = mayLackRules ? { errors: [], warnings: [] } : lintMode(policy)
  const duplicates = findDuplicates(rules)
  const between = findCredentialConflicts(policy.credentials, parts)
  const errors = [...duplicates.errors, ...covered.errors, ...modes.errors, ...between.errors]
  const warnings = [
    ...duplicates.warnings,
    ...covered.warnings,
    ...findOverruled(rules, mode),
    ...modes.warnings,
    ...lintTcpPorts(rules, mode),
    ...rules.flatMap((rule) => [...lintRule(rule), ...lintRefused(rule)]),
    // Whether a refused name or address is listed cannot be said of these: "addresses" may be what is wrong.
    ...damage.rules.flatMap((rule) => lintRule(parseRule(rule))),
    ...routes.flatMap(({ route, upstream }) => lintRoute(route, upstream)),
    ...policy.credentials.flatMap(lintCredential),
    ...between.warnings,
    ...rules.flatMap((rule) => lintScrub(rule, parts)),
  ]
  const findings: Findings = { errors, warnings }
  const inDoubt = (pattern: HostPattern): boolean =>
    mayLackRules || mayLackRoutes || damage.hosts === undefined || damage.hosts.some((host) => hostsOverlap(host, pattern))
  for (const credential of policy.credentials) checkReach(credential, { rules, routes, mode }, inDoubt, findings)
  for (const route of routes) checkRoute(route, policy.credentials, { rules, mode: mayLackRules ? 'restricted' : mode, routes }, findings)
  const first = policy.files.at(-1)
  const isEmpty = rules.length === 0 && routes.length === 0 && mode !== 'open'
  if (isEmpty && first !== undefined && !mayLackRules && !mayLackRoutes && damage.hosts?.length === 0)
    warnings.push({ file: first, line: 0, column: 0, message: 'no rules: everything is denied' })
  return findings
}

/** In one file a mistake. Two files, of which the user may have written neither, can well need the same host. */
function findDuplicates(rules: readonly ParsedRule[]): Findings {
  const seen = new Map<string, EffectiveRule>()
  const findings: Findings = { errors: [], warnings: [] }
  for (const { rule } of rules) {
    const { id: _id, from: _from, ...rest } = rule
    const sorted = {
      ...rest,
      ports: rest.ports.toSorted((a, b) => a - b),
      methods: rest.methods?.toSorted(),
      paths: rest.paths?.toSorted(),
      addresses: rest.addresses.toSorted(),
    }
    const key = JSON.stringify(sorted)
    const before = seen.get(key)
    if (before === undefined) {
      seen.set(key, rule)
      continue
    }
    const to = before.from.file === rule.from.file ? findings.errors : findings.warnings
    to.push({ ...rule.from, message: `rule "${rule.id}" says the same as ${named(before)}: remove one of them` })
  }
  return findings
}

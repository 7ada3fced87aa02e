import { isAddress, isHostname, parseHostname } from '../kernel/hostname.ts'
import { nearest } from '../kernel/nearest.ts'
import { classifyAddress, openedMetadata, specialName } from './addresses.ts'
import { formatPlace, type Damage } from './assemble.ts'
import { partsTie, type CredentialPart } from './credentials.ts'
import { coversHost, hostsOverlap, parseHostPattern, type HostPattern } from './hosts.ts'
import { METHODS } from './methods.ts'
import type { Diagnostic, EffectiveCredential, EffectivePolicy, EffectiveRule, Place } from './model.ts'
import { suffixBelow } from './public-suffixes.ts'
import { parseRule, type ParsedRule } from './ranking.ts'

export type Findings = { readonly errors: Diagnostic[]; readonly warnings: Diagnostic[] }

/**
 * What contradicts itself between the parts of a policy, and what is allowed but unwise.
 * @param damage rules that are left out because of errors: nothing is said that they could make wrong
 * @param mayLackRules true when rules may stand where nothing could be read
 */
export function findConflicts(
  policy: EffectivePolicy,
  rules: readonly ParsedRule[],
  parts: readonly CredentialPart[],
  damage: Damage,
  mayLackRules: boolean,
): Findings {
  const findings: Findings = { errors: [], warnings: [] }
  const inDoubt = (pattern: HostPattern): boolean =>
    mayLackRules || damage.hosts === undefined || damage.hosts.some((host) => hostsOverlap(host, pattern))
  findDuplicates(rules, findings)
  findCovered(rules, findings)
  for (const rule of rules) {
    lintRule(rule, findings)
    lintRefused(rule, findings)
  }
  // Whether a refused name or address is listed cannot be said of these: "addresses" may be what is wrong.
  for (const rule of damage.rules) lintRule(parseRule(rule), findings)
  for (const credential of policy.credentials) {
    checkReach(credential, rules, inDoubt, findings)
    lintCredential(credential, findings)
  }
  findTies(parts, findings)
  const first = policy.files.at(-1)
  if (rules.length === 0 && first !== undefined && !mayLackRules && damage.hosts?.length === 0)
    findings.warnings.push({ file: first, line: 0, column: 0, message: 'no rules: everything is denied' })
  return findings
}

function findDuplicates(rules: readonly ParsedRule[], { errors }: Findings): void {
  const seen = new Map<string, EffectiveRule>()
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
    if (before === undefined) seen.set(key, rule)
    else errors.push({ ...rule.from, message: `rule "${rule.id}" says the same as ${named(before)}: remove one of them` })
  }
}

/**
 * Rules that can never decide. In one file that is a mistake; over layers it is how a later file takes back what an
 * earlier one allows, so there it is a warning only.
 */
function findCovered(rules: readonly ParsedRule[], findings: Findings): void {
  const denials = rules.filter(({ rule }) => rule.action === 'deny')
  const looking = rules.filter(
    ({ rule, methods, paths }) => rule.tls === 'intercept' || rule.action !== 'allow' || methods !== undefined || paths !== undefined,
  )
  for (const inner of rules) {
    if (inner.rule.action === 'deny') continue
    const denial = denials.find((outer) => covers(outer, inner))
    if (denial !== undefined) {
      const to = denial.rule.from.file === inner.rule.from.file ? findings.errors : findings.warnings
      to.push({ ...inner.rule.from, message: `rule "${inner.rule.id}" is unreachable: ${named(denial.rule)} denies all that it is about` })
      continue
    }
    if (inner.rule.tls !== 'passthrough') continue
    const looker = looking.find((outer) => coversHost(outer.host, inner.host) && inner.ports.isSubsetOf(outer.ports))
    if (looker !== undefined) {
      findings.warnings.push({
        ...inner.rule.from,
        message: `rule "${inner.rule.id}": tls: passthrough never takes effect, as ${named(looker.rule)} has to look inside`,
      })
    }
  }
}

/** Whether `outer` matches every request that `inner` matches. Path patterns are compared as they are written. */
function covers(outer: ParsedRule, inner: ParsedRule): boolean {
  if (!inner.ports.isSubsetOf(outer.ports) || !coversHost(outer.host, inner.host)) return false
  if (outer.methods && !inner.methods?.isSubsetOf(outer.methods)) return false
  const texts = outer.rule.paths
  return texts === undefined || (inner.rule.paths?.every((path) => texts.includes(path)) ?? false)
}

function findTies(parts: readonly CredentialPart[], { errors }: Findings): void {
  const byDomain = Map.groupBy(parts, (part) => part.domain)
  const told = new Set<string>()
  for (const [domain, group] of byDomain) {
    for (const [index, b] of group.entries()) {
      const a = group.slice(0, index).find((other) => other.credential.id !== b.credential.id && partsTie(other, b))
      const pair = a && JSON.stringify([a.credential.id, b.credential.id])
      if (a === undefined || pair === undefined || told.has(pair)) continue
      told.add(pair)
      const where = b.path === undefined ? domain : `${domain}${b.path.text}`
      errors.push({
        ...b.credential.from,
        message: `credential "${b.credential.id}" and credential "${a.credential.id}" (${formatPlace(a.credential.from)}) are both for ${where}, and neither is more specific: narrow one by paths or methods`,
      })
    }
  }
}

/** A credential must be able to be written at all. */
function checkReach(
  credential: EffectiveCredential,
  rules: readonly ParsedRule[],
  inDoubt: (pattern: HostPattern) => boolean,
  { errors, warnings }: Findings,
): void {
  const say = (message: string): Diagnostic => sayOf('credential', credential, message)
  let anyMethod: EffectiveRule | undefined
  for (const domain of credential.domains) {
    const pattern = parseHostPattern(domain)
    if (typeof pattern === 'string') continue
    const reaching = rules.filter(({ rule, host }) => rule.action === 'allow' && hostsOverlap(host, pattern))
    const [first] = reaching
    if (!inDoubt(pattern)) {
      if (first === undefined) warnings.push(say(`no rule allows ${domain}, so it is never written there`))
      else if (reaching.every(({ rule }) => rule.tls === 'passthrough')) {
        errors.push(
          say(
            `${domain} is reached through ${named(first.rule)} only, and nothing can be written into a passthrough tunnel: use tls: intercept`,
          ),
        )
      }
    }
    anyMethod ??= reaching.find(({ rule, methods }) => methods === undefined && rule.tls === 'intercept')?.rule
  }
  if (credential.methods === undefined && anyMethod !== undefined)
    warnings.push(say(`it goes on requests of any method: ${named(anyMethod)} has no methods`))
}

function lintCredential(credential: EffectiveCredential, { warnings }: Findings): void {
  const say = (message: string): void => void warnings.push(sayOf('credential', credential, message))
  const { place } = credential
  // "Token token=" is whole as it stands, "Bearer" is not.
  if (place.kind === 'header' && place.header.toLowerCase() === 'authorization' && /[^ ="]$/.test(place.prefix))
    say(`prefix "${place.prefix}" would send "${place.prefix}<secret>": write "${place.prefix} " with a space at its end`)
  for (const method of credential.methods ?? []) lintMethod(method, say)
  for (const path of credential.paths ?? []) if (isWide(path)) say(`path "${path}" matches nearly every path`)
}

/** What can be said of one field whatever the others are. */
function lintRule({ rule, host }: ParsedRule, { warnings }: Findings): void {
  const say = (message: string): void => void warnings.push(sayOf('rule', rule, message))
  for (const method of rule.methods ?? []) lintMethod(method, say)
  if (rule.action === 'ask') say('action: ask is refused while no controller is there to ask')
  if (rule.action !== 'allow') return
  if (rule.plaintext === 'accept') say('plaintext: accept lets credentials cross the network in the clear')
  for (const range of rule.addresses) {
    if (range.endsWith('/0')) say(`addresses "${range}" opens every private network: name the ranges that are meant`)
    const metadata = openedMetadata(range)
    if (metadata !== undefined)
      say(`addresses "${range}" opens a metadata or host address (${metadata}): what answers there may give out keys`)
  }
  for (const path of rule.paths ?? []) if (isWide(path)) say(`path "${path}" matches nearly every path`)
  const suffix = host.kind === 'below' ? suffixBelow(host.parent) : undefined
  if (suffix !== undefined) say(`host "${rule.host}" covers names under "${suffix}", where anybody can have one`)
}

/** Hosts that are refused for what they are, unless the rule lists addresses. */
function lintRefused({ rule, host }: ParsedRule, { warnings }: Findings): void {
  const say = (message: string): void => void warnings.push(sayOf('rule', rule, message))
  if (rule.action !== 'allow' || rule.addresses.length > 0) return
  const name = parseHostname(host.kind === 'exact' ? host.host : host.parent)
  const special = isHostname(name) ? specialName(name) : undefined
  if (special !== undefined) say(`names under "${special}" are refused unless the rule lists addresses that they may lead to`)
  const address = host.kind === 'exact' && isAddress(host.host) ? classifyAddress(host.host) : undefined
  if (address !== undefined) say(`${rule.host} is refused (${address.name}) unless the rule lists it in addresses`)
}

function lintMethod(method: string, say: (message: string) => void): void {
  if (METHODS.has(method)) return
  const near = nearest(method, METHODS)
  say(`method "${method}" is none that the gate lets in${near === undefined ? '' : `: did you mean "${near}"?`}`)
}

function sayOf(what: 'rule' | 'credential', { id, from }: { readonly id: string; readonly from: Place }, message: string): Diagnostic {
  return { ...from, message: `${what} "${id}": ${message}` }
}

/** `**` with nothing literal before it. */
function isWide(path: string): boolean {
  return path.startsWith('/**')
}

function named(item: { readonly id: string; readonly from: Place }): string {
  return `rule "${item.id}" (${formatPlace(item.from)})`
}

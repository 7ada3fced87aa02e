import { parseAddressRange } from './addresses.ts'
import { hostSpecificity, parseHostPattern, type HostPattern } from './hosts.ts'
import type { AllowedRule, Decision, EffectiveRule, OwnCredentials } from './model.ts'
import { parsePathPattern, type PathPattern } from './paths.ts'

/** A rule with everything parsed. The schema has checked all of it before. */
export type ParsedRule = {
  readonly rule: EffectiveRule
  readonly host: HostPattern
  readonly ports: ReadonlySet<number>
  readonly methods: ReadonlySet<string> | undefined
  readonly paths: readonly PathPattern[] | undefined
}

/** A rule in the order in which rules win: the lower rank does. */
export type Ranked = ParsedRule & { readonly rank: number; readonly decision: Decision; readonly allowed: AllowedRule }

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

/** Whether a rule is about some requests of its hosts and ports only. */
export function isConditional({ methods, paths }: Pick<ParsedRule, 'methods' | 'paths'>): boolean {
  return methods !== undefined || paths !== undefined
}

/** I9 */
const STRICTNESS = { deny: 0, ask: 1, allow: 2 }

const SCRUB_STRICTNESS = { block: 0, replace: 1, off: 2 }
/** Where nothing is said only what stands in the place of a bound credential goes. */
const OWN_STRICTNESS = { deny: 0, drop: 1, none: 2, pass: 3 }

/**
 * Rules in the order in which they win: strictest action, intercept before passthrough, then the more specific one,
 * then the one that opens less, then the one written first.
 */
export function rankRules(rules: readonly ParsedRule[]): Ranked[] {
  const keyOf = ({ rule, host }: ParsedRule): number[] => [
    STRICTNESS[rule.action],
    rule.tls === 'intercept' ? 0 : 1,
    -hostSpecificity(host),
    rule.paths === undefined ? 1 : 0,
    rule.methods === undefined ? 1 : 0,
    rule.addresses.length === 0 ? 0 : 1,
    rule.plaintext === 'refuse' ? 0 : 1,
    rule.upgrade === undefined ? 1 : 0,
    SCRUB_STRICTNESS[rule.scrub],
    ownStrictness(rule.ownCredentials),
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

function ownStrictness(own: OwnCredentials | undefined): number {
  return OWN_STRICTNESS[own ?? 'none']
}

function allowedRule(rule: EffectiveRule): AllowedRule {
  return {
    id: rule.id,
    tls: rule.tls,
    upgrade: rule.upgrade === 'https',
    plaintext: rule.plaintext === 'accept',
    addresses: rule.addresses.map((text) => parsed(parseAddressRange(text))),
    plane: rule.plane,
    scrub: rule.scrub,
    ownCredentials: rule.ownCredentials,
  }
}

/** The rule, or where the other one is stricter about what goes in and comes back, the rule with that. */
export function withStricter(rule: AllowedRule, other: AllowedRule): AllowedRule {
  const scrub = SCRUB_STRICTNESS[other.scrub] < SCRUB_STRICTNESS[rule.scrub] ? other.scrub : rule.scrub
  const ownCredentials =
    ownStrictness(other.ownCredentials) < ownStrictness(rule.ownCredentials) ? other.ownCredentials : rule.ownCredentials
  return scrub === rule.scrub && ownCredentials === rule.ownCredentials ? rule : { ...rule, scrub, ownCredentials }
}

function decisionOf({ id, action }: EffectiveRule, rule: AllowedRule): Decision {
  if (action !== 'deny') return { action, rule }
  return { action, refusal: { code: 'denied_by_rule', message: `rule "${id}" denies it`, rule: id } }
}

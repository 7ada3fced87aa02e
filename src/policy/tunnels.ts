import type { Refusal } from '../kernel/errors.ts'
import type { AllowedRule, TunnelDecision } from './model.ts'
import { isConditional, type Ranked } from './ranking.ts'

/** What holds where no rule does: mode `open` lets it through, or why not. */
export type Otherwise = AllowedRule | Refusal

/**
 * Decides on a connection before anything of it is seen.
 * @param matching all rules in force for its host and port, in any order
 * @param otherwise what becomes of requests that no rule is about
 */
export function judgeTunnel(matching: readonly Ranked[], otherwise: () => Otherwise): TunnelDecision {
  const ranked = matching.toSorted((a, b) => a.rank - b.rank)
  const passing = ranked.filter(({ rule }) => rule.action !== 'deny')
  // HTTP wins where both are possible: it is looked into, so it is the stricter reading.
  const isTcp = passing.some(({ rule }) => rule.protocol === 'tcp') && !passing.some(({ rule }) => rule.protocol === 'http')
  if (!isTcp) return judgeHttp(ranked, otherwise)
  const unseen = judgeTcp(ranked, passing)
  if (unseen.action !== 'deny') return unseen
  // Nothing passes unseen, but a rule may ask about requests, which are looked into.
  const seen = judgeHttp(ranked, () => unseen.refusal)
  return seen.action === 'deny' ? unseen : seen
}

/** Nobody sees what such a connection carries: whatever any rule denies or asks about there holds for all of it. */
function judgeTcp(ranked: readonly Ranked[], passing: readonly Ranked[]): TunnelDecision {
  const denials = ranked.filter(({ rule }) => rule.action === 'deny')
  const denial = denials.find((rule) => !isConditional(rule)) ?? denials[0]
  if (denial !== undefined) {
    if (!isConditional(denial) && denial.decision.action === 'deny') return denial.decision
    const { id } = denial.rule
    const message = `rule "${id}" denies some requests there, and nobody can see what a tcp connection carries`
    return { action: 'deny', refusal: { code: 'denied_by_rule', message, rule: id } }
  }
  const best = passing.find(({ rule }) => rule.action === 'ask') ?? passing[0]
  if (best === undefined) throw new Error('a tcp connection without a rule')
  return { action: best.rule.action === 'ask' ? 'ask' : 'allow', carries: 'tcp', rule: best.allowed }
}

function judgeHttp(ranked: readonly Ranked[], otherwise: () => Otherwise): TunnelDecision {
  const about = ranked.filter(({ rule }) => rule.protocol !== 'tcp')
  const closed = about.find((rule) => rule.rule.action === 'deny' && !isConditional(rule))
  if (closed?.decision.action === 'deny') return closed.decision
  const allows = about.filter(({ rule }) => rule.action === 'allow')
  const asks = about.filter(({ rule }) => rule.action === 'ask')
  const [best] = allows
  if (best === undefined) {
    const [question] = asks
    const rest = otherwise()
    // Some requests inside are nobody's business in mode open, unless a question is about all of them.
    if (!('code' in rest) && asks.every(isConditional)) return { action: 'allow', carries: 'http', rule: joined(rest, asks) }
    if (question !== undefined) return { action: 'ask', carries: 'http', rule: joined(question.allowed, asks) }
    const denial = about[0]?.decision
    if (denial?.action === 'deny') return denial
    if ('code' in rest) return { action: 'deny', refusal: rest }
    throw new Error('a tunnel that mode open lets through is let through above')
  }
  const isBlind = about.every((rule) => rule.rule.tls === 'passthrough' && rule.rule.action === 'allow' && !isConditional(rule))
  return { action: 'allow', carries: 'http', rule: isBlind ? best.allowed : joined(best.allowed, [...allows, ...asks]) }
}

/** What is inside is decided anew, by its own rule; the tunnel may lead wherever one of them may. */
function joined(rule: AllowedRule, others: readonly Ranked[]): AllowedRule {
  const ranges = others.flatMap(({ allowed }) => allowed.addresses.map((range) => [range.text, range] as const))
  return { ...rule, tls: 'intercept', addresses: [...new Map(ranges).values()] }
}

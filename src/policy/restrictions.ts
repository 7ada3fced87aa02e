import type { Hostname } from '../kernel/hostname.ts'
import { findBest, indexRules, rulesFor } from './host-rules.ts'
import type { Decision, Facts, TunnelDecision } from './model.ts'
import { pathOf, pathProblem } from './paths.ts'
import { isConditional, rankRules, type ParsedRule, type Ranked } from './ranking.ts'
import { notCanonical } from './refusals.ts'

/** What rules that may only take away make of a decision: itself, or a stricter one. */
export type Restrictions = {
  readonly ofRequest: (decision: Decision, facts: Facts) => Decision
  readonly ofTunnel: (decision: TunnelDecision, host: Hostname, port: number) => TunnelDecision
}

/**
 * Rules that are never part of the decision of the others: they are asked afterwards, about what those let through. So none of
 * them can give a host, a port, a name or a question that was not there. I29
 */
export function compileRestrictions(source: readonly ParsedRule[]): Restrictions {
  const hosts = indexRules(rankRules(source))

  function restrictAt(decision: Exclude<Decision, { action: 'deny' }>, facts: Facts, port: number): Decision {
    const found = rulesFor(hosts, facts.host, port)
    if (found.length === 0) return decision
    const path = pathOf(facts.path)
    const looksAtPath = found.some((rules) => rules.pathPorts.has(port))
    const problem = looksAtPath ? pathProblem(path) : undefined
    if (problem !== undefined) return { action: 'deny', refusal: notCanonical(facts.host, path, problem) }
    const best = findBest(found, port, facts.method, looksAtPath ? path : undefined)
    if (best === undefined) return decision
    if (best.decision.action === 'deny') return best.decision
    return decision.action === 'ask' ? decision : { action: 'ask', rule: { ...decision.rule, id: best.rule.id } }
  }

  return {
    ofRequest(decision, facts) {
      if (decision.action === 'deny') return decision
      const first = restrictAt(decision, facts, facts.port)
      // It leaves on port 443, so what is taken away there is taken away here.
      const leavesElsewhere = decision.rule.upgrade && facts.scheme === 'http' && facts.port === 80
      return first.action === 'deny' || !leavesElsewhere ? first : restrictAt(first, facts, 443)
    },
    ofTunnel(decision, host, port) {
      if (decision.action === 'deny') return decision
      const matching: Ranked[] = []
      hosts.each(host, (rules) => {
        for (const rule of rules.all) if (rule.ports.has(port)) matching.push(rule)
      })
      const ranked = matching.toSorted((a, b) => a.rank - b.rank)
      return decision.carries === 'tcp' ? restrictTcp(decision, ranked) : restrictHttp(decision, ranked)
    },
  }
}

type Passing = Exclude<TunnelDecision, { action: 'deny' }>

/** Nobody sees what is inside: what is about some of it is about all of it. */
function restrictTcp(decision: Passing, ranked: readonly Ranked[]): TunnelDecision {
  const [first] = ranked
  if (first === undefined) return decision
  if (first.rule.action === 'deny') return unseen(first, 'denies some requests there, and nobody can see what a tcp connection carries')
  return decision.action === 'ask' ? decision : { ...decision, action: 'ask', rule: { ...decision.rule, id: first.rule.id } }
}

function restrictHttp(decision: Passing, ranked: readonly Ranked[]): TunnelDecision {
  const about = ranked.filter(({ rule }) => rule.protocol !== 'tcp')
  const closed = about.find((rule) => rule.rule.action === 'deny' && !isConditional(rule))
  if (closed?.decision.action === 'deny') return closed.decision
  const [first] = about
  if (first === undefined) return decision
  // To look inside would write credentials where the others let them pass by: whoever may only take away may not ask for that.
  if (decision.rule.tls === 'passthrough')
    return unseen(
      first,
      `${first.rule.action === 'deny' ? 'denies some requests' : 'asks about requests'} there, and nobody looks into a passthrough tunnel`,
    )
  const question = about.find((rule) => rule.rule.action === 'ask' && !isConditional(rule))
  if (question === undefined || decision.action === 'ask') return decision
  return { ...decision, action: 'ask', rule: { ...decision.rule, id: question.rule.id } }
}

function unseen(rule: Ranked, why: string): TunnelDecision {
  if (rule.decision.action === 'deny' && !isConditional(rule)) return rule.decision
  const { id } = rule.rule
  return { action: 'deny', refusal: { code: 'denied_by_rule', message: `rule "${id}" ${why}`, rule: id } }
}

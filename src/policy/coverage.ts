import { formatPlace } from './assemble.ts'
import { coversHost, hostsOverlap } from './hosts.ts'
import { sayOf } from './lints.ts'
import { isInForce } from './modes.ts'
import type { Diagnostic, EffectiveRoute, NetworkMode, Place } from './model.ts'
import { isConditional, type ParsedRule } from './ranking.ts'
import type { Upstream } from './routes.ts'

/** A route whose upstream is read. */
export type ParsedRoute = { readonly route: EffectiveRoute; readonly upstream: Upstream }

export type Findings = { readonly errors: Diagnostic[]; readonly warnings: Diagnostic[] }

/**
 * Rules and routes that can never decide. In one file that is a mistake; over layers it is how a later file takes back what
 * an earlier one allows, so there it is a warning only.
 */
export function findCovered(rules: readonly ParsedRule[], routes: readonly ParsedRoute[], mode: NetworkMode): Findings {
  const findings: Findings = { errors: [], warnings: [] }
  const denials = rules.filter(({ rule }) => rule.action === 'deny')
  const questions = rules.filter(({ rule }) => rule.action === 'ask' && rule.plane === 'agent' && isInForce(rule, mode))
  for (const inner of rules) {
    // Without ports a rule is refused, and about nothing.
    if (inner.rule.action === 'deny' || inner.ports.size === 0) continue
    const isHarness = inner.rule.plane === 'control_plane'
    const denial = denials.find((outer) => shadows(outer, inner))
    if (denial !== undefined) {
      if (isHarness && denial.rule.plane === 'agent') findings.warnings.push(againstHarness(denial, 'denies', inner))
      else addBySource(findings, denial, inner.rule, unreachable(denial, inner))
      continue
    }
    const question = isHarness && inner.rule.action === 'allow' ? questions.find((outer) => shadows(outer, inner)) : undefined
    if (question !== undefined) findings.warnings.push(againstHarness(question, 'asks before', inner))
  }
  for (const { route, upstream } of routes) {
    const isAbout = ({ host, ports }: ParsedRule): boolean =>
      coversHost(host, { kind: 'exact', host: upstream.host }) && ports.has(upstream.port)
    const denial = denials.find((outer) => outer.rule.protocol !== 'tcp' && !isConditional(outer) && isAbout(outer))
    if (denial !== undefined)
      addBySource(findings, denial, route, `route "${route.name}" is unreachable: ${named(denial.rule)} denies all that it leads to`)
  }
  return findings
}

/** Rules of which another one takes part of the effect, since nobody sees into what they let through. */
export function findOverruled(rules: readonly ParsedRule[], mode: NetworkMode): Diagnostic[] {
  const inForce = rules.filter(({ rule }) => isInForce(rule, mode))
  const lookers = inForce.filter(
    (entry) => entry.rule.protocol !== 'tcp' && (entry.rule.tls === 'intercept' || entry.rule.action !== 'allow' || isConditional(entry)),
  )
  const web = inForce.filter(({ rule }) => rule.protocol === 'http' && rule.action !== 'deny')
  return inForce.flatMap((inner) => {
    const { rule, host, ports } = inner
    if (rule.action === 'deny') return []
    if (rule.protocol === 'tcp') {
      const other = web.find((outer) => hostsOverlap(outer.host, host) && !outer.ports.isDisjointFrom(ports))
      if (other === undefined) return []
      return [
        sayOf('rule', rule, `connections are taken for HTTP where ${named(other.rule)} is about the same host and port: name other ports`),
      ]
    }
    if (rule.tls !== 'passthrough') return []
    const looker = lookers.find((outer) => coversHost(outer.host, host) && ports.isSubsetOf(outer.ports))
    return looker === undefined
      ? []
      : [sayOf('rule', rule, `tls: passthrough never takes effect, as ${named(looker.rule)} has to look inside`)]
  })
}

/** `rule "x" (policy.yaml:4)`. */
export function named(item: { readonly id: string; readonly from: Place }): string {
  return `rule "${item.id}" (${formatPlace(item.from)})`
}

/** Whether `outer` leaves nothing to decide for `inner`. Path patterns are compared as they are written. */
function shadows(outer: ParsedRule, inner: ParsedRule): boolean {
  if (!inner.ports.isSubsetOf(outer.ports) || !coversHost(outer.host, inner.host)) return false
  // What is denied to some requests is denied to a whole connection that nobody sees into.
  if (inner.rule.protocol === 'tcp') return outer.rule.action === 'deny' || outer.rule.protocol !== 'http'
  if (outer.rule.protocol === 'tcp') return false
  if (outer.methods && !inner.methods?.isSubsetOf(outer.methods)) return false
  const texts = outer.rule.paths
  return texts === undefined || (inner.rule.paths?.every((path) => texts.includes(path)) ?? false)
}

function unreachable(denial: ParsedRule, { rule }: ParsedRule): string {
  const isPart = rule.protocol === 'tcp' && isConditional(denial)
  return `rule "${rule.id}" is unreachable: ${named(denial.rule)} denies ${isPart ? 'some requests there, and nobody can see what a tcp connection carries' : 'all that it is about'}`
}

/** Said where the operator wrote it, not in the file of the harness. */
function againstHarness({ rule }: ParsedRule, does: 'denies' | 'asks before', inner: ParsedRule): Diagnostic {
  return sayOf('rule', rule, `it ${does} all that ${named(inner.rule)} lets the harness itself do: the stricter one holds`)
}

function addBySource(findings: Findings, denial: ParsedRule, inner: { readonly from: Place }, message: string): void {
  const to = denial.rule.from.file === inner.from.file ? findings.errors : findings.warnings
  to.push({ ...inner.from, message })
}

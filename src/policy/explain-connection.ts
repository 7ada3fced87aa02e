import type { Refusal, RefusalCode } from '../kernel/errors.ts'
import { isAddress, type Hostname } from '../kernel/hostname.ts'
import { formatPlace } from './assemble.ts'
import type { Explanation } from './explain.ts'
import { matchesHost } from './hosts.ts'
import { isInForce, OPEN_RULE } from './modes.ts'
import type { Policy } from './model.ts'
import { isConditional, parseRule } from './ranking.ts'

/** What would happen to a connection that nobody has seen anything of yet, as CONNECT and SOCKS ask for one. */
export type ConnectionExplanation = Pick<Explanation, 'decision' | 'why' | 'hint' | 'rule' | 'notes' | 'candidates'> & {
  readonly code?: RefusalCode
}

/** Explains a connection by the same code that decides. */
export function explainConnection(policy: Policy, host: Hostname, port: number): ConnectionExplanation {
  const decision = policy.decideTunnel(host, port)
  const mode = policy.effective.mode.value
  const candidates = policy.effective.rules
    .map(parseRule)
    .filter((rule) => matchesHost(rule.host, host))
    .map((parsed) => {
      const { rule, ports } = parsed
      const common = { id: rule.id, at: formatPlace(rule.from), action: rule.action }
      if (rule.restricted !== true && !isInForce(rule, mode))
        return { ...common, matches: false, why: `network.mode: ${mode} leaves it without effect` }
      if (!ports.has(port)) return { ...common, matches: false, why: `port ${port} is not among ${rule.ports.join(', ')}` }
      if (isConditional(parsed))
        return { ...common, matches: true, why: 'host and port match; which requests it is about is seen inside the connection' }
      return { ...common, matches: true, why: 'host and port match' }
    })
  const refusal = decision.action === 'deny' ? decision.refusal : policy.judgeName(host, decision.rule)
  const id = decision.action === 'deny' ? decision.refusal.rule : decision.rule.id
  const rule = policy.effective.rules.find((one) => one.id === id)
  const decides = rule && { rule: { id: rule.id, at: formatPlace(rule.from), tls: rule.tls, plane: rule.plane } }
  if (decision.action === 'deny' || refusal !== undefined) {
    const { code, message = '', hint } = refusal ?? {}
    return { ...decides, decision: 'deny', why: message, ...(code && { code }), ...(hint !== undefined && { hint }), notes: [], candidates }
  }
  const carries = decision.carries === 'tcp' ? 'nobody looks at what is inside' : 'each request inside is decided by itself'
  const why =
    decision.action === 'ask' ? `rule "${decision.rule.id}" asks the operator first` : `"${decision.rule.id}" lets the connection through`
  return { ...decides, decision: decision.action, why, notes: [carries], candidates }
}

/** Why a rule that names no addresses would not get there: of names and addresses that are special. */
export function builtInRefusal(policy: Policy, host: Hostname): Pick<Refusal, 'code' | 'message' | 'hint'> | undefined {
  return policy.judgeName(host, OPEN_RULE) ?? (isAddress(host) ? policy.judgeAddresses(host, OPEN_RULE, [host], []) : undefined)
}

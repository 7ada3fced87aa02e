import type { Refusal } from '../kernel/errors.ts'
import { isAddress, type Hostname } from '../kernel/hostname.ts'
import { classifyAddress, judgeName } from './addresses.ts'
import type { AllowedRule, Diagnostic, EffectivePolicy, EffectiveRule, NetworkMode } from './model.ts'

/** What allows a request in mode `open` that no rule is about. No rule of a file may have this id there. */
export const OPEN_RULE: AllowedRule = {
  id: 'open',
  tls: 'intercept',
  upgrade: false,
  plaintext: false,
  addresses: [],
  plane: 'agent',
  scrub: 'replace',
  ownCredentials: undefined,
}

/** Mode `open` is about these ports only: on others nobody recognises a web page by a public host. */
export const OPEN_PORTS: ReadonlySet<number> = new Set([80, 443])

/** Why mode `open` does not let this host through, or `undefined`: it is about public hosts only. */
export function notPublic(host: Hostname): Refusal | undefined {
  const special = judgeName(host, OPEN_RULE)
  if (special !== undefined) return special
  if (!isAddress(host)) {
    // What a search domain or the engine's own resolver would complete is a neighbour, not a public host.
    if (host.includes('.')) return undefined
    return { code: 'name_refused', message: `"${host}" is refused: a name without a dot is no public one`, rule: OPEN_RULE.id }
  }
  const found = classifyAddress(host)
  if (found === undefined) return undefined
  return { code: 'address_refused', message: `${host} is refused: ${found.name} (${found.note})`, rule: OPEN_RULE.id }
}

/** Whether a rule counts in this mode. Denials do in every one. */
export function isInForce(rule: Pick<EffectiveRule, 'action' | 'plane'>, mode: NetworkMode): boolean {
  return mode !== 'none' || rule.action === 'deny' || rule.plane === 'control_plane'
}

/** What the mode makes of the rest of the policy. */
export function lintMode({ mode, rules, harness }: Pick<EffectivePolicy, 'mode' | 'rules' | 'harness'>): {
  readonly errors: readonly Diagnostic[]
  readonly warnings: readonly Diagnostic[]
} {
  const { value, from } = mode
  if (from === undefined || value === 'restricted') return { errors: [], warnings: [] }
  if (value === 'open') {
    // The audit would not tell the two apart.
    const taken = rules.filter(({ id }) => id === OPEN_RULE.id)
    return {
      errors: taken.map((rule) => ({
        ...rule.from,
        message: `rule "${rule.id}": with network.mode: open this id stands for what no rule is about: give it another name`,
      })),
      warnings: [{ ...from, message: 'network.mode: open lets every public host through: what the agent knows can go anywhere' }],
    }
  }
  const idle = rules.filter((rule) => !isInForce(rule, value)).length
  const messages =
    idle === 0
      ? []
      : [
          `network.mode: none leaves ${idle} ${idle === 1 ? 'rule' : 'rules'} without effect: of those that allow or ask only the harness's count`,
        ]
  if (harness === undefined) messages.push('network.mode: none without network.harness: everything is denied')
  return { errors: [], warnings: messages.map((message) => ({ ...from, message })) }
}

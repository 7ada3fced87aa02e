import * as z from 'zod'
import { AGENT_METHOD_NAMES, isAgentMethod, type AgentMethod } from '../wire/agent-methods.ts'
import type { PolicyDocument } from './document.ts'
import { entriesOf, valueAt } from './entries.ts'
import type { Layer } from './layers.ts'
import type { Diagnostic, EffectiveGateway, EffectivePolicy, Policy } from './model.ts'
import { list } from './schema-fields.ts'

/** What agents may call at the gateway. */
export const Gateway = z.strictObject({
  disabled: list(z.enum(AGENT_METHOD_NAMES), AGENT_METHOD_NAMES.length)
    .optional()
    .describe('Methods that are not there: in no list of tools, and their routes are 404. Layers add up.'),
})

const DISABLED = ['gateway', 'disabled'] as const

/** `gateway` of all layers: nothing that one switches off is switched on by another. */
export function assembleGateway(layers: readonly Pick<Layer, 'document'>[]): EffectiveGateway {
  const seen = new Set<unknown>()
  const disabled = layers
    .flatMap((layer) => entriesOf(layer, DISABLED))
    .flatMap(({ raw, from }) => {
      if (typeof raw !== 'string' || !isAgentMethod(raw) || seen.has(raw)) return []
      seen.add(raw)
      return [{ value: raw, from }]
    })
  return { disabled }
}

/** With what a layer that may only take away adds. I29 */
export function withRestricted(
  { hostCommands, gateway: { disabled } }: Pick<EffectivePolicy, 'hostCommands' | 'gateway'>,
  restricted: { readonly commands: EffectivePolicy['hostCommands']['rules']; readonly gateway: EffectiveGateway },
): Pick<EffectivePolicy, 'hostCommands' | 'gateway'> {
  const further = restricted.gateway.disabled.filter(({ value }) => !disabled.some((known) => known.value === value))
  return {
    hostCommands: { ...hostCommands, rules: [...hostCommands.rules, ...restricted.commands] },
    gateway: { disabled: [...disabled, ...further] },
  }
}

/** What such a layer says of the gateway beyond that. */
export function gatewayBeyondRestriction(document: PolicyDocument): Diagnostic[] {
  const section = valueAt(document.data, ['gateway'])
  if (typeof section !== 'object' || section === null) return []
  return Object.keys(section)
    .filter((key) => key !== 'disabled')
    .map((key) => ({ ...document.placeOf(['gateway', key]), message: `gateway.${key}` }))
}

/** Methods that a session's agent does not have: they are in no list, and to call one is `not_found`. */
export function disabledMethods({ hostCommands, gateway }: Pick<Policy, 'hostCommands' | 'gateway'>): ReadonlySet<AgentMethod> {
  const disabled = new Set(gateway.disabled.map(({ value }) => value))
  if (hostCommands.mode.value === 'disabled') disabled.add('host.run').add('host.run_capability')
  return disabled
}

/** The names of what an agent may call. The table is in `agent-requests.ts`. */
export const AGENT_METHOD_NAMES = [
  'secret.request',
  'secret.use_in',
  'host.run',
  'host.run_capability',
  'request.await',
  'request.output',
  'request.cancel',
  'policy.explain',
  'propose.policy',
  'propose.tool',
  'propose.skill',
  'propose.config_change',
] as const

export type AgentMethod = (typeof AGENT_METHOD_NAMES)[number]

const NAMES: ReadonlySet<string> = new Set(AGENT_METHOD_NAMES)

export function isAgentMethod(name: string): name is AgentMethod {
  return NAMES.has(name)
}

import type { System } from '../../kernel/system.ts'
import { explainRequest } from '../../policy/policy.ts'
import type { AgentParams } from '../../wire/agent-requests.ts'
import { hostRunCapability, type RequestPlace } from './host-run.ts'

/** What would become of a request to a URL, or of a host command: as much as the agent needs to know what to do. @throws usage as request_invalid */
export async function explainPolicy(
  place: RequestPlace,
  { url, method = 'GET', command }: AgentParams<'policy.explain'>,
  system: Pick<System, 'now'>,
): Promise<Record<string, unknown>> {
  if (url === undefined) return hostRunCapability(place, { command }, system)
  const { decision, why, code, hint, rule, credential } = explainRequest(place.policy(), url, method)
  return {
    action: decision,
    why,
    ...(code && { code }),
    ...(hint && { hint }),
    ...(rule && { rule: rule.id }),
    // Its name: the agent has to send none of its own.
    ...(credential && { credential: credential.id }),
    ...(decision === 'ask' && {
      how_to_ask: 'send the request: it is held for a moment, then answered with approval_pending; send it again',
    }),
  }
}

import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import { disabledMethods, explainRequest, type Explanation } from '../../policy/policy.ts'
import type { AgentParams, AgentResult } from '../../wire/agent-requests.ts'
import { hostRunCapability, type RequestPlace } from './host-run.ts'

/** What would become of a request to a URL, of a host command, or of a wish for a secret: as much as the agent needs to know what to do. @throws request_invalid, command_invalid */
export async function explainPolicy(
  place: RequestPlace,
  { url, method = 'GET', command, secret }: AgentParams<'policy.explain'>,
  system: Pick<System, 'now'>,
): Promise<AgentResult<'policy.explain'>> {
  if (command !== undefined) return hostRunCapability(place, { command }, system)
  if (secret !== undefined) return explainSecret(place, secret)
  const { decision, why, code, hint, rule, credential } = explained(place, url ?? '', method)
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

/** @throws request_invalid for what is no URL or method: that is the agent's own fault, and no word of a command line is for it */
function explained(place: RequestPlace, url: string, method: string): Explanation {
  const policy = place.policy()
  try {
    return explainRequest(policy, url, method)
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'usage')
      throw new SallyportError('request_invalid', `nothing to ask about: ${shown(error.message)}`, { cause: error })
    throw error
  }
}

/** Says what the policy of the session says, and of all other names one thing: whether there is such a secret is nobody's to try out. */
function explainSecret(place: RequestPlace, name: string): AgentResult<'policy.explain'> {
  const policy = place.policy()
  if (disabledMethods(policy).has('secret.request')) return { action: 'disabled', why: 'the policy has secret.request switched off' }
  const declared = policy.effective.secrets.find((secret) => secret.name === name)
  const uses = ['secret.request', 'secret.use_in'].filter((method) => declared?.resources?.includes(`method:${method}`))
  return {
    action: 'ask',
    why: uses.length === 0 ? 'the policy declares no such secret for a method' : `the policy declares it for ${uses.join(' and ')}`,
    how_to_ask: 'call secret.request with this name, a scope and a reason: a person decides, and the answer has a handle for secret.use_in',
  }
}

import { createAllowance, type Allowance } from '../../channel/channel.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import { disabledMethods, type Policy } from '../../policy/policy.ts'
import { parseAgentParams } from '../../wire/agent-params.ts'
import { AGENT_METHOD_NAMES, AGENT_METHODS, isAgentMethod, type AgentMethod } from '../../wire/agent-requests.ts'

/**
 * Brings a request of the agent's to the controller, with the lease that it showed. @throws controller_unavailable, and whatever the
 * controller says of it
 */
export type CallController = (call: { readonly lease: string; readonly method: AgentMethod; readonly params: unknown }) => Promise<unknown>

/** What an agent may call, whatever it calls it by. The controller looks at all of it again. */
export type Methods = {
  /** By the policy in force, in the order of the table. The same array as long as the policy is. */
  enabled(): readonly AgentMethod[]
  /**
   * The controller's answer. When nobody waits any more it goes on there, and what it answers is dropped.
   * @param lease the lease that was shown; it was looked at before
   * @throws not_found for one that is not enabled, request_invalid, request_too_large, rate_limited, overloaded, the signal's reason, and
   *   whatever the controller says
   */
  call(method: string, params: unknown, lease: string, signal?: AbortSignal): Promise<unknown>
}

export type MethodsParts = {
  /** The one in force. */
  readonly policy: () => Pick<Policy, 'hostCommands' | 'gateway'>
  readonly callController: CallController
  readonly system: Pick<System, 'elapsed'>
}

export function createMethods({ policy, callController, system }: MethodsParts): Methods {
  let underWay = 0
  let known: { readonly policy: unknown; readonly enabled: readonly AgentMethod[] } | undefined
  const allowances = new Map<AgentMethod, Allowance>()

  function enabled(): readonly AgentMethod[] {
    const current = policy()
    if (known?.policy !== current) known = { policy: current, enabled: enabledMethods(current) }
    return known.enabled
  }

  /** @throws rate_limited */
  function charge(method: AgentMethod): void {
    const { callsPerMinuteMax, burstCallsMax } = AGENT_METHODS[method]
    const allowance = allowances.get(method) ?? createAllowance(callsPerMinuteMax / 60, burstCallsMax, system)
    allowances.set(method, allowance)
    const retryAfterMs = allowance.take(1)
    if (retryAfterMs === 0) return
    throw new SallyportError('rate_limited', `more than ${callsPerMinuteMax} calls of ${method} a minute`, {
      hint: method === 'request.await' ? 'let it wait: one call waits for a request' : 'wait a little',
      retryAfterMs,
    })
  }

  /** I53: one agent's calls that wait leave room for the rest of the channel. It is held until the controller has answered. */
  async function ask(method: AgentMethod, params: unknown, lease: string): Promise<unknown> {
    if (underWay >= LIMITS.agentCallsMax)
      throw new SallyportError('overloaded', `${underWay} calls wait already`, { hint: 'wait for some of them' })
    underWay += 1
    try {
      return await callController({ lease, method, params })
    } finally {
      underWay -= 1
    }
  }

  return {
    enabled,
    // I57
    async call(method, params, lease, signal) {
      signal?.throwIfAborted()
      if (!isAgentMethod(method) || !enabled().includes(method)) throw noSuchMethod(method)
      charge(method)
      const parsed = parseAgentParams(method, params)
      refuseTooLarge(method, parsed)
      const answer = ask(method, parsed, lease)
      return signal === undefined ? answer : unlessAborted(answer, signal)
    },
  }
}

/** Of the table, what this policy leaves. */
export function enabledMethods(policy: Pick<Policy, 'hostCommands' | 'gateway'>): readonly AgentMethod[] {
  const disabled = disabledMethods(policy)
  return AGENT_METHOD_NAMES.filter((method) => !disabled.has(method))
}

function noSuchMethod(method: string): SallyportError {
  return new SallyportError('not_found', `there is no method "${shown(method.slice(0, 64))}"`, {
    hint: 'the policy of the session says which there are',
  })
}

/** What is checked has a form, so that to write it out is safe. @throws request_too_large */
function refuseTooLarge(method: AgentMethod, params: unknown): void {
  const { bodyBytesMax } = AGENT_METHODS[method]
  const bytes = Buffer.byteLength(JSON.stringify(params))
  if (bytes > bodyBytesMax) throw tooLarge(method, bodyBytesMax)
}

export function tooLarge(method: AgentMethod, bytesMax: number): SallyportError {
  return new SallyportError('request_too_large', `${method} takes ${bytesMax} bytes at most`)
}

async function unlessAborted(answer: Promise<unknown>, signal: AbortSignal): Promise<unknown> {
  const { promise: gone, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([answer, gone])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

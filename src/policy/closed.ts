import type { Refusal } from '../kernel/errors.ts'
import type { Policy } from './model.ts'

/** The same policy when nothing passes any more: every decision is this refusal, and no credential is bound to anything. I9 */
export function closedPolicy(policy: Policy, refusal: Refusal): Policy {
  const deny = { action: 'deny', refusal } as const
  const { nextEnd: _nextEnd, ...rest } = policy
  const closed: Policy = {
    ...rest,
    asOf: () => closed,
    decide: () => deny,
    decideTunnel: () => deny,
    decideRoute: () => deny,
    tcpPorts: new Map(),
    knowsName: () => false,
    judgeAddresses: () => refusal,
    judgeName: () => refusal,
    credentialFor: () => undefined,
    placeholdersFor: () => [],
    credentialsOf: () => [],
    mcpServers: [],
    hostCommands: { ...policy.hostCommands, mode: { value: 'disabled' } },
  }
  return closed
}

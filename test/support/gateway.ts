import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { system } from '../../src/kernel/system.ts'
import { loadPolicy, type Policy } from '../../src/policy/policy.ts'
import { createGateway, type GatewayParts } from '../../src/sidecar/gateway/gateway.ts'

export const GATEWAY_LEASE = 'lease-of-this-session-77a0'
/** An id as requests have them. */
export const REQUEST_ID = 'a0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5'

/** A policy as a gate has it in force. */
export function gatewayPolicy(sections: object = {}): Policy {
  return loadPolicy([{ file: 'policy.yaml', text: JSON.stringify({ version: 1, ...sections }) }], { policyDirs: [] })
}

type Asked = Omit<RequestInit, 'headers' | 'body'> & {
  readonly headers?: Readonly<Record<string, string>>
  /** Text as it is, else JSON. */
  readonly body?: unknown
}

/** A gateway on loopback whose routes go nowhere, and which wants the lease. */
export async function openTestGateway(parts: Partial<GatewayParts> = {}) {
  const refuseRoute = (): never => assert.fail('no route is asked for')
  const digest = (text: string): string => createHash('sha256').update(text).digest('hex')
  const state = { policy: gatewayPolicy() }
  const server = await createGateway(
    {
      caPem: 'ca',
      files: () => [],
      placeholders: () => ({}),
      checkLease: (token) => digest(token) === digest(GATEWAY_LEASE),
      callController: () => assert.fail('the controller is asked'),
      policy: () => state.policy,
      system,
      ...parts,
    },
    { onRouteRequest: refuseRoute, onRouteUpgrade: refuseRoute },
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const origin = `http://127.0.0.1:${port}`
  return {
    origin,
    port,
    state,
    ask(path: string, { headers = {}, body, ...init }: Asked = {}): Promise<Response> {
      const own = { authorization: `Bearer ${GATEWAY_LEASE}`, ...(body !== undefined && { 'content-type': 'application/json' }) }
      const sent = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
      return fetch(`${origin}${path}`, { ...init, ...sent, headers: { ...own, ...headers } })
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

import { Client, type ClientOptions } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { LATEST_PROTOCOL_VERSION, type CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { GatewayParts } from '../../src/sidecar/gateway/gateway.ts'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import { GATEWAY_LEASE, gatewayPolicy, openTestGateway } from './gateway.ts'
import { requestsSetting } from './requests.ts'

export const MCP_ACCEPTS = 'application/json, text/event-stream'
export const INITIALIZE = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: LATEST_PROTOCOL_VERSION, capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}

export type TestMcp = Awaited<ReturnType<typeof openMcp>>

/** A gateway, and clients of its tools by the official SDK. */
export async function openMcp(parts: Partial<GatewayParts> = {}) {
  await using opened = new AsyncDisposableStack()
  const listeners = new Set<() => void>()
  const gateway = opened.use(await openTestGateway({ onChange: (listener) => void listeners.add(listener), ...parts }))
  const url = new URL('/mcp', gateway.origin)
  const all = opened.move()
  return {
    gateway,
    url,
    changed: () => listeners.forEach((listener) => listener()),
    setPolicy(sections: object): void {
      gateway.state.policy = gatewayPolicy(sections)
      for (const listener of listeners) listener()
    },
    async client(lease = GATEWAY_LEASE, options: ClientOptions = {}) {
      const client = new Client({ name: 'test', version: '1' }, options)
      const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${lease}` } } })
      await client.connect(transport)
      const failed = Promise.withResolvers<Error>()
      return Object.assign(client, {
        onerror: failed.resolve,
        http: transport,
        failed: failed.promise,
        [Symbol.asyncDispose]: () => client.close(),
      })
    },
    /** One message as it is. */
    post: (body: unknown, headers: Readonly<Record<string, string>> = {}) =>
      gateway.ask('/mcp', { method: 'POST', body, headers: { accept: MCP_ACCEPTS, ...headers } }),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** The same before real requests: approvals, executor and files. */
export async function openMcpOfRequests(policy: object = { host_commands: { mode: 'always-prompt' } }) {
  await using opened = new AsyncDisposableStack()
  const setting = opened.use(await requestsSetting(policy))
  const mcp = opened.use(await openMcp({ callController: ({ method, params }) => setting.call(method, params) }))
  const all = opened.move()
  return { ...mcp, setting, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

/** What the model sees of a result. */
export function textOf(result: unknown): unknown {
  const [content] = (result as CallToolResult).content
  return JSON.parse(content?.type === 'text' ? content.text : 'null')
}

export function viewOf(result: unknown): RequestView & { readonly next?: string } {
  return (result as CallToolResult).structuredContent as RequestView
}

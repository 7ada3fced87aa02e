import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { allowsTool } from '../../policy/policy.ts'
import type { TestedServer } from '../../wire/control.ts'
import { openServer, serverOf, type RelayParts } from './mcp-relay.ts'
import type { Message } from './tool-filter.ts'

const PROTOCOL = '2025-06-18'

/**
 * Begins a session with a server as an agent's would be, asks for its tools, and ends it.
 * @param pass what the controller takes in the place of a lease
 * @throws mcp_server_unknown, mcp_server_failed
 */
export async function testServer(parts: RelayParts, name: string, pass: string, version: string): Promise<TestedServer> {
  const server = serverOf(parts.servers(), name)
  const answers = new Map<number, PromiseWithResolvers<Message>>()
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => undefined)
  const late = setTimeout(() => ended.reject(failed(name, `gave no answer in ${LIMITS.serverTestMs / 1_000} s`)), LIMITS.serverTestMs)
  try {
    await using channel = await openServer(parts, server, pass, {
      async onMessage(message) {
        if (message['method'] === undefined) answers.get(Number(message['id']))?.resolve(message)
      },
      onEnd: (reason) => ended.reject(reason),
    })
    const ask = async (method: string, params: unknown): Promise<Readonly<Record<string, unknown>>> => {
      const id = answers.size + 1
      const answer = Promise.withResolvers<Message>()
      answers.set(id, answer)
      await channel.send({ jsonrpc: '2.0', id, method, params })
      const { result, error } = await Promise.race([answer.promise, ended.promise])
      if (typeof result === 'object' && result !== null) return result as Record<string, unknown>
      const why = typeof error === 'object' && error !== null && 'message' in error ? String(error.message).slice(0, 500) : 'no result'
      throw failed(name, `answered ${method} with: ${why}`)
    }
    const { serverInfo } = await ask('initialize', {
      protocolVersion: PROTOCOL,
      capabilities: {},
      clientInfo: { name: 'sallyport', version },
    })
    await channel.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
    const tools: TestedServer['tools'] = []
    let cursor: unknown
    let left: number = LIMITS.serverTestDescriptionsCharsMax
    for (let page = 0; page < LIMITS.serverTestPagesMax; page++) {
      const { tools: listed, nextCursor } = await ask('tools/list', typeof cursor === 'string' ? { cursor } : {})
      for (const tool of Array.isArray(listed) ? (listed as unknown[]) : []) {
        const { name: toolName, description } = (typeof tool === 'object' && tool !== null ? tool : {}) as Readonly<Record<string, unknown>>
        if (typeof toolName !== 'string' || tools.length >= LIMITS.serverTestToolsMax) continue
        const said = typeof description === 'string' ? description.slice(0, Math.min(LIMITS.serverTestDescriptionCharsMax, left)) : ''
        left -= said.length
        tools.push({
          name: toolName.slice(0, 256),
          isAllowed: allowsTool(server.tools, toolName),
          ...(said !== '' && { description: said }),
        })
      }
      cursor = nextCursor
      if (typeof cursor !== 'string') break
    }
    return { server: nameIn(serverInfo), tools }
  } finally {
    clearTimeout(late)
  }
}

function nameIn(info: unknown): string {
  const { name, version } = (typeof info === 'object' && info !== null ? info : {}) as {
    readonly name?: unknown
    readonly version?: unknown
  }
  return [name, version]
    .filter((word) => typeof word === 'string')
    .join(' ')
    .slice(0, 256)
}

function failed(name: string, why: string): SallyportError {
  return new SallyportError('mcp_server_failed', `the MCP server "${name}" ${why}`)
}

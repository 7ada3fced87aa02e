import { LIMITS } from '../../kernel/limits.ts'
import { allowsTool, type McpServer } from '../../policy/policy.ts'

/** A message of JSON-RPC 2.0, as far as anything here looks into it. */
export type Message = Readonly<Record<string, unknown>>

/** A call of a tool, by as much of its name as is told and recorded, and whether it goes on. */
export type ToolCall = { readonly tool: string; readonly isAllowed: boolean }

/**
 * I70: What of the messages between an agent and one MCP server passes. The only place that knows: both kinds of servers and all ways of
 * sending go through it, message by message.
 */
export type ToolFilter = {
  /** Of a message of the agent's: the call in it, if it is one. */
  callIn(message: Message): ToolCall | undefined
  /** A message of the server's as the agent gets it: lists of tools have those that it may call. */
  toAgent(message: Message): Message
}

const CALL = 'tools/call'

export function createToolFilter({ tools }: Pick<McpServer, 'tools'>): ToolFilter {
  return {
    callIn(message) {
      const { method, params } = message
      if (typeof method !== 'string' || !readsAsCall(method)) return undefined
      const name = isMap(params) ? params['name'] : undefined
      const tool = typeof name === 'string' ? name.slice(0, LIMITS.toolNameCharsMax) : ''
      const isAllowed = (method === CALL || tools === undefined) && tool === name && allowsTool(tools, name)
      return { tool, isAllowed }
    },
    toAgent(message) {
      const { result } = message
      if (tools === undefined || !isMap(result) || !Array.isArray(result['tools'])) return message
      // By what it looks like, not by what was asked: an id that stands for two requests would hide one of them.
      const kept = result['tools'].filter((tool: unknown) => isMap(tool) && allowsTool(tools, tool['name']))
      return { ...message, result: { ...result, tools: kept } }
    },
  }
}

/** Also where it takes a lenient server to read it so: other case, full-width letters, what cannot be seen. */
function readsAsCall(method: string): boolean {
  return (
    method
      .normalize('NFKC')
      .toLowerCase()
      .replaceAll(/[^a-z/]/g, '') === CALL
  )
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

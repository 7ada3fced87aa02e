/** An MCP server for tests, by the official SDK: over stdio when it is run, or wherever `toolServer` is connected. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const TOOLS = ['get_secret_length', 'get_secret', 'get_variables', 'get_progress', 'delete_all', 'exit'] as const

/** Two tools a page. Calls are told to `onCall` before they are answered. */
export function toolServer(onCall: (name: string) => void, env: NodeJS.ProcessEnv = process.env): Server {
  const server = new Server({ name: 'tool-server', version: '1.0' }, { capabilities: { tools: { listChanged: true }, logging: {} } })
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
    const from = Number(params?.cursor ?? 0)
    const tools = TOOLS.slice(from, from + 2).map((name) => ({ name, inputSchema: { type: 'object' as const } }))
    return { tools, ...(from + 2 < TOOLS.length && { nextCursor: String(from + 2) }) }
  })
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    onCall(params.name)
    const secret = env['TOOL_SECRET'] ?? ''
    switch (params.name) {
      case 'get_secret_length':
        return { content: [{ type: 'text', text: String(secret.length) }] }
      case 'get_secret':
        return { content: [{ type: 'text', text: `it is ${secret}.` }] }
      case 'get_variables':
        return { content: [{ type: 'text', text: Object.keys(env).toSorted().join(' ') }] }
      case 'get_progress': {
        const { _meta: meta } = extra
        const token = meta?.progressToken
        if (token !== undefined)
          await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: token, progress: 1 } })
        await server.sendToolListChanged()
        return { content: [{ type: 'text', text: 'done' }] }
      }
      case 'exit':
        return process.exit(7)
      default:
        return { content: [{ type: 'text', text: `${params.name} was done` }] }
    }
  })
  return server
}

if (import.meta.main) {
  process.stderr.write(`the secret is ${process.env['TOOL_SECRET'] ?? 'none'}\n`)
  await toolServer((name) => process.stderr.write(`called ${name}\n`)).connect(new StdioServerTransport())
}

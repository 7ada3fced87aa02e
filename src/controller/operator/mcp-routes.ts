import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { LIMITS } from '../../kernel/limits.ts'
import { MCP_SERVER_NAME } from '../../wire/mcp-server.ts'
import { SECRET_KEY } from '../../wire/secret-source.ts'
import { ServersCheck, ServersEdit, ServersQuery, ServersWrite } from '../../wire/servers.ts'
import type { OperatorServers } from '../mcp-servers/operator-servers.ts'
import { inLines } from './line-answers.ts'
import type { Surface } from './route-table.ts'
import { read } from './session-routes.ts'

const Query = z.strictObject({
  workspace: z.string().min(1).max(4_096),
  policy: z.array(z.string().min(1).max(4_096)).max(LIMITS.policyFilesMax).default([]),
  role: z.string().max(64).optional(),
  harness: z.string().max(64).optional(),
})
const Resolution = Query.extend({
  server: z.string().regex(MCP_SERVER_NAME),
  keys: z.array(z.string().regex(SECRET_KEY)).min(1).max(LIMITS.mcpFieldsMax),
})

/** What the operator's commands ask of MCP servers, and what the page shows and changes of them. */
export function addMcpRoutes(app: FastifyInstance, servers: OperatorServers, surface: Surface): void {
  app.get('/v1/mcp/servers', ({ query }) => servers.view(read(ServersQuery, query)))
  app.get('/v1/mcp/file', () => servers.file.read())
  app.post('/v1/mcp/file/reveal', async (_request, reply) => reply.header('cache-control', 'no-store').send(await servers.file.whole()))
  app.post('/v1/mcp/file/check', async ({ body }) => ({ problems: await servers.file.check(read(ServersCheck, body).content) }))
  app.put('/v1/mcp/file', ({ body }) => servers.file.write(read(ServersWrite, body), `PUT /v1/mcp/file on the ${surface}`))
  app.post('/v1/mcp/file/edits', ({ body }) => servers.file.edit(read(ServersEdit, body), `POST /v1/mcp/file/edits on the ${surface}`))
  app.post('/v1/mcp/check', ({ body }) => servers.check(read(Query, body)))
  app.post<{ Params: { id: string; name: string } }>('/v1/sessions/:id/mcp/:name/test', ({ params }, reply) =>
    inLines(reply, async () => ({ tested: await servers.test(params.id, params.name) })),
  )
  app.post('/v1/mcp/resolve', async ({ body }, reply) => {
    const { server, keys, ...query } = read(Resolution, body)
    const gone = new AbortController()
    reply.raw.on('close', () => gone.abort())
    return reply.header('cache-control', 'no-store').send({ values: await servers.resolve(query, server, keys, gone.signal) })
  })
}

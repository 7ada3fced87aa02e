import type { SessionServer } from '../controller/mcp-servers/mcp-servers.ts'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { visible, visibleJson } from '../kernel/visible.ts'
import { TestedServer } from '../wire/control.ts'
import { homeOf, parseFlags, type Io } from './command.ts'
import { daemonClient, type DaemonClient } from './daemon-client.ts'
import { plannedServers } from './mcp-list.ts'
import { MCP_USAGES, QUERY_FLAGS, queryOf } from './mcp-usages.ts'
import { startSession } from './up.ts'

/** `sallyport mcp test` */
export async function testServer(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(
    argv,
    { ...QUERY_FLAGS, session: { type: 'string' }, json: { type: 'boolean' } },
    { min: 1, max: 1, names: ['NAME'], usage: MCP_USAGES.test },
  )
  const { session, json, ...query } = values
  const [name = ''] = positionals
  const named = Object.keys(query)
  if (session !== undefined && named.length > 0)
    throw new SallyportError('usage', `--session has a policy already: --${named[0] ?? ''} is of no use beside it`, {
      hint: `usage: ${MCP_USAGES.test}`,
    })
  const daemon = daemonClient(homeOf(io.env))
  const tested = session === undefined ? await inOwnSession(daemon, name, queryOf(query), io) : await test(daemon, session, name)
  io.out(json === true ? visibleJson({ name, ...tested }) : print(name, tested))
  return 0
}

/** Made for it, and gone when this is over. */
async function inOwnSession(daemon: DaemonClient, name: string, query: ReturnType<typeof queryOf>, io: Io): Promise<TestedServer> {
  refuseUnknown(name, (await plannedServers(query, io)).servers)
  const command = ['sleep', String(LIMITS.serverTestMs / 250)]
  const { id } = await startSession(daemon, { ...query, command, name: `mcp-test-${name}-${process.pid}`, tty: false, selftest: false }, io)
  try {
    return await test(daemon, id, name)
  } finally {
    await daemon.request('POST', `/v1/sessions/${id}/down`)
  }
}

/** Before a session is made for it. @throws SallyportError mcp_server_unknown */
function refuseUnknown(name: string, servers: readonly SessionServer[]): void {
  const found = servers.find((server) => server.name === name)
  if (found !== undefined && found.how !== 'direct') return
  const names = servers.flatMap((server) => (server.how === 'direct' ? [] : [server.name]))
  const why =
    found === undefined
      ? `a session has no MCP server "${name}"`
      : `the MCP server "${name}" runs in the agent, where nothing of it is ours`
  throw new SallyportError('mcp_server_unknown', why, {
    hint: names.length === 0 ? 'name one in mcp_servers of a policy, or in mcp.json' : `there are: ${names.join(', ')}`,
  })
}

async function test(daemon: DaemonClient, session: string, name: string): Promise<TestedServer> {
  let tested: TestedServer | undefined
  const path = `/v1/sessions/${encodeURIComponent(session)}/mcp/${encodeURIComponent(name)}/test`
  await daemon.follow('POST', path, {}, (line) => (tested = TestedServer.safeParse(line['tested']).data))
  if (tested !== undefined) return tested
  throw new SallyportError('daemon_unavailable', 'the daemon did not answer with the tools of a server', { hint: 'is it of this version?' })
}

function print(name: string, { server, tools }: TestedServer): string {
  const hidden = tools.filter(({ isAllowed }) => !isAllowed).length
  const lines = [
    `${name}: ${server || 'it does not say what it is'}, ${tools.length} ${tools.length === 1 ? 'tool' : 'tools'}${hidden > 0 ? `, ${hidden} hidden from agents` : ''}`,
    ...tools.map((tool) => `  ${tool.isAllowed ? '+' : '-'} ${tool.name}`),
  ]
  return lines.map((line) => `${visible(line)}\n`).join('')
}

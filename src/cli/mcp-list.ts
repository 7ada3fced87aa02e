import { homedir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { sessionServers, type SessionServer } from '../controller/mcp-servers/mcp-servers.ts'
import { createPlanning } from '../controller/planning.ts'
import { openTrust } from '../controller/sessions/workspace-trust.ts'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { system } from '../kernel/system.ts'
import { visible, visibleJson } from '../kernel/visible.ts'
import { GATE_MCP_URL, GATE_SERVER_NAME } from '../wire/mcp-server.ts'
import { homeOf, packageRoot, parseFlags, type Io } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { MCP_USAGES, QUERY_FLAGS, queryOf } from './mcp-usages.ts'

const Row = z.object({
  name: z.string(),
  how: z.enum(['tool', 'route', 'direct']),
  what: z.string(),
  from: z.string(),
  secrets: z.array(z.string()),
  tools: z.array(z.string()).optional(),
})
const Checked = z.object({ servers: z.array(Row), notes: z.array(z.string()), problems: z.array(z.string()) })
type Row = z.infer<typeof Row>

/** `sallyport mcp ls` */
export async function listServers(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parseFlags(argv, { ...QUERY_FLAGS, json: { type: 'boolean' } }, { min: 0, max: 0, usage: MCP_USAGES.ls })
  const { servers, notes } = await plannedServers(queryOf(values), io)
  if (values.json === true) io.out(visibleJson(servers.map(({ registered: _registered, ...server }) => server)))
  else io.out(print(servers, notes))
  return 0
}

/** `sallyport mcp check` */
export async function checkServers(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parseFlags(argv, { ...QUERY_FLAGS, json: { type: 'boolean' } }, { min: 0, max: 0, usage: MCP_USAGES.check })
  const bounds = { ms: LIMITS.secretExecMs * 4, bytes: LIMITS.daemonAnswerBytesMax }
  const checked = Checked.safeParse(await daemonClient(homeOf(io.env)).request('POST', '/v1/mcp/check', queryOf(values), bounds))
  if (!checked.success) throw new SallyportError('internal', 'the daemon answered something else than servers', { cause: checked.error })
  const { servers, notes, problems } = checked.data
  if (values.json === true) io.out(visibleJson({ ok: problems.length === 0, servers, notes, problems }))
  else {
    io.out(print(servers, notes))
    for (const problem of problems) io.out(`error  ${visible(problem)}\n`)
  }
  return problems.length === 0 ? 0 : 2
}

/** `sallyport mcp config` */
export async function printConfig(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parseFlags(argv, QUERY_FLAGS, { min: 0, max: 0, usage: MCP_USAGES.config })
  const { servers } = await plannedServers(queryOf(values), io)
  const urls = [
    [GATE_SERVER_NAME, GATE_MCP_URL] as const,
    ...servers.flatMap(({ name, how }) => (how === 'direct' ? [] : [[name, `${GATE_MCP_URL}/${name}`] as const])),
  ]
  const headers = { Authorization: 'Bearer ${SALLYPORT_LEASE}' }
  io.out(visibleJson({ mcpServers: Object.fromEntries(urls.map(([name, url]) => [name, { type: 'http', url, headers }])) }))
  return 0
}

/** Of a session that would be made. Read here: no secret is looked at. @throws policy_invalid and its kin, mcp_config_invalid */
export async function plannedServers(
  query: ReturnType<typeof queryOf>,
  io: Io,
): Promise<{ servers: readonly SessionServer[]; notes: readonly string[] }> {
  const home = homeOf(io.env)
  const planning = createPlanning({
    home,
    presets: join(packageRoot, 'policies'),
    trust: openTrust(home, system),
    images: { sidecar: '', agent: '' },
    gate: { environment: {}, mounts: [] },
    userServers: { home: io.env['HOME'] || homedir(), env: io.env },
    system,
  })
  const { policy, kept } = await planning.servers(query)
  return { servers: sessionServers(policy, kept), notes: kept?.notes ?? [] }
}

const HOW: Readonly<Record<Row['how'], string>> = {
  tool: 'in a container of its own',
  route: 'by the gate',
  direct: 'in the agent',
}

function print(servers: readonly Row[] | readonly SessionServer[], notes: readonly string[]): string {
  const lines = servers.map(({ name, how, what, from, secrets, tools }) =>
    [
      name,
      how === 'direct' && /^https?:/.test(what) ? 'by the agent' : HOW[how],
      what,
      secrets.length > 0 && `secrets ${secrets.join(', ')}`,
      tools && `tools ${tools.join(' ')}`,
      `(${from})`,
    ]
      .filter(Boolean)
      .join('  '),
  )
  const said = [
    ...(lines.length === 0 ? ['a session would have no MCP server but the gate itself'] : lines),
    ...notes.map((note) => `note: ${note}`),
  ]
  return said.map((line) => `${visible(line)}\n`).join('')
}

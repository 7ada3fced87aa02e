import type { ToolEvent } from '../../audit/audit.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import { readValue, secretsOfServer, type McpServer } from '../../policy/policy.ts'
import type { ToolAnswer, ToolRequest } from '../../wire/control.ts'
import { createResolver, type Providers } from '../providers/providers.ts'
import { createAllowances } from '../requests/allowances.ts'
import type { Entitled } from '../session-secrets.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { openToolProcess, type ToolProcess } from './tool-process.ts'

export type ToolsParts = {
  /** The session's policy and whom the vault takes it for. @throws session_not_running */
  readonly entitledOf: (session: string) => Entitled
  readonly providers: Pick<Providers, 'get' | 'problem'>
  /** I53: every step but the last shows the lease. @throws unauthenticated */
  readonly checkLease: (session: string, lease: string) => void
  readonly startSibling: Sessions['startSibling']
  /** Before what it says is done. @throws audit_unavailable */
  readonly audit: (event: ToolEvent) => Promise<void>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly system: Pick<System, 'elapsed' | 'random'>
}

/** The MCP servers that run in containers of their own, one for each connection of a client. */
export type Tools = AsyncDisposable & {
  /** One step of a connection, for the gate of a session. @throws unauthenticated, mcp_server_unknown, mcp_server_failed, overloaded, secret_… */
  call(session: string, request: ToolRequest, signal: AbortSignal): Promise<ToolAnswer>
  /** Until it is disposed of, `text` stands for the lease of that session at that server: for a test of the operator's. */
  pass(session: string, server: string): Disposable & { readonly text: string }
  /** Ends all of a session. Resolves when their containers are gone. */
  endSession(session: string): Promise<void>
}

type Connection = { readonly server: string; readonly opening: Promise<ToolProcess>; readonly abort: AbortController }
type Stdio = Extract<McpServer, { readonly kind: 'stdio' }>

export function createTools(parts: ToolsParts): Tools {
  const { system } = parts
  const open: Open = new Map()
  const passes = new Map<string, string>()
  const starting = createAllowances(system)

  const check = (session: string, { server, lease }: ToolRequest): void => {
    if (passes.get(`${session} ${server}`) !== lease) parts.checkLease(session, lease)
  }
  return {
    async call(session, request, signal) {
      // What only takes away needs none: the gate closes what it opened, also for a lease that was revoked.
      if (request.do !== 'close') check(session, request)
      if (request.do === 'open') {
        const charge = (): void =>
          starting.charge(session, LIMITS.toolStartsPerMinuteMax, LIMITS.toolStartsBurstMax, 'starts of MCP servers')
        return begin(parts, open, charge, session, request, signal)
      }
      const found = open.get(session)?.get(request.connection)
      if (found?.server !== request.server) throw new SallyportError('mcp_server_failed', 'that connection is not open any more')
      if (request.do === 'close') {
        leave(open, session, request.connection)
        await end(found, 'closed')
        return {}
      }
      const running = await found.opening
      if (request.do === 'receive') {
        const answer = await running.receive(request.after ?? 0, signal)
        if (answer.ended !== undefined) leave(open, session, request.connection)
        return answer
      }
      await running.send(request.message ?? '')
      return {}
    },
    pass(session, server) {
      const key = `${session} ${server}`
      const text = `test-${system.random(32).toString('hex')}`
      passes.set(key, text)
      return {
        text,
        [Symbol.dispose]() {
          if (passes.get(key) === text) passes.delete(key)
        },
      }
    },
    async endSession(session) {
      const all = [...(open.get(session)?.values() ?? [])]
      open.delete(session)
      starting.forget(session)
      await Promise.all(all.map((one) => end(one, 'session over')))
    },
    async [Symbol.asyncDispose]() {
      const all = [...open.values()].flatMap((ofSession) => [...ofSession.values()])
      open.clear()
      await Promise.all(all.map((one) => end(one, 'controller ends')))
    },
  }
}

/** By session and connection. */
type Open = Map<string, Map<string, Connection>>

function leave(open: Open, session: string, connection: string): void {
  const all = open.get(session)
  all?.delete(connection)
  if (all?.size === 0) open.delete(session)
}

async function begin(
  parts: ToolsParts,
  open: Open,
  charge: () => void,
  session: string,
  { server: name, connection }: ToolRequest,
  signal: AbortSignal,
): Promise<ToolAnswer> {
  const server = contained(parts.entitledOf(session).policy.mcpServers, name)
  const all = open.get(session) ?? new Map<string, Connection>()
  if (all.has(connection)) throw new SallyportError('mcp_server_failed', 'that connection is open already')
  const ofServer = [...all.values()].filter((one) => one.server === name).length
  if (all.size >= LIMITS.toolConnectionsMax || ofServer >= LIMITS.toolConnectionsPerServerMax)
    throw new SallyportError('overloaded', `${ofServer} clients use the MCP server "${name}" already, ${all.size} any server`, {
      hint: 'end one of them',
    })
  charge()
  const abort = new AbortController()
  const bound = AbortSignal.any([signal, abort.signal, AbortSignal.timeout(LIMITS.toolOpenMs)])
  const opening = start(parts, session, server, connection, bound)
  all.set(connection, { server: name, opening, abort })
  open.set(session, all)
  try {
    const started = await opening
    void started.ended.then(() => setTimeout(() => leave(open, session, connection), LIMITS.toolAbandonedMs).unref())
    return {}
  } catch (error) {
    leave(open, session, connection)
    throw error
  }
}

async function end({ opening, abort }: Connection, how: string): Promise<void> {
  abort.abort(new SallyportError('mcp_server_failed', 'nobody waits for it any more'))
  const running = await opening.catch(() => undefined)
  await running?.end(how)
}

/** @throws mcp_server_unknown */
function contained(servers: readonly McpServer[], name: string): Stdio {
  const server = servers.find((one) => one.name === name)
  if (server?.kind === 'stdio' && server.isContained) return server
  throw new SallyportError('mcp_server_unknown', `this session has no MCP server "${name}" in a container of its own`)
}

/** Values are had at this moment, and are in memory of this process and of that container alone. */
async function start(parts: ToolsParts, session: string, server: Stdio, connection: string, signal: AbortSignal): Promise<ToolProcess> {
  const names = secretsOfServer(server)
  const of = { of: session, server: server.name, connection: connection.slice(0, 8) }
  const began = parts.system.elapsed()
  await parts.audit({ event: 'tool_started', ...of, secret: names.join(',') || undefined })
  const record = (code: string, exitCode?: number, scrubbed?: number): Promise<void> =>
    parts
      .audit({
        event: 'tool_ended',
        ...of,
        code,
        exit_code: exitCode,
        scrubbed: scrubbed === 0 ? undefined : scrubbed,
        duration_ms: Math.round(parts.system.elapsed() - began),
      })
      .catch((error: unknown) => parts.log.warn({ ...of, code: codeOf(error) }, 'the end of an MCP server could not be recorded'))
  try {
    const secrets = await resolveAll(parts, session, server, names, signal)
    const { environment, values } = filled(server, secrets)
    const sibling = await parts.startSibling(
      session,
      {
        kind: 'tool',
        label: server.name,
        argv: server.command,
        environment,
        values,
        stdin: 'open',
        workspace: server.workspace,
        pinned: [],
        ...(server.image !== undefined && { image: server.image }),
      },
      signal,
    )
    parts.log.info({ ...of, container: sibling.container }, 'an MCP server runs')
    // A shorter one could not be told from ordinary text.
    const sought = [...secrets.values(), ...Object.values(values)].filter((secret) => secret.reveal().length >= LIMITS.secretCharsMin)
    return openToolProcess(sibling, { name: server.name, secrets: sought, of, record, ...parts })
  } catch (error) {
    await record(codeOf(error))
    if (error instanceof SallyportError) throw error
    throw new SallyportError('mcp_server_failed', `the MCP server "${server.name}" could not be started (${codeOf(error)})`, {
      cause: error,
    })
  }
}

async function resolveAll(
  parts: ToolsParts,
  session: string,
  server: Stdio,
  names: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Secret>> {
  const { policy, holder } = parts.entitledOf(session)
  // I30: of the policy as it is now, for this server and no other use.
  const resolver = createResolver(policy.secrets, parts.providers, parts.system, holder)
  const resource = `tool:${server.name}`
  try {
    const values = await Promise.all(names.map(async (name) => [name, await resolver.resolve(name, { resource }, signal)] as const))
    return new Map(values)
  } finally {
    resolver.forget()
  }
}

/** What of the environment may be in the container's configuration, and what not. */
function filled(server: Stdio, secrets: ReadonlyMap<string, Secret>) {
  const environment: Record<string, string> = {}
  const values: Record<string, Secret> = {}
  for (const [variable, template] of Object.entries(server.env)) {
    const parts = readValue(template)
    if (typeof parts === 'string') throw new SallyportError('mcp_config_invalid', `MCP server "${server.name}": ${variable}: ${parts}`)
    if (parts.every((part) => 'text' in part)) environment[variable] = template
    else
      values[variable] = new Secret(
        variable,
        parts.map((part) => ('text' in part ? part.text : (secrets.get(part.secret)?.reveal() ?? ''))).join(''),
      )
  }
  return { environment, values }
}

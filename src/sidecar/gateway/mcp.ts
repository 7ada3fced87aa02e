import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
import {
  CallToolRequestSchema,
  CancelTaskRequestSchema,
  ErrorCode,
  GetTaskPayloadRequestSchema,
  GetTaskRequestSchema,
  ListTasksRequestSchema,
  ListToolsRequestSchema,
  McpError,
  type CallToolRequest,
  type CallToolResult,
  type CreateTaskResult,
  type ServerNotification,
  type ServerRequest,
} from '@modelcontextprotocol/sdk/types.js'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import { VERSION } from '../../kernel/version.ts'
import type { AgentMethod, RequestView } from '../../wire/agent-requests.ts'
import { refusalOf } from '../egress/refuse.ts'
import { callerOf, createMcpSessions, type McpRequest, type McpSession, type McpSessions } from './mcp-sessions.ts'
import { createMcpTasks, type McpTasks } from './mcp-tasks.ts'
import { faultResult, INSTRUCTIONS, isBeginning, methodOfTool, resultOf, toolsOf } from './mcp-tools.ts'
import { waitForEnd, type McpMethods, type McpWaiter } from './mcp-wait.ts'

export type { McpMethods } from './mcp-wait.ts'
export type { McpSession } from './mcp-sessions.ts'

export type McpParts = {
  readonly methods: McpMethods
  readonly system: System
  /** Whether a text is the session's lease. */
  readonly checkLease: (lease: string) => boolean
}

/** The gateway's MCP face. */
export type Mcp = AsyncDisposable & {
  /** Answers one HTTP request to the gate's own tools. Never rejects. */
  serve(request: Omit<McpRequest, 'server' | 'connect'>): Promise<void>
  /** Policy or leases changed: clients are told of other tools, and sessions of a lease that is not good any more end. */
  review(): Promise<void>
  /** Those of clients, to whatever server. */
  readonly sessions: McpSessions
}

/** One client's server: what of the tools it was told. */
type ToldClient = { readonly server: Server; tools: string }

export function createMcp({ methods, system, checkLease }: McpParts): Mcp {
  const sessions = createMcpSessions(system)
  const tasks = createMcpTasks(methods, system)
  const clients = new Set<ToldClient>()

  async function connect(session: McpSession): Promise<void> {
    const server = createServer({ methods, tasks, session, system })
    const entry: ToldClient = { server, tools: methods.enabled().join() }
    clients.add(entry)
    Object.assign(server, { onclose: () => void clients.delete(entry) })
    await server.connect(session.transport)
  }

  return {
    sessions,
    serve: (request) => sessions.serve({ ...request, server: '', connect }),
    async review() {
      await sessions.review(checkLease)
      const tools = methods.enabled().join()
      for (const entry of clients) {
        if (entry.tools === tools) continue
        entry.tools = tools
        await entry.server.sendToolListChanged().catch(() => undefined)
      }
    },
    async [Symbol.asyncDispose]() {
      await sessions[Symbol.asyncDispose]()
    },
  }
}

type ServerParts = {
  readonly methods: McpMethods
  readonly tasks: McpTasks
  readonly session: McpSession
  readonly system: System
}

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>

function createServer(parts: ServerParts): Server {
  const { methods, tasks } = parts
  const server = new Server(
    { name: 'sallyport', title: 'Sallyport', version: VERSION },
    {
      capabilities: { tools: { listChanged: true }, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
      instructions: INSTRUCTIONS,
      jsonSchemaValidator: { getValidator: noValidator },
    },
  )
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: toolsOf(methods.enabled()) }))
  server.setRequestHandler(CallToolRequestSchema, (request, extra) => callTool(parts, request.params, extra))
  server.setRequestHandler(GetTaskRequestSchema, ({ params }, extra) => told(tasks.get(leaseOf(extra), params.taskId, signalOf(extra))))
  server.setRequestHandler(GetTaskPayloadRequestSchema, ({ params }, extra) =>
    told(tasks.result(leaseOf(extra), params.taskId, signalOf(extra))),
  )
  server.setRequestHandler(ListTasksRequestSchema, ({ params }, extra) => told(tasks.list(leaseOf(extra), params?.cursor, signalOf(extra))))
  server.setRequestHandler(CancelTaskRequestSchema, ({ params }, extra) =>
    told(tasks.cancel(leaseOf(extra), params.taskId, signalOf(extra))),
  )
  return server
}

const leaseOf = ({ authInfo }: Extra): string => callerOf(authInfo).lease

/** What a handler rejects with is told as it is: of a fault of ours that is nothing. @throws McpError */
async function told<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof McpError) throw error
    const { code, message, hint } = refusalOf(error)
    throw new McpError(ErrorCode.InternalError, message, { code, ...(hint !== undefined && { hint }) })
  }
}

/** It validates what a person typed for a server that asked: this one asks by other ways. */
function noValidator(): never {
  throw new Error('the gate asks nothing by MCP')
}

/** Aborted when the call is cancelled, and when nobody waits for its answer any more. */
function signalOf({ signal, authInfo }: Extra): AbortSignal {
  return AbortSignal.any([signal, callerOf(authInfo).gone])
}

async function callTool(
  parts: ServerParts,
  { name, arguments: params = {}, task }: CallToolRequest['params'],
  extra: Extra,
): Promise<CallToolResult | CreateTaskResult> {
  const { methods } = parts
  const method = methodOfTool(name, methods.enabled())
  if (method === undefined) throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${shown(name.slice(0, 64))}`)
  if (task !== undefined && !isBeginning(method)) throw new McpError(ErrorCode.MethodNotFound, `${name} does not run as a task`)
  try {
    if (isBeginning(method)) return await begin(parts, method, params, extra, task !== undefined)
    if (method === 'request.await') return resultOf(method, await awaitRequest(parts, params, extra))
    return resultOf(method, await methods.call(method, params, callerOf(extra.authInfo).lease, signalOf(extra)))
  } catch (error) {
    return taskless(task, error)
  } finally {
    if (extra.signal.aborted) parts.session.abandon(extra.requestId)
  }
}

/** A task that could not begin has no id to ask for: its call is refused. */
function taskless(task: unknown, error: unknown): CallToolResult {
  const result = faultResult(error)
  if (task === undefined) return result
  const [content] = result.content
  throw new McpError(ErrorCode.InvalidRequest, content?.type === 'text' ? content.text : 'it could not begin')
}

/** I59: Begins a request and waits for it. One that the client cancels is withdrawn; one whose client is only gone goes on. */
async function begin(
  parts: ServerParts,
  method: AgentMethod,
  params: unknown,
  extra: Extra,
  asTask: boolean,
): Promise<CallToolResult | CreateTaskResult> {
  const { methods, tasks, session } = parts
  const { lease } = callerOf(extra.authInfo)
  // Not with the call's signal: what has begun has an id, and only with that it can be withdrawn.
  const begun = (await methods.call(method, params, lease)) as RequestView
  try {
    if (asTask) return tasks.begin(lease, begun)
    return resultOf(method, await waitForEnd(begun, LIMITS.requestWaitMs, waiterOf(parts, extra)))
  } catch (error) {
    return faultResult(error, begun)
  } finally {
    if (extra.signal.aborted && !session.isOver()) await methods.call('request.cancel', { id: begun.id }, lease).catch(() => undefined)
  }
}

async function awaitRequest(parts: ServerParts, params: Readonly<Record<string, unknown>>, extra: Extra): Promise<RequestView> {
  const { wait = LIMITS.requestWaitMs / 1_000, id } = params
  const waiter = waiterOf(parts, extra)
  // What is wrong with the call is said by who looks at it. Without anybody to tell, one call waits.
  const isPlain = waiter.report === undefined || typeof wait !== 'number' || typeof id !== 'string'
  const first = (await parts.methods.call(
    'request.await',
    isPlain ? params : { ...params, wait: 0 },
    waiter.lease,
    waiter.signal,
  )) as RequestView
  if (isPlain) return first
  const waitMs = Math.min(wait * 1_000, LIMITS.requestWaitMaxMs)
  return waitForEnd(first, waitMs, waiter)
}

function waiterOf({ methods, system }: ServerParts, extra: Extra): McpWaiter {
  const { lease, isBehind } = callerOf(extra.authInfo)
  const { _meta: meta } = extra
  const progressToken = meta?.progressToken
  let progress = 0
  const report = async (message: string): Promise<void> => {
    // Who doesn't read it is held up by nothing, and holds nothing up.
    if (isBehind()) return
    progress += 1
    await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: progressToken ?? 0, progress, message } })
  }
  return { methods, lease, system, signal: signalOf(extra), report: progressToken === undefined ? undefined : report }
}

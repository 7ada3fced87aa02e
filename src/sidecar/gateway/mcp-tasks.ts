import {
  ErrorCode,
  McpError,
  RELATED_TASK_META_KEY,
  type CallToolResult,
  type CancelTaskResult,
  type CreateTaskResult,
  type GetTaskResult,
  type ListTasksResult,
  type Task,
} from '@modelcontextprotocol/sdk/types.js'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import type { RequestView } from '../../wire/agent-requests.ts'
import { isOpen, resultOf } from './mcp-tools.ts'
import { look, wordsOf, type McpMethods } from './mcp-wait.ts'

/**
 * Requests as tasks (2025-11-25, experimental): the id of a task is that of its request, and what it is is the controller's to say each
 * time. Kept is only which requests began as tasks, and when they were seen to change.
 */
export type McpTasks = {
  begin(lease: string, view: RequestView): CreateTaskResult
  /** @throws McpError for one that is not there */
  get(lease: string, id: string, signal: AbortSignal): Promise<GetTaskResult>
  /** Resolves when it has ended. */
  result(lease: string, id: string, signal: AbortSignal): Promise<CallToolResult>
  list(lease: string, cursor: string | undefined, signal: AbortSignal): Promise<ListTasksResult>
  /** Resolves when nothing of it goes on. @throws McpError for one that had ended */
  cancel(lease: string, id: string, signal: AbortSignal): Promise<CancelTaskResult>
}

type Begun = { readonly lease: string; readonly atMs: number; status: string; changedMs: number }

export function createMcpTasks(methods: McpMethods, { now }: Pick<System, 'now'>): McpTasks {
  /** The oldest first. */
  const tasks = new Map<string, Begun>()

  function known(lease: string, id: string): Begun {
    const begun = tasks.get(id)
    if (begun?.lease === lease) return begun
    throw new McpError(ErrorCode.InvalidParams, `Task not found: ${shown(id.slice(0, 64))}`)
  }

  async function find(lease: string, id: string, waitMs: number, signal: AbortSignal): Promise<{ begun: Begun; view: RequestView }> {
    const begun = known(lease, id)
    try {
      return { begun, view: await look(id, waitMs, { methods, lease, signal }) }
    } catch (error) {
      if (!(error instanceof SallyportError) || error.code !== 'request_not_found') throw error
      tasks.delete(id)
      throw new McpError(ErrorCode.InvalidParams, `Task not found: ${id}`)
    }
  }

  function taskOf(begun: Begun, view: RequestView): Task {
    const status = statusOf(view)
    if (status !== begun.status) Object.assign(begun, { status, changedMs: now() })
    return {
      taskId: view.id,
      status,
      ttl: LIMITS.requestKeptMs,
      createdAt: new Date(begun.atMs).toISOString(),
      lastUpdatedAt: new Date(begun.changedMs).toISOString(),
      pollInterval: LIMITS.mcpTaskPollMs,
      statusMessage: view.error?.message ?? wordsOf(view),
    }
  }

  return {
    begin(lease, view) {
      const begun: Begun = { lease, atMs: now(), status: statusOf(view), changedMs: now() }
      tasks.set(view.id, begun)
      for (const id of tasks.keys()) if (tasks.size > LIMITS.mcpTasksMax) tasks.delete(id)
      return { task: taskOf(begun, view) }
    },
    async get(lease, id, signal) {
      const { begun, view } = await find(lease, id, 0, signal)
      return taskOf(begun, view)
    },
    async result(lease, id, signal) {
      let { begun, view } = await find(lease, id, LIMITS.requestWaitMs, signal)
      while (isOpen(view)) ({ begun, view } = await find(lease, id, LIMITS.requestWaitMs, signal))
      taskOf(begun, view)
      return { ...resultOf('request.await', view), _meta: { [RELATED_TASK_META_KEY]: { taskId: id } } }
    },
    async list(lease, cursor, signal) {
      const own = [...tasks].filter(([, begun]) => begun.lease === lease).map(([id]) => id)
      const from = cursor === undefined ? 0 : own.indexOf(cursor)
      if (from === -1) throw new McpError(ErrorCode.InvalidParams, 'the cursor is none of tasks/list')
      const ids = own.slice(from, from + LIMITS.mcpTasksListedMax)
      const next = own[from + LIMITS.mcpTasksListedMax]
      const listed = await Promise.all(ids.map((id) => this.get(lease, id, signal).catch(unlessGone)))
      return { tasks: listed.filter((task) => task !== undefined), ...(next !== undefined && { nextCursor: next }) }
    },
    async cancel(lease, id, signal) {
      const { view } = await find(lease, id, 0, signal)
      const ended = isOpen(view) ? ((await methods.call('request.cancel', { id }, lease, signal)) as RequestView) : view
      if (!isOpen(view) || statusOf(ended) !== 'cancelled')
        throw new McpError(ErrorCode.InvalidParams, `Cannot cancel task in terminal status: ${statusOf(ended)}`)
      return taskOf(known(lease, id), ended)
    },
  }
}

/** A task of a tool whose result is an error has failed (2025-11-25, tasks). */
function statusOf({ status }: RequestView): Task['status'] {
  if (status === 'pending' || status === 'running') return 'working'
  if (status === 'done') return 'completed'
  return status === 'cancelled' ? 'cancelled' : 'failed'
}

function unlessGone(error: unknown): undefined {
  if (error instanceof McpError && error.code === (ErrorCode.InvalidParams as number)) return undefined
  throw error
}

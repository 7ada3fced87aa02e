import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { AgentMethod, OutputView, RequestView } from '../../wire/agent-requests.ts'
import { isOpen } from './mcp-tools.ts'

/** What agents may call, as the gateway has it. */
export type McpMethods = {
  /** By the policy in force. */
  enabled(): readonly AgentMethod[]
  /** @throws what is wrong with the call, and whatever the controller says */
  call(method: AgentMethod, params: unknown, lease: string, signal?: AbortSignal): Promise<unknown>
}

/** Somebody who waits for a request. */
export type McpWaiter = {
  readonly methods: McpMethods
  readonly lease: string
  /** Nobody waits any more. */
  readonly signal: AbortSignal
  /** Told what is waited for, every `LIMITS.mcpProgressMs` at least, and what is printed. */
  readonly report?: ((message: string) => Promise<void>) | undefined
  readonly system: Pick<System, 'elapsed'>
}

/**
 * The request once it has ended, or as it is after `waitMs` (`LIMITS.requestWaitMaxMs` at most).
 * @param begun as it was when this was called
 * @throws what the controller says, the signal's reason
 */
export async function waitForEnd(begun: RequestView, waitMs: number, waiter: McpWaiter): Promise<RequestView> {
  const { methods, report, system } = waiter
  const enabled = methods.enabled()
  if (!isOpen(begun) || !enabled.includes('request.await')) return begun
  if (report === undefined) return look(begun.id, waitMs, waiter)
  const until = system.elapsed() + waitMs
  const left = (): number => Math.max(0, until - system.elapsed())
  let view = begun
  let after = 0
  await report(wordsOf(view))
  while (isOpen(view) && left() > 0) {
    const stepMs = Math.min(left(), LIMITS.mcpProgressMs)
    if (enabled.includes('request.output')) {
      const { pieces, next } = await output(begun.id, after, stepMs, waiter)
      after = next
      if (pieces.length > 0) {
        await report(endOf(pieces.map(({ text }) => text).join('')))
        // More of it is told together.
        await pause(Math.min(left(), LIMITS.mcpProgressPauseMs), undefined, { signal: waiter.signal })
        continue
      }
      view = await look(begun.id, 0, waiter)
    } else view = await look(begun.id, stepMs, waiter)
    if (isOpen(view)) await report(wordsOf(view))
  }
  return isOpen(view) ? look(begun.id, 0, waiter) : view
}

/** The request as it is after `waitMs` at most. */
export async function look(id: string, waitMs: number, { methods, lease, signal }: Omit<McpWaiter, 'system'>): Promise<RequestView> {
  return (await methods.call('request.await', { id, wait: waitMs / 1_000 }, lease, signal)) as RequestView
}

async function output(id: string, after: number, waitMs: number, { methods, lease, signal }: McpWaiter): Promise<OutputView> {
  return (await methods.call('request.output', { id, after, wait: waitMs / 1_000 }, lease, signal)) as OutputView
}

/** What a request waits for, in words. */
export function wordsOf({ status, note }: RequestView): string {
  if (note !== undefined) return note
  return status === 'pending' ? 'waits for the answer of a person' : status === 'running' ? 'runs' : status
}

function endOf(text: string): string {
  return text.length <= LIMITS.mcpProgressCharsMax ? text : `…${text.slice(-LIMITS.mcpProgressCharsMax).toWellFormed()}`
}

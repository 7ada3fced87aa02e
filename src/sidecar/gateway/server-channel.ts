import { randomUUID } from 'node:crypto'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { FROM_SIDECAR, type ToolAnswer, type ToolRequest } from '../../wire/control.ts'
import type { Message } from './tool-filter.ts'

/** A connection with one MCP server, whatever carries its messages. */
export type ServerChannel = AsyncDisposable & {
  /** Resolves when it is on its way. @throws why it is not */
  send(message: Message): Promise<void>
}

/** What a connection tells. */
export type ChannelEvents = {
  /** The next message is read when it has resolved. */
  onMessage(message: Message): Promise<void>
  /** Once, and nothing comes behind it. Not after it was closed from here. */
  onEnd(reason: SallyportError): void
}

/** Brings a frame TOOL to the controller. @throws controller_unavailable, and whatever the controller says of it */
export type AskTool = (request: ToolRequest, timeoutMs: number) => Promise<unknown>

/**
 * A connection with a program that the controller starts in a container of its own.
 * @param pass lease of the agent, or what the controller gave for a test
 * @throws mcp_server_failed and its kin
 */
export async function openToolChannel(ask: AskTool, server: string, pass: string, events: ChannelEvents): Promise<ServerChannel> {
  const connection = randomUUID().replaceAll('-', '')
  const say = async (what: Omit<ToolRequest, 'lease' | 'server' | 'connection'>, timeoutMs: number): Promise<ToolAnswer> =>
    FROM_SIDECAR.TOOL.result.parse(await ask({ lease: pass, server, connection, ...what }, timeoutMs))
  const closing = new AbortController()
  await say({ do: 'open' }, LIMITS.toolOpenMs)
  void receive()

  async function receive(): Promise<void> {
    let after = 0
    try {
      while (!closing.signal.aborted) {
        const { messages = [], next = after, ended } = await say({ do: 'receive', after }, LIMITS.toolReceiveMs + LIMITS.requestAnswerMs)
        after = next
        for (const text of messages) if (!closing.signal.aborted) await events.onMessage(JSON.parse(text) as Message)
        if (ended !== undefined) throw new SallyportError('mcp_server_failed', `the MCP server "${server}" ${ended}`)
      }
    } catch (error) {
      if (closing.signal.aborted) return
      closing.abort()
      const reason =
        error instanceof SallyportError
          ? error
          : new SallyportError('mcp_server_failed', `the MCP server "${server}" said what is no message`)
      events.onEnd(reason)
      // Where the answer was lost it may still run.
      await say({ do: 'close' }, LIMITS.controlAnswerMs).catch(() => undefined)
    }
  }

  return {
    async send(message) {
      const text = JSON.stringify(message)
      if (Buffer.byteLength(text) > LIMITS.toolMessageBytesMax)
        throw new SallyportError('mcp_server_failed', `the message has more than ${LIMITS.toolMessageBytesMax} bytes`)
      await say({ do: 'send', message: text }, LIMITS.controlAnswerMs)
    },
    async [Symbol.asyncDispose]() {
      if (closing.signal.aborted) return
      closing.abort()
      await say({ do: 'close' }, LIMITS.controlAnswerMs).catch(() => undefined)
    },
  }
}

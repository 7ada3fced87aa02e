import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js'
import type { AuditEvent } from '../../audit/audit.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { nearest } from '../../kernel/nearest.ts'
import { shown } from '../../kernel/shown.ts'
import type { McpServer } from '../../policy/policy.ts'
import type { Handle } from '../egress/handle.ts'
import { isRefusalCode, refusalOf } from '../egress/refuse.ts'
import type { McpSession } from './mcp-sessions.ts'
import type { ConnectToolServer } from './mcp-routes.ts'
import { openRouteChannel } from './route-channel.ts'
import { openToolChannel, type AskTool, type ChannelEvents, type ServerChannel } from './server-channel.ts'
import { createToolFilter, type Message } from './tool-filter.ts'

export type RelayParts = {
  /** Of the policy in force. */
  readonly servers: () => readonly McpServer[]
  readonly handle: Handle
  readonly askTool: AskTool
  /** I3: on disk before a call goes on. @throws audit_unavailable */
  readonly audit: (event: AuditEvent) => Promise<void>
  /** Calls the listener after each change of policy. Undefined where nothing changes. */
  readonly onChange?: ((listener: () => void) => void) | undefined
}

/** A server that the gate stands before. @throws mcp_server_unknown */
export function serverOf(servers: readonly McpServer[], name: string): McpServer {
  const behind = servers.filter((server) => server.kind === 'http' || server.isContained)
  const server = behind.find((one) => one.name === name)
  if (server !== undefined) return server
  const near = nearest(
    name,
    behind.map((one) => one.name),
  )
  throw new SallyportError('mcp_server_unknown', `this session has no MCP server "${shown(name)}" at its gate`, {
    hint:
      near === undefined
        ? 'the operator adds servers to the policy or to mcp.json, then: sallyport secret apply. Those without a secret run in the agent'
        : `did you mean "${near}"?`,
  })
}

/** Opens the way to a server. @throws mcp_server_failed and its kin */
export async function openServer(parts: RelayParts, server: McpServer, pass: string, events: ChannelEvents): Promise<ServerChannel> {
  return server.kind === 'http' ? openRouteChannel(parts.handle, server, events) : openToolChannel(parts.askTool, server.name, pass, events)
}

/**
 * What stands between agents and their MCP servers: passes messages on as they are, but for tools that are not theirs. What it gives
 * rejects with mcp_server_unknown, mcp_server_failed and its kin.
 */
export function createMcpRelay(parts: RelayParts): ConnectToolServer {
  const open = new Set<RelayedSession>()
  parts.onChange?.(() => open.forEach((relayed) => relayed.review()))
  return async (name, lease, session) => {
    const relayed: RelayedSession = new RelayedSession(parts, serverOf(parts.servers(), name), session, () => open.delete(relayed))
    open.add(relayed)
    try {
      await relayed.open(lease)
    } catch (error) {
      open.delete(relayed)
      throw error
    }
  }
}

const REFUSED = -32_000
const INVALID_PARAMS = -32_602

class RelayedSession {
  readonly #parts: RelayParts
  readonly #server: McpServer
  readonly #session: McpSession
  readonly #filter
  /** Of the agent, not answered yet: by the token of their progress where they have one. */
  readonly #pending = new Map<RequestId, unknown>()
  #channel: ServerChannel | undefined
  #isEnded = false
  /** One message after the other, in the order in which they came. */
  #sending: Promise<void> = Promise.resolve()
  #waiting = 0
  #waitingChars = 0
  readonly #onEnded: () => void

  constructor(parts: RelayParts, server: McpServer, session: McpSession, onEnded: () => void) {
    this.#onEnded = onEnded
    this.#parts = parts
    this.#server = server
    this.#session = session
    this.#filter = createToolFilter(server)
  }

  async open(lease: string): Promise<void> {
    const { transport } = this.#session
    this.#channel = await openServer(this.#parts, this.#server, lease, {
      onMessage: (message) => this.#toAgent(message),
      onEnd: (reason) => void this.#end(reason),
    }).catch((error: unknown) => {
      throw toldAgent(error, this.#server.name)
    })
    if (this.#session.isOver()) {
      await this.#channel[Symbol.asyncDispose]()
      throw new SallyportError('mcp_server_unknown', `the session ended before the MCP server "${this.#server.name}" was there`)
    }
    const { onclose } = transport
    const closed = (): void => {
      onclose?.()
      this.#isEnded = true
      this.#onEnded()
      void this.#channel?.[Symbol.asyncDispose]()
    }
    const received = (message: JSONRPCMessage): void => {
      const { id, method } = message as Message
      if (method !== undefined && isId(id)) this.#pending.set(id, tokenOf(message))
      this.#queue(message)
    }
    Object.assign(transport, { onclose: closed, onmessage: received })
    await transport.start()
  }

  /** Ends the session where the policy in force says another thing of its server, or nothing. */
  review(): void {
    try {
      this.#refuseChanged()
    } catch {
      // It ends.
    }
  }

  /** A message without an id is answered before it is taken: only this bounds how many wait. */
  #queue(message: Message): void {
    const chars = this.#waiting === 0 ? 0 : JSON.stringify(message).length
    // I73
    if (this.#waiting >= LIMITS.relayWaitingMax || this.#waitingChars + chars > LIMITS.relayWaitingCharsMax) {
      const reason = new SallyportError('overloaded', `${this.#waiting} messages wait for the MCP server "${this.#server.name}"`)
      return void this.#end(reason)
    }
    this.#waiting += 1
    this.#waitingChars += chars
    this.#sending = this.#sending
      .then(() => this.#toServer(message))
      .finally(() => {
        this.#waiting -= 1
        this.#waitingChars -= chars
      })
  }

  /** Never rejects. */
  async #toServer(message: Message): Promise<void> {
    if (this.#isEnded) return
    const { id, method, params } = message
    try {
      this.#refuseChanged()
      const call = this.#filter.callIn(message)
      if (call !== undefined) {
        const { tool, isAllowed } = call
        await this.#parts.audit({ event: 'tool_called', server: this.#server.name, tool, decision: isAllowed ? 'allow' : 'deny' })
        if (!isAllowed) return await this.#answer(id, INVALID_PARAMS, `the tool "${shown(tool)}" is not one that this session has`)
      }
      await this.#channel?.send(message)
      if (method === 'notifications/cancelled') this.#abandon(params)
    } catch (error) {
      const { code, message: why, hint } = refusalOf(error)
      await this.#answer(id, REFUSED, why, { code, ...(hint !== undefined && { hint }) })
    }
  }

  /** I18: a session does not outlive what the policy said of its server when it began. */
  #refuseChanged(): void {
    const now = this.#parts.servers().find(({ name }) => name === this.#server.name)
    if (saidOf(now) === saidOf(this.#server)) return
    const reason = new SallyportError(
      'mcp_server_unknown',
      `the MCP server "${this.#server.name}" is not what it was when this session began`,
    )
    setImmediate(() => void this.#end(reason))
    throw reason
  }

  async #toAgent(received: Message): Promise<void> {
    const message = this.#filter.toAgent(received)
    const { id, method } = message
    if (method === undefined) {
      // What answers nothing that was asked has no stream to go by.
      if (!isId(id) || !this.#pending.delete(id)) return
      return this.#give(message)
    }
    await this.#give(message, this.#relatedTo(message))
  }

  /** The call that a message of the server's belongs to, as far as it says so or there is only one. */
  #relatedTo({ params }: Message): RequestId | undefined {
    const token = typeof params === 'object' && params !== null && 'progressToken' in params ? params.progressToken : undefined
    const ids = [...this.#pending]
    if (token !== undefined) return ids.find(([, its]) => its === token)?.[0]
    return ids.length === 1 ? ids[0]?.[0] : undefined
  }

  async #give(message: Message, relatedRequestId?: RequestId): Promise<void> {
    const options = relatedRequestId === undefined ? {} : { relatedRequestId }
    // A client that hears nothing by itself, or is gone, misses what it would not have heard.
    await this.#session.transport.send(message as JSONRPCMessage, options).catch(() => undefined)
  }

  async #answer(id: unknown, code: number, message: string, data?: unknown): Promise<void> {
    if (!isId(id) || !this.#pending.delete(id)) return
    await this.#give({ jsonrpc: '2.0', id, error: { code, message, ...(data !== undefined && { data }) } })
  }

  #abandon(params: unknown): void {
    const id = typeof params === 'object' && params !== null && 'requestId' in params ? params.requestId : undefined
    if (isId(id) && this.#pending.delete(id)) this.#session.abandon(id)
  }

  async #end({ code, message, hint }: SallyportError): Promise<void> {
    if (this.#isEnded) return
    for (const id of this.#pending.keys().toArray()) await this.#answer(id, REFUSED, message, { code, ...(hint !== undefined && { hint }) })
    await this.#session.transport.close()
  }
}

/** What is the operator's to know (a vault that is locked, an image that is not there) is told by its code alone. */
function toldAgent(error: unknown, name: string): unknown {
  if (!(error instanceof SallyportError) || isRefusalCode(error.code)) return error
  return new SallyportError('mcp_server_failed', `the MCP server "${name}" could not be started (${error.code})`, {
    hint: `the operator sees why with "sallyport mcp test ${name}"`,
    cause: error,
  })
}

/** What the policy says of a server, wherever it stands. */
function saidOf(server: McpServer | undefined): string {
  return JSON.stringify({ ...server, from: undefined })
}

function isId(id: unknown): id is RequestId {
  return typeof id === 'string' || typeof id === 'number'
}

function tokenOf({ params }: Message): unknown {
  const { _meta: meta } = (typeof params === 'object' && params !== null ? params : {}) as { readonly _meta?: unknown }
  return typeof meta === 'object' && meta !== null && 'progressToken' in meta ? meta.progressToken : undefined
}

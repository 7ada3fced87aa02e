import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { VERSION } from '../../kernel/version.ts'
import { routeOfServer, secretsIn, type McpServer } from '../../policy/policy.ts'
import type { Handle } from '../egress/handle.ts'
import { refusalOf } from '../egress/refuse.ts'
import { ROUTE_PREFIX } from '../egress/route.ts'
import { readEvents } from './event-stream.ts'
import { RelayAgent, type RelayAnswer } from './relay-agent.ts'
import type { ChannelEvents, ServerChannel } from './server-channel.ts'
import type { Message } from './tool-filter.ts'

type HttpServer = Extract<McpServer, { readonly kind: 'http' }>

/**
 * A connection with a server elsewhere, over streamable HTTP (2025-11-25). Every request of it goes by the server's route: verified,
 * with the fields that the policy names, and recorded like one of the agent's. Nothing that the agent sent but its messages is in one.
 */
export function openRouteChannel(handle: Handle, server: HttpServer, events: ChannelEvents): ServerChannel {
  const channel = new RouteChannel(handle, server, events)
  return { send: (message) => channel.send(message), [Symbol.asyncDispose]: () => channel.close() }
}

const REFUSED = -32_000

class RouteChannel {
  readonly #handle: Handle
  readonly #server: HttpServer
  readonly #events: ChannelEvents
  readonly #running = new Set<RelayAgent>()
  #session: string | undefined
  #version: string | undefined
  #lastEvent: string | undefined
  #isClosed = false
  #reopening: NodeJS.Timeout | undefined

  constructor(handle: Handle, server: HttpServer, events: ChannelEvents) {
    this.#handle = handle
    this.#server = server
    this.#events = events
  }

  /**
   * Resolves when the server has taken it. Not of a call: many servers answer with a head when they are done, and until then what
   * cancels it has to pass, and what is called beside it. Why a call failed is its answer.
   */
  async send(message: Message): Promise<void> {
    if (this.#isClosed) throw this.#failed('is closed')
    if (this.#running.size >= LIMITS.relayRequestsMax)
      throw new SallyportError('overloaded', `${this.#running.size} messages are under way`)
    const { id, method } = message
    const taken = this.#taken(this.#begin('POST', ['content-type', 'application/json'], Buffer.from(JSON.stringify(message))), message)
    if (id === undefined || typeof method !== 'string' || method === 'initialize') return await taken
    taken.catch((error: unknown) => {
      const { code, message: why, hint } = refusalOf(error)
      return this.#refuse(id, why, { code, ...(hint !== undefined && { hint }) })
    })
  }

  async #taken(agent: RelayAgent, { id, method }: Message): Promise<void> {
    const answer = await this.#answerOf(agent)
    // The session is over for the server, and so it is for the client (2025-11-25, transports, session management).
    if (answer.status === 404 && this.#session !== undefined && !answer.isRefusal) return this.#fail(agent, 'has ended the session')
    if (answer.status < 200 || answer.status > 299) throw await this.#refusalOf(agent, answer)
    if (method === 'initialize') this.#session = answer.header('mcp-session-id')
    void this.#deliver(agent, answer, id !== undefined && typeof method === 'string' ? { id, method } : undefined)
    if (method === 'notifications/initialized') void this.#listen()
  }

  async #refuse(id: unknown, message: string, data?: unknown): Promise<void> {
    if (this.#isClosed) return
    await this.#events.onMessage({ jsonrpc: '2.0', id, error: { code: REFUSED, message, ...(data !== undefined && { data }) } })
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    clearTimeout(this.#reopening)
    for (const agent of this.#running) agent.leave()
    if (this.#session === undefined) return
    const agent = this.#begin('DELETE', [])
    const late = setTimeout(() => agent.leave(), LIMITS.farewellMs).unref()
    await agent.answer.catch(() => undefined)
    clearTimeout(late)
    agent.leave()
  }

  #begin(method: 'GET' | 'POST' | 'DELETE', more: readonly string[], body?: Buffer): RelayAgent {
    const { name, url, headers } = this.#server
    const plain = Object.entries(headers).flatMap(([field, value]) => (secretsIn(value).length === 0 ? [field, value] : []))
    const target = `${ROUTE_PREFIX}${routeOfServer(name)}${url.endsWith('/') ? '/' : ''}`
    const agent = new RelayAgent(
      method,
      target,
      [
        'host',
        'sallyport',
        'user-agent',
        `sallyport/${VERSION}`,
        'accept-encoding',
        'identity',
        'accept',
        method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
        ...(this.#session === undefined ? [] : ['mcp-session-id', this.#session]),
        ...(this.#version === undefined ? [] : ['mcp-protocol-version', this.#version]),
        ...plain,
        ...more,
      ],
      body,
    )
    this.#running.add(agent)
    void this.#handle(agent, 'mcp').finally(() => this.#running.delete(agent))
    return agent
  }

  async #answerOf(agent: RelayAgent): Promise<RelayAnswer> {
    try {
      return await agent.answer
    } catch {
      throw this.#failed('gave no answer')
    }
  }

  /** What the server says in an answer. A request that gets none in it is told so. */
  async #deliver(agent: RelayAgent, answer: RelayAnswer, request: { id: unknown; method: unknown } | undefined): Promise<void> {
    let isAnswered = request === undefined
    const give = async (text: string): Promise<void> => {
      for (const message of messagesIn(text)) {
        if (request !== undefined && message['method'] === undefined && message['id'] === request.id) isAnswered = true
        if (request?.method === 'initialize') this.#learn(message)
        if (!this.#isClosed) await this.#events.onMessage(message)
      }
    }
    try {
      if (isStream(answer)) for await (const { data } of readEvents(answer.body, LIMITS.toolAnswerBytesMax)) await give(data)
      else {
        const text = await wholeOf(answer)
        if (text !== '') await give(text)
      }
    } catch {
      agent.leave()
    }
    if (!isAnswered) await this.#refuse(request?.id, 'the MCP server gave no answer that can be read')
  }

  #learn({ result }: Message): void {
    const version = typeof result === 'object' && result !== null && 'protocolVersion' in result ? result.protocolVersion : undefined
    if (typeof version === 'string' && /^[0-9A-Za-z.-]{1,32}$/.test(version)) this.#version = version
  }

  /** What the server says by itself: a stream that it may not have. */
  async #listen(): Promise<void> {
    if (this.#isClosed) return
    const agent = this.#begin('GET', this.#lastEvent === undefined ? [] : ['last-event-id', this.#lastEvent])
    try {
      const answer = await agent.answer
      if (answer.status !== 200 || !isStream(answer)) return agent.leave()
      for await (const { data, id } of readEvents(answer.body, LIMITS.toolAnswerBytesMax)) {
        if (id !== undefined && /^[\x21-\x7e]{1,256}$/.test(id)) this.#lastEvent = id
        for (const message of messagesIn(data)) if (!this.#isClosed) await this.#events.onMessage(message)
      }
    } catch {
      agent.leave()
    }
    if (!this.#isClosed) this.#reopening = setTimeout(() => void this.#listen(), LIMITS.relayReopenMs).unref()
  }

  async #refusalOf(agent: RelayAgent, answer: RelayAnswer): Promise<SallyportError> {
    const { status, isRefusal } = answer
    const text = await wholeOf(answer).catch(() => '')
    agent.leave()
    // What the gate says itself says why. The words of a server stay with it: they are no message.
    const said = isRefusal ? (JSON.parse(text) as { readonly code?: string; readonly detail?: string; readonly hint?: string }) : {}
    return new SallyportError(
      'mcp_server_failed',
      `the MCP server "${this.#server.name}" ${isRefusal ? `is out of reach: ${said.code ?? ''}: ${said.detail ?? ''}` : `answered ${status}`}`,
      {
        ...(said.hint !== undefined && { hint: said.hint }),
      },
    )
  }

  #fail(agent: RelayAgent, why: string): void {
    agent.leave()
    if (this.#isClosed) return
    this.#session = undefined
    this.#isClosed = true
    clearTimeout(this.#reopening)
    this.#events.onEnd(this.#failed(why))
  }

  #failed(why: string): SallyportError {
    return new SallyportError('mcp_server_failed', `the MCP server "${this.#server.name}" ${why}`)
  }
}

function isStream(answer: RelayAnswer): boolean {
  return /^text\/event-stream\b/i.test(answer.header('content-type') ?? '')
}

/** @throws Error for one that is too long */
async function wholeOf({ body }: RelayAnswer): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body) {
    length += chunk.length
    if (length > LIMITS.toolAnswerBytesMax) throw new Error('the answer is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** One message, or several (2025-03-26, batches). What is none is left out. */
function messagesIn(text: string): Message[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return []
  }
  return [value].flat().filter((item): item is Message => typeof item === 'object' && item !== null && !Array.isArray(item))
}

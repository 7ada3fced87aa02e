import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuthInfo } from '@modelcontextprotocol/sdk/server/auth/types.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { ErrorCode, isInitializeRequest, type RequestId } from '@modelcontextprotocol/sdk/types.js'
import { SallyportError, type Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import { refusalOf, statusOf } from '../egress/refuse.ts'

/** A session of an MCP client, to the server that is connected to it. */
export type McpSession = {
  readonly transport: Transport
  /** Calls are aborted when it ends as when the client cancels them: then it is true already. */
  readonly isOver: () => boolean
  /** Ends the stream of a call that was cancelled, which gets no answer. */
  readonly abandon: (call: RequestId) => void
}

/** One HTTP request of an MCP client, whose lease was looked at before. */
export type McpRequest = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The JSON of its body. */
  readonly body: unknown
  readonly lease: string
  /** The server that is asked for. A session is of one server, and of the lease that opened it. */
  readonly server: string
  /** Connects a server to a session that begins. @throws why it cannot be had, which the client is told */
  readonly connect: (session: McpSession) => Promise<void>
}

/** Who makes a call, as far as a server needs it: `callerOf(extra.authInfo)`. */
export type McpCaller = {
  readonly lease: string
  /** The connection that waits for the answer is gone. */
  readonly gone: AbortSignal
  /** It takes less than is sent: what can be left out is left out. */
  readonly isBehind: () => boolean
}

/**
 * Sessions of MCP clients over streamable HTTP (2025-11-25), for whatever server: the bounds of all of them, their leases and their ends.
 * They have state because a cancellation comes by a request of its own, and because clients are told when the tools change.
 *
 * Streams are not resumed: a connection here is one hop within the session's network and breaks with the gate, whose memory would be all
 * that could be replayed; what a broken call began is awaited by its id.
 */
export type McpSessions = AsyncDisposable & {
  /** Answers it, however that ends. Never rejects. */
  serve(request: McpRequest): Promise<void>
  /** Ends those whose lease is not good any more. */
  review(isGood: (lease: string) => boolean): Promise<void>
  readonly count: number
}

type Entry = {
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly lease: string
  readonly owner: string
  /** Requests that are not answered yet: the stream for what the server says by itself is one. */
  underWay: number
  idle: NodeJS.Timeout | undefined
}

const ID_BYTES = 32
const NOT_FOUND = -32_001
const REFUSED = -32_000

export function createMcpSessions({ random }: Pick<System, 'random'>): McpSessions {
  /** The least recently used first. */
  const sessions = new Map<string, Entry>()

  async function open(server: string, lease: string, connect: McpRequest['connect']): Promise<Entry> {
    if (sessions.size >= LIMITS.mcpSessionsMax && !(await endIdlest(sessions.values())))
      throw new SallyportError('overloaded', `${sessions.size} MCP sessions are in use`, { hint: 'end some of them' })
    const id = random(ID_BYTES).toString('hex')
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      maxRequestBodySize: LIMITS.mcpBodyBytesMax,
    })
    let isOver = false
    const entry: Entry = { transport, lease, owner: ownerOf(server, lease), underWay: 0, idle: undefined }
    // What a server sets when it is connected is called after this.
    Object.assign(transport, {
      onclose() {
        isOver = true
        clearTimeout(entry.idle)
        sessions.delete(id)
      },
    })
    sessions.set(id, entry)
    const session: McpSession = { transport, isOver: () => isOver, abandon: (call) => abandon(transport, call) }
    try {
      await connect(session).catch(async (error: unknown) => {
        // Clients go without a word: what is left of them makes room.
        const others = [...sessions.values()].filter((one) => one !== entry && one.owner === entry.owner)
        if (refusalOf(error).code !== 'overloaded' || !(await endIdlest(others))) throw error
        await connect(session)
      })
    } catch (error) {
      await transport.close()
      throw error
    }
    return entry
  }

  /** The entry of a request with a session's id, or of the first of a new one. */
  // I58
  async function find({ request, body, server, lease, connect }: McpRequest): Promise<Entry | Answer> {
    const id = request.headers['mcp-session-id']
    if (id === undefined) {
      if (request.method === 'POST' && isInitializeRequest(body)) return open(server, lease, connect)
      return { status: 400, code: REFUSED, message: 'no session: begin with "initialize", and send the Mcp-Session-Id of its answer' }
    }
    const entry = typeof id === 'string' ? sessions.get(id) : undefined
    // That another's session exists is not told.
    if (entry?.owner !== ownerOf(server, lease)) return { status: 404, code: NOT_FOUND, message: 'Session not found' }
    sessions.delete(String(id))
    sessions.set(String(id), entry)
    return entry
  }

  return {
    async serve(asked) {
      const { request, response, body, lease } = asked
      try {
        const found = await find(asked)
        if (!('transport' in found)) return answer(response, found)
        await handle(found, request, response, body, lease)
      } catch (error) {
        answer(response, answerOf(refusalOf(error), body))
      }
    },
    async review(isGood) {
      await Promise.all([...sessions.values()].filter(({ lease }) => !isGood(lease)).map(({ transport }) => transport.close()))
    },
    get count() {
      return sessions.size
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...sessions.values()].map(({ transport }) => transport.close()))
    },
  }
}

/** What a handler of the SDK is told of the request that it answers. */
export function callerOf(auth: AuthInfo | undefined): McpCaller {
  const caller = auth?.extra?.['caller']
  if (caller === undefined) throw new Error('a call came by no request')
  return caller as McpCaller
}

async function handle(entry: Entry, request: IncomingMessage, response: ServerResponse, body: unknown, lease: string): Promise<void> {
  const { transport } = entry
  // Its server took its time to begin: nobody has learned its id.
  if (response.destroyed && transport.sessionId === undefined) return await transport.close()
  const gone = new AbortController()
  entry.underWay += 1
  clearTimeout(entry.idle)
  const leave = (): void => {
    gone.abort()
    entry.underWay -= 1
    if (entry.underWay === 0) entry.idle = setTimeout(() => void transport.close(), LIMITS.mcpSessionIdleMs).unref()
  }
  if (response.destroyed) leave()
  else response.once('close', leave)
  response.setTimeout(LIMITS.mcpStalledMs, () => response.destroy())
  const caller: McpCaller = { lease, gone: gone.signal, isBehind: () => response.writableNeedDrain }
  const auth: AuthInfo = { token: lease, clientId: '', scopes: [], extra: { caller } }
  const answered = await transport.handleRequest(requestOf(request), { parsedBody: body, authInfo: auth })
  // It was refused, and has no id that a client could know.
  if (transport.sessionId === undefined) await transport.close()
  await send(answered, response, gone.signal)
}

const FIELDS = ['accept', 'content-type', 'mcp-session-id', 'mcp-protocol-version', 'last-event-id'] as const

/** Of the head what the protocol has, and not the lease. */
function requestOf({ method = 'GET', headers }: IncomingMessage): Request {
  const sent = FIELDS.flatMap((name): [string, string][] => (headers[name] === undefined ? [] : [[name, String(headers[name])]]))
  return new Request('http://sallyport/mcp', { method, headers: sent })
}

/** The SDK's own way from one kind of answer to the other prints what breaks off to stdout, where a gate may have its controller. */
async function send({ status, headers, body }: Response, response: ServerResponse, gone: AbortSignal): Promise<void> {
  response.writeHead(status, Object.fromEntries(headers))
  if (body === null) return void response.end()
  // A stream says that it has begun before it has something to say.
  response.flushHeaders()
  const reader = body.getReader()
  const cancel = (): void => void reader.cancel().catch(() => undefined)
  gone.addEventListener('abort', cancel, { once: true })
  if (gone.aborted) cancel()
  for (let piece = await reader.read(); !piece.done; piece = await reader.read())
    if (!response.write(piece.value)) await once(response, 'drain', { signal: gone }).catch(() => undefined)
  response.end()
}

/** The first of them that nobody waits for. False where there is none. */
async function endIdlest(sessions: Iterable<Entry>): Promise<boolean> {
  const idlest = [...sessions].find(({ underWay }) => underWay === 0)
  await idlest?.transport.close()
  return idlest !== undefined
}

function ownerOf(server: string, lease: string): string {
  return createHash('sha256').update(`${server}\0${lease}`).digest('hex')
}

/** The SDK leaves the stream of a call that was cancelled open, and its id in its tables, for as long as the session lasts. */
function abandon(transport: WebStandardStreamableHTTPServerTransport, call: RequestId): void {
  transport.closeSSEStream(call)
  // Without a stream nobody is told this: it only clears the tables.
  transport.send({ jsonrpc: '2.0', id: call, error: { code: REFUSED, message: 'cancelled' } }).catch(() => undefined)
}

type Answer = { readonly status: number; readonly code: number; readonly message: string; readonly data?: unknown; readonly id?: unknown }

function answerOf({ code, message, hint }: Refusal, body: unknown): Answer {
  const data = { code, ...(hint !== undefined && { hint }) }
  const { id } = (body ?? {}) as { readonly id?: unknown }
  return { status: statusOf(code), code: ErrorCode.InternalError, message, data, ...(isId(id) && { id }) }
}

function isId(id: unknown): id is RequestId {
  return typeof id === 'string' || typeof id === 'number'
}

/** An error as the SDK's transport says it. */
function answer(response: ServerResponse, { status, code, message, data, id = null }: Answer): void {
  if (response.headersSent) return void response.destroy()
  const error = { code, message, ...(data !== undefined && { data }) }
  const text = JSON.stringify({ jsonrpc: '2.0', error, id })
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' }).end(text)
}

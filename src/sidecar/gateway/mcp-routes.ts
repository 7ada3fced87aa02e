import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Refusal } from '../../kernel/errors.ts'
import { isAddress, isHostname, parseHostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import { valuesOf } from '../egress/headers.ts'
import type { Mcp, McpMethods, McpSession } from './mcp.ts'

/** Connects sessions of MCP clients to the servers of the session at `/mcp/NAME`. */
export type ConnectToolServer = (name: string, lease: string, session: McpSession) => Promise<void>

export type McpRoutesParts = {
  readonly methods: McpMethods
  readonly system: System
  readonly checkLease?: ((lease: string) => boolean) | undefined
  /** Calls the listener after each change of policy or leases. Undefined where nothing changes. */
  readonly onChange?: ((listener: () => void) => void) | undefined
  /** Undefined where the session has no servers of its own. @throws not_found for another name, and why it cannot be had */
  readonly connectToolServer?: ConnectToolServer | undefined
}

/**
 * `/mcp`, the gate's own tools, and `/mcp/NAME`. What speaks the protocol is loaded for the first request.
 * @param scope looks at the lease of each request before anything of its body is read
 * @param leaseOf the lease that a request showed
 */
export function addMcpRoutes(scope: FastifyInstance, parts: McpRoutesParts, leaseOf: (request: FastifyRequest) => string): void {
  const { methods, system, checkLease = () => true, onChange, connectToolServer } = parts
  let loading: Promise<Mcp> | undefined
  const load = (): Promise<Mcp> =>
    (loading ??= import('./mcp.ts').then(
      ({ createMcp }) => createMcp({ methods, system, checkLease }),
      (error: unknown) => {
        loading = undefined
        throw error
      },
    ))
  onChange?.(() => void loading?.then((mcp) => mcp.review()))
  scope.server.once('close', () => void loading?.then((mcp) => mcp[Symbol.asyncDispose]()))

  takeJsonOnly(scope)
  scope.setErrorHandler(answerFault)
  const method = ['GET', 'POST', 'DELETE']
  const options = { method, exposeHeadRoute: false, bodyLimit: LIMITS.mcpBodyBytesMax }
  const partsOf = (request: FastifyRequest, reply: FastifyReply) => {
    // From here on the connection is the protocol's.
    reply.hijack()
    return { request: request.raw, response: reply.raw, body: request.body, lease: leaseOf(request) }
  }
  scope.route({
    ...options,
    url: '/mcp',
    async handler(request, reply) {
      const mcp = await load()
      void mcp.serve(partsOf(request, reply))
      return reply
    },
  })
  if (connectToolServer === undefined) return
  scope.route<{ Params: { server: string } }>({
    ...options,
    url: '/mcp/:server',
    async handler(request, reply) {
      const { sessions } = await load()
      const { server } = request.params
      const asked = partsOf(request, reply)
      void sessions.serve({ ...asked, server, connect: (session) => connectToolServer(server, asked.lease, session) })
      return reply
    },
  })
}

/**
 * What the protocol asks for (2025-11-25, transports §Security): a page may have a foreign name lead here. A page cannot make its
 * own origin an address or a name without a dot.
 */
export function refusePage({ raw: { rawHeaders } }: FastifyRequest): Refusal | undefined {
  const foreign = valuesOf(rawHeaders, 'origin').find((origin) => !isOwnOrigin(origin))
  if (foreign === undefined) return undefined
  return {
    code: 'origin_not_allowed',
    message: `a page of "${shown(foreign.slice(0, 256))}" may not call the gateway`,
    hint: 'call it without an Origin header',
  }
}

function isOwnOrigin(origin: string): boolean {
  if (!URL.canParse(origin)) return false
  const host = parseHostname(new URL(origin).hostname)
  return isHostname(host) && (isAddress(host) || !host.includes('.'))
}

/** Other types a page could send without asking. Names that are a trap for who copies them are refused as no JSON. */
function takeJsonOnly(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  const parse = scope.getDefaultJsonParser('error', 'error')
  scope.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    // Some clients name the type of a body that they don't send.
    if (body === '') done(null, undefined)
    else void parse(request, String(body), done)
  })
}

const PARSE_ERROR = -32_700

/** As the protocol says what could not be read (JSON-RPC 2.0 §5.1). */
function answerFault(error: FastifyError, _request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { statusCode = 500 } = error
  const status = statusCode >= 400 && statusCode <= 499 ? statusCode : 500
  const message =
    status === 413
      ? `Payload too large: more than ${LIMITS.mcpBodyBytesMax} bytes`
      : status === 415
        ? 'Unsupported media type: send application/json'
        : status === 500
          ? 'Internal error'
          : 'Parse error'
  const code = status === 500 ? INTERNAL_ERROR : status === 400 ? PARSE_ERROR : REFUSED
  return reply.code(status).header('cache-control', 'no-store').send({ jsonrpc: '2.0', error: { code, message }, id: null })
}

const REFUSED = -32_000
const INTERNAL_ERROR = -32_603

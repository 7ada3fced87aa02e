import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { ReadyFile } from '../../credential/credential.ts'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { valuesOf } from '../egress/headers.ts'
import type { CheckLease } from '../egress/lease.ts'
import { problem, writeRefusal } from '../egress/refuse.ts'
import { refuseAtGateway, ROUTE_PREFIX } from '../egress/route.ts'
import { refusalOfParser } from '../inbound/refusal-of-parser.ts'
import type { System } from '../../kernel/system.ts'
import type { Policy } from '../../policy/policy.ts'
import { addMcpRoutes, refusePage, type ConnectToolServer } from './mcp-routes.ts'
import { createMethods, type CallController, type Methods } from './methods.ts'
import { addRpc } from './rpc.ts'
import { pathsOf, verbsAt } from './paths.ts'

export type { CallController } from './methods.ts'
export type { ConnectToolServer } from './mcp-routes.ts'

/** Takes requests to reverse routes: they are egress, and go the way of all egress. */
export type RouteTakers = {
  onRouteRequest(request: IncomingMessage, response: ServerResponse): void
  onRouteUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void
}

/** What the gateway tells. */
export type GatewayParts = {
  /** The public part of the session's certificate authority. */
  readonly caPem: string
  /** Of the policy in force, each kind once. */
  readonly files: () => readonly ReadyFile[]
  /** Of the policy in force: variables of the agent's environment and their worthless values. */
  readonly placeholders: () => Readonly<Record<string, string>>
  /** Whether a text is the session's lease. Without it this gate has none, and wants none. */
  readonly checkLease?: CheckLease | undefined
  /** What needs the host or a person. */
  readonly callController: CallController
  /** The policy in force. */
  readonly policy: () => Pick<Policy, 'hostCommands' | 'gateway'>
  /** Calls the listener after each change of policy or leases. Undefined where nothing changes. */
  readonly onChange?: ((listener: () => void) => void) | undefined
  /** Undefined where the session has no MCP servers of its own. */
  readonly connectToolServer?: ConnectToolServer | undefined
  readonly system: System
}

/**
 * The agent's own endpoint at the gate: whether it works, the public part of the session's certificate authority, what a
 * program of the agent needs to use credentials that it does not have, and the reverse routes below `/route/`.
 */
export async function createGateway(parts: GatewayParts, routes: RouteTakers): Promise<Server> {
  const methods = createMethods(parts)
  const answerNotFound = notFoundAnswer(methods, parts.checkLease)
  const app = fastify({
    logger: false,
    bodyLimit: 1024,
    // No route has a schema: what compiles them is not loaded, a sixth of the framework's memory.
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    serverFactory: (handler) => createGatewayServer(handler, routes),
    clientErrorHandler: () => undefined, // createGatewayServer has its own
    frameworkErrors: (_error, request, reply) => {
      void answer(reply, { code: 'target_invalid', message: `"${shown(request.url)}" is no path` })
    },
  })
  app.setErrorHandler((_error, _request, reply) => answer(reply, { code: 'internal', message: 'the request could not be handled' }))
  app.setNotFoundHandler(answerNotFound)
  app.addHook('preParsing', askForBody)
  // It is opened last: where it answers, the proxy listens.
  app.get('/healthz', (_request, reply) => reply.send({ status: 'ok' }))
  app.get('/ca.crt', (_request, reply) => reply.type('application/x-pem-file').send(parts.caPem))
  // What is not there below /v1 wants the lease too.
  app.register(
    (v1, _options, done) => {
      wantLease(v1, parts.checkLease)
      v1.setNotFoundHandler(answerNotFound)
      addFiles(v1, parts)
      done()
    },
    { prefix: '/v1' },
  )
  app.register((leased, _options, done) => {
    wantLease(leased, parts.checkLease)
    leased.get('/openapi.json', async (_request, reply) => {
      // Made when it is asked for: few agents do.
      const { openApiDocument } = await import('./openapi.ts')
      return unkept(reply).send(openApiDocument(methods.enabled()))
    })
    addRpc(leased, { methods, leaseOf: ({ raw }) => shownLeases(raw)[0] ?? '', answer, answerNotFound })
    done()
  })
  app.register((scope, _options, done) => {
    wantLease(scope, parts.checkLease)
    scope.addHook('onRequest', (request, reply, next) => {
      const refusal = refusePage(request)
      if (refusal) void answer(reply, refusal)
      else next()
    })
    addMcpRoutes(scope, { ...parts, methods }, ({ raw }) => shownLeases(raw)[0] ?? '')
    done()
  })
  await app.ready()
  return app.server
}

/** Who announced a body waits to be asked for it (RFC 9110 §10.1.1), and is when its head was looked at and found good. */
function askForBody({ raw }: FastifyRequest, reply: FastifyReply, _payload: unknown, next: () => void): void {
  if (raw.httpVersion === '1.1' && /(?:^|\W)100-continue(?:$|\W)/i.test(raw.headers.expect ?? '')) reply.raw.writeContinue()
  next()
}

/** Nothing of it is told to who does not show the session's lease, where there is one. */
function wantLease(routes: FastifyInstance, checkLease: CheckLease | undefined): void {
  routes.addHook('onRequest', (request, reply, next) => {
    const refusal = refuseAtGateway(headOf(request)) ?? refuseStranger(request, checkLease)
    if (refusal) void answer(reply, refusal)
    else next()
  })
}

function addFiles(v1: FastifyInstance, { files, placeholders }: GatewayParts): void {
  v1.get('/placeholders', (_request, reply) => unkept(reply).send(placeholders()))
  v1.get('/files', (_request, reply) => unkept(reply).send({ files: files().map(({ name, path }) => ({ name, path })) }))
  v1.get<{ Params: { name: string } }>('/files/:name', (request, reply) => {
    const all = files()
    const file = all.find(({ name }) => name === request.params.name)
    if (file !== undefined) return unkept(reply).type('text/plain; charset=utf-8').send(file.content)
    return answer(reply, {
      code: 'not_found',
      message: `there is no file "${shown(request.params.name)}"`,
      hint: all.length === 0 ? 'no credential of the policy has a file' : `there is ${all.map(({ name }) => name).join(', ')}`,
    })
  })
}

function noSchemas(): never {
  throw new Error('routes of the gateway have no schemas')
}

/** A reload may change what is told. */
function unkept(reply: FastifyReply): FastifyReply {
  return reply.header('cache-control', 'no-store')
}

function refuseStranger({ raw }: FastifyRequest, checkLease: CheckLease | undefined): Refusal | undefined {
  if (checkLease === undefined) return undefined
  const [lease, ...more] = shownLeases(raw)
  if (more.length === 0 && lease !== undefined && checkLease(lease)) return undefined
  return {
    code: 'unauthenticated',
    message: 'the gateway wants the lease of the session',
    hint: 'send "Authorization: Bearer LEASE": the agent has it in SALLYPORT_LEASE',
  }
}

function shownLeases({ rawHeaders }: IncomingMessage): (string | undefined)[] {
  return valuesOf(rawHeaders, 'authorization').map((value) => /^bearer +(\S+)$/i.exec(value)?.[1])
}

/** Of what is not there, as the policy in force has it: for this HTTP method, or at all. */
function notFoundAnswer(
  methods: Methods,
  checkLease: CheckLease | undefined,
): (request: FastifyRequest, reply: FastifyReply) => FastifyReply {
  return (request, reply) => {
    const enabled = methods.enabled()
    const verbs = verbsAt(enabled, request.url)
    if (verbs.length > 0) {
      const message = `${request.method} ${shown(request.url)} is none of ${verbs.join(', ')}`
      return answer(reply.header('allow', verbs.join(', ')), { code: 'verb_not_allowed', message })
    }
    return answer(reply, {
      code: 'not_found',
      message: `nothing is at ${request.method} ${shown(request.url)}`,
      hint:
        refuseStranger(request, checkLease) === undefined
          ? `the gateway has ${pathsOf(enabled).join(', ')}, /mcp and /route/NAME/`
          : 'the gateway has GET /healthz, /ca.crt and /route/NAME/, and with the lease of the session what GET /openapi.json lists',
    })
  }
}

function answer(reply: FastifyReply, refusal: Refusal): FastifyReply {
  const { status, headers, body } = problem(refusal, { requestId: randomUUID() })
  // Of a text the framework would say its charset, which this type does not have (RFC 9457 §6.1).
  return reply.code(status).headers(headers).send(Buffer.from(body))
}

function headOf({ raw }: FastifyRequest): Parameters<typeof refuseAtGateway>[0] {
  return { method: raw.method ?? '', url: raw.url ?? '', rawHeaders: raw.rawHeaders }
}

const isRoute = ({ url }: IncomingMessage): boolean => url?.startsWith(ROUTE_PREFIX) === true

/** Takes requests as Node reads them, those to reverse routes apart. */
export function createGatewayServer(handler: (request: IncomingMessage, response: ServerResponse) => void, routes: RouteTakers): Server {
  const server = createServer({
    maxHeaderSize: LIMITS.headBytesMax,
    headersTimeout: LIMITS.headTimeoutMs,
    requestTimeout: 0, // uploads to a route take as long as they move
    keepAliveTimeout: LIMITS.keepAliveMs,
    connectionsCheckingInterval: 1_000,
    noDelay: true,
    requireHostHeader: false,
    shouldUpgradeCallback: (request) => isRoute(request) && request.headers.upgrade?.toLowerCase() === 'websocket',
  })
  /** Connections with an answer that is due, which a refusal would be taken for. */
  const due = new WeakMap<Socket, ServerResponse>()
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    due.set(request.socket, response)
    if (isRoute(request)) routes.onRouteRequest(request, response)
    else handler(request, response)
  }
  server.on('request', onRequest)
  server.on('checkContinue', onRequest)
  server.on('checkExpectation', onRequest)
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => routes.onRouteUpgrade(request, socket, head))
  server.on('clientError', (error: Error, socket: Socket) => {
    const isDue = due.get(socket)?.writableFinished === false
    if (socket.destroyed || isDue || codeOf(error) === 'ECONNRESET') socket.destroy()
    else writeRefusal(socket, refusalOfParser(error), { requestId: randomUUID() })
  })
  server.maxHeadersCount = 0
  server.maxConnections = LIMITS.gatewayConnectionsMax
  return server
}

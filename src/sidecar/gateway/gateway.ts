import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { fastify } from 'fastify'
import { LIMITS } from '../../kernel/limits.ts'
import { ROUTE_PREFIX } from '../egress/route.ts'

/** Takes requests to reverse routes: they are egress, and go the way of all egress. */
export type RouteTakers = {
  onRouteRequest(request: IncomingMessage, response: ServerResponse): void
  onRouteUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void
}

/**
 * The agent's own endpoint at the gate: whether it works, the public part of the session's certificate authority, and the
 * reverse routes below `/route/`.
 */
export async function createGateway(caPem: string, routes: RouteTakers): Promise<Server> {
  const app = fastify({
    logger: false,
    bodyLimit: 1024,
    serverFactory: (handler) => createGatewayServer(handler, routes),
  })
  // It is opened last: where it answers, the proxy listens.
  app.get('/healthz', (_request, reply) => reply.send({ status: 'ok' }))
  app.get('/ca.crt', (_request, reply) => reply.type('application/x-pem-file').send(caPem))
  app.setNotFoundHandler((request, reply) =>
    reply
      .code(404)
      .type('application/problem+json')
      .send({
        type: 'about:blank',
        title: 'Not Found',
        status: 404,
        detail: `nothing is at ${request.url.slice(0, 120)}`,
        hint: 'the gateway has /healthz, /ca.crt and /route/NAME/',
      }),
  )
  await app.ready()
  return app.server
}

const isRoute = ({ url }: IncomingMessage): boolean => url?.startsWith(ROUTE_PREFIX) === true

function createGatewayServer(handler: (request: IncomingMessage, response: ServerResponse) => void, routes: RouteTakers): Server {
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
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    if (isRoute(request)) routes.onRouteRequest(request, response)
    else handler(request, response)
  }
  server.on('request', onRequest)
  server.on('checkContinue', onRequest)
  server.on('checkExpectation', onRequest)
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => routes.onRouteUpgrade(request, socket, head))
  server.maxHeadersCount = 0
  server.maxConnections = LIMITS.gatewayConnectionsMax
  return server
}

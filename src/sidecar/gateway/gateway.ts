import { fastify, type FastifyInstance } from 'fastify'

/** What the gateway answers from. */
export type GatewayParts = { readonly caPem: string; readonly isReady: () => boolean }

/** The agent's own endpoint at the gate: whether it works, and the public part of the session's certificate authority. */
export function createGateway(parts: GatewayParts): FastifyInstance {
  const server = fastify({ logger: false, bodyLimit: 1024, requestTimeout: 10_000, forceCloseConnections: true })
  server.get('/healthz', (_request, reply) => {
    const ready = parts.isReady()
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'unavailable' })
  })
  server.get('/ca.crt', (_request, reply) => reply.type('application/x-pem-file').send(parts.caPem))
  server.setNotFoundHandler((request, reply) =>
    reply
      .code(404)
      .type('application/problem+json')
      .send({
        type: 'about:blank',
        title: 'Not Found',
        status: 404,
        detail: `nothing is at ${request.url.slice(0, 120)}`,
        hint: 'the gateway has /healthz and /ca.crt',
      }),
  )
  return server
}

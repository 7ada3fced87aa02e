import { fastify, type FastifyInstance } from 'fastify'

/** The agent's own endpoint at the gate: whether it works, and the public part of the session's certificate authority. */
export function createGateway(caPem: string): FastifyInstance {
  const server = fastify({ logger: false, bodyLimit: 1024, requestTimeout: 10_000, forceCloseConnections: true })
  // It is opened last: where it answers, the proxy listens.
  server.get('/healthz', (_request, reply) => reply.send({ status: 'ok' }))
  server.get('/ca.crt', (_request, reply) => reply.type('application/x-pem-file').send(caPem))
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

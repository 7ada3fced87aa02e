import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Refusal } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import { problem } from '../egress/refuse.ts'
import { createGatewayServer, type RouteTakers } from './gateway.ts'

/**
 * The gateway in a side network: reverse routes, the public part of the certificate authority, and nothing that is the agent's to ask.
 * Whoever is there speaks for nobody, whatever lease it found in the workspace. I60
 */
export function createSideGateway(caPem: string, routes: RouteTakers): Server {
  return createGatewayServer((request, response) => {
    const path = request.method === 'GET' ? request.url : undefined
    if (path === '/healthz') answer(response, 'application/json; charset=utf-8', '{"status":"ok"}')
    else if (path === '/ca.crt') answer(response, 'application/x-pem-file', caPem)
    else refuse(request, response)
  }, routes)
}

function answer(response: ServerResponse, type: string, body: string): void {
  response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body)
}

function refuse({ method, url }: IncomingMessage, response: ServerResponse): void {
  const refusal: Refusal = {
    code: 'not_found',
    message: `nothing is at ${method} ${shown(url ?? '')} in this network`,
    hint: 'in a network beside the agent’s the gateway has GET /healthz, /ca.crt and /route/NAME/',
  }
  const { status, headers, body } = problem(refusal, { requestId: randomUUID() })
  response.writeHead(status, headers).end(body)
}

import { chmod } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { fastify, type FastifyInstance, type FastifyReply } from 'fastify'
import { codeOf, ERRORS, SallyportError, type ErrorCode } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { onlyListed, unknownRoute } from './route-table.ts'

/** Takes a connection that asks for another protocol. False when the path is none of its. */
export type TakeUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => boolean

/**
 * The operator's API: JSON over HTTP on a unix socket in the home that only the operator can open, which is what proves who asks. No
 * agent's path leads there: no container mounts the home.
 */
export async function openOperatorApi(
  path: string,
  addRoutes: (app: FastifyInstance) => void,
  takeUpgrade: TakeUpgrade,
  log: Log,
): Promise<AsyncDisposable> {
  const app = fastify({
    logger: false,
    bodyLimit: LIMITS.operatorBodyBytesMax,
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: LIMITS.operatorPathPartCharsMax },
    frameworkErrors: (error, _request, reply) => void sendProblem(reply, unreadablePath(error), log),
  })
  answerWithProblems(app, log)
  onlyListed(app, 'socket')
  addRoutes(app)
  app.server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy())
    try {
      if (!takeUpgrade(request, socket, head)) throw new SallyportError('usage', `the daemon has no stream ${request.url ?? ''}`)
    } catch (error) {
      refuseUpgrade(socket, error)
    }
  })
  // Between bind and chmod the folder's own mode keeps others out.
  await app.listen({ path })
  await chmod(path, 0o600)
  return { [Symbol.asyncDispose]: () => app.close() }
}

/** Where a client of HTTP has to know more than that it failed. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  login_required: 401,
  origin_refused: 403,
  terminal_refused: 403,
  presence_required: 403,
  presence_failed: 403,
  question_not_found: 404,
  login_not_found: 404,
  audit_event_not_found: 404,
}

/** Whatever goes wrong is answered as a problem, what is not there too. */
export function answerWithProblems(app: FastifyInstance, log: Log): void {
  app.setErrorHandler((error, _request, reply) => sendProblem(reply, error, log))
  app.setNotFoundHandler((request, reply) => sendProblem(reply, unknownRoute(request), log))
}

/** RFC 9457, with the code and the hint of the error. A fault of ours says no more than that. */
export function problemOf(error: unknown): {
  readonly status: number
  readonly code: string
  readonly detail: string
  readonly hint?: string
} {
  if (error instanceof SallyportError) {
    const entry = ERRORS[error.code]
    const status = STATUSES[error.code] ?? (entry.to === 'agent' ? entry.status : entry.exit === 2 ? 400 : 409)
    return { status, code: error.code, detail: error.message, ...(error.hint !== undefined && { hint: error.hint }) }
  }
  const status = typeof error === 'object' && error !== null && 'statusCode' in error ? Number(error.statusCode) : 500
  if (status < 500) return { status, code: 'usage', detail: error instanceof Error ? error.message : 'the request cannot be read' }
  return { status: 500, code: 'internal', detail: `a fault of the daemon itself (${codeOf(error)})`, hint: 'its log has more' }
}

/** Of a path that no route can be found for. Nothing of it is repeated: it may be from a stranger. */
export function unreadablePath(cause: unknown): SallyportError {
  return new SallyportError('usage', 'the path of the request cannot be read', { cause })
}

export function sendProblem(reply: FastifyReply, error: unknown, log: Log): FastifyReply {
  const problem = problemOf(error)
  if (problem.code === 'internal') log.error({ err: error }, 'a call of the operator failed')
  return reply.status(problem.status).type('application/problem+json').send(problem)
}

/** Answers a connection that asked for a stream it cannot have. */
export function refuseUpgrade(socket: Duplex, error: unknown, headers: Readonly<Record<string, string>> = {}): void {
  const problem = problemOf(error)
  const body = JSON.stringify(problem)
  const all = {
    ...headers,
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${problem.status} Refused\r\n${head.join('')}\r\n${body}`)
}

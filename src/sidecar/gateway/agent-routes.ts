import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { AgentMethod, OutputView, RequestView } from '../../wire/agent-requests.ts'
import { problem, refusalOf } from '../egress/refuse.ts'
import type { CallController } from './methods.ts'

/**
 * What an agent asks of the host, as routes: each is one method of the controller's table, which looks at all of it. Nothing is decided
 * or kept here.
 * @param leaseOf the lease that a request showed; it was looked at before
 */
export function addAgentRoutes(v1: FastifyInstance, call: CallController, leaseOf: (request: FastifyRequest) => string): void {
  let underWay = 0
  /** I53: one agent's calls that wait leave room for the rest of the channel. */
  const ask = async (request: FastifyRequest, method: AgentMethod, params: unknown): Promise<unknown> => {
    if (underWay >= LIMITS.agentCallsMax)
      throw new SallyportError('overloaded', `${underWay} calls wait already`, { hint: 'wait for some of them' })
    underWay += 1
    try {
      return await call({ lease: leaseOf(request), method, params })
    } finally {
      underWay -= 1
    }
  }
  const bounded = { bodyLimit: LIMITS.agentBodyBytesMax }
  v1.register((routes, _options, done) => {
    // A page could send it from elsewhere without asking.
    routes.removeContentTypeParser('text/plain')
    routes.setErrorHandler((error, _request, reply) => answerFault(reply, error))

    routes.post('/host/run', bounded, async (request, reply) => unkept(reply.code(202)).send(await ask(request, 'host.run', request.body)))
    routes.post('/host/run_capability', bounded, async (request, reply) =>
      unkept(reply).send(await ask(request, 'host.run_capability', request.body)),
    )
    routes.get<{ Params: { id: string }; Querystring: Record<string, unknown> }>('/requests/:id', async (request, reply) =>
      unkept(reply).send(await ask(request, 'request.await', { ...numbered(request.query, 'wait'), id: request.params.id })),
    )
    routes.delete<{ Params: { id: string } }>('/requests/:id', async (request, reply) =>
      unkept(reply).send(await ask(request, 'request.cancel', { id: request.params.id })),
    )
    routes.get<{ Params: { id: string } }>('/requests/:id/output', async (request, reply) => {
      const { id } = request.params
      const next = (after: number): Promise<OutputView> => ask(request, 'request.output', { id, after }) as Promise<OutputView>
      // What is wrong with it is said before the stream begins.
      const first = await next(0)
      reply.hijack()
      void streamOutput(reply.raw, first, next, () => ask(request, 'request.await', { id, wait: 0 }) as Promise<RequestView>)
    })
    routes.get<{ Querystring: Record<string, unknown> }>('/policy/explain', async (request, reply) =>
      unkept(reply).send(await ask(request, 'policy.explain', request.query)),
    )
    for (const kind of ['policy', 'tool', 'skill', 'config_change'] as const)
      routes.post(`/propose/${kind}`, bounded, async (request, reply) =>
        unkept(reply.code(202)).send(await ask(request, `propose.${kind}`, request.body)),
      )
    done()
  })
}

/** Server-sent events: `output` for each piece, `end` with the request as it ended. A reader that stops holds nothing up but itself. */
async function streamOutput(
  raw: ServerResponse,
  first: OutputView,
  next: (after: number) => Promise<OutputView>,
  ended: () => Promise<RequestView>,
): Promise<void> {
  const gone = new AbortController()
  raw.on('close', () => gone.abort())
  raw.on('error', () => gone.abort())
  const say = async (event: string, data: unknown): Promise<void> => {
    if (!raw.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)) await once(raw, 'drain', { signal: gone.signal })
  }
  raw.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  try {
    for (let view = first; ; view = await next(view.next)) {
      if (view.lost) await say('lost', {})
      for (const piece of view.pieces) await say('output', piece)
      if (view.pieces.length === 0 && !view.isEnded) raw.write(': waiting\n\n')
      if (view.isEnded) break
      gone.signal.throwIfAborted()
    }
    await say('end', await ended())
  } catch (error) {
    if (!gone.signal.aborted) {
      const { code, message } = refusalOf(error)
      raw.write(`event: error\ndata: ${JSON.stringify({ code, message })}\n\n`)
    }
  } finally {
    raw.end()
  }
}

function unkept(reply: FastifyReply): FastifyReply {
  return reply.header('cache-control', 'no-store')
}

function answerFault(reply: FastifyReply, error: unknown): FastifyReply {
  const { status, headers, body } = problem(asRefusal(error), { requestId: randomUUID() })
  return reply.code(status).headers(headers).send(Buffer.from(body))
}

/** A body that is no JSON, too large, or of another type is the agent's own fault: the framework says so by its status. */
function asRefusal(error: unknown): ReturnType<typeof refusalOf> {
  if (error instanceof SallyportError) return refusalOf(error)
  const { statusCode } = error as { statusCode?: number }
  if (statusCode === undefined || statusCode < 400 || statusCode > 499) return refusalOf(error)
  return {
    code: 'request_invalid',
    message: statusCode === 413 ? `the body has more than ${LIMITS.agentBodyBytesMax} bytes` : 'the body is not a JSON object',
    hint: 'send JSON with content-type application/json',
  }
}

/** A query has texts only. What is no number stays what it is, and is refused by the table. */
function numbered(query: Readonly<Record<string, unknown>>, name: string): Record<string, unknown> {
  const text = query[name]
  return typeof text === 'string' && /^\d{1,15}(\.\d{1,6})?$/.test(text) ? { ...query, [name]: Number(text) } : { ...query }
}

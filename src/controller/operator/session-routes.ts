import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { Readable } from 'node:stream'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import { UpRequest } from '../../wire/operator.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { createRedaction, openOutput, redactedChunks } from '../terminal/redacted.ts'
import { inLines } from './line-answers.ts'

type ById = { Params: { id: string } }

const LogQuery = z.strictObject({
  follow: z.stringbool().default(false),
  /** A terminal shows them: filtered like what it shows of a running program. */
  terminal: z.stringbool().default(false),
  tail: z.coerce.number().int().min(0).max(LIMITS.logTailLinesMax).optional(),
})

/**
 * What the operator does with sessions. What takes time answers in lines of JSON: `{step}` and `{pull}` as it goes, then `{session}` or `{problem}`. A
 * client that leaves in the middle of `up` has it undone.
 */
export function addSessionRoutes(app: FastifyInstance, sessions: Sessions, secretsOf: (session: string) => readonly Secret[]): void {
  app.get('/v1/sessions', () => sessions.list())
  app.get<ById>('/v1/sessions/:id', ({ params }) => sessions.inspect(params.id))
  app.post('/v1/sessions', (request, reply) => {
    const wanted = read(UpRequest, request.body)
    return inLines(reply, async (say, signal) => ({
      session: await sessions.up(
        wanted,
        signal,
        (step) => void say({ step }),
        (pull) => void say({ pull }),
      ),
    }))
  })
  app.post<ById>('/v1/sessions/:id/down', async ({ params }) => {
    // What was planted in the workspace meanwhile.
    return { planted: await sessions.down(params.id) }
  })
  app.post<ById>('/v1/sessions/:id/reset', ({ params }) => sessions.reset(params.id))
  app.get<ById>('/v1/sessions/:id/sandbox', ({ params }) => sessions.sandbox(params.id))
  app.get<ById>('/v1/sessions/:id/wait', ({ params }, reply) =>
    inLines(reply, async (_say, signal) => ({ code: await sessions.wait(params.id, signal) })),
  )
  app.get<ById>('/v1/sessions/:id/logs', async ({ params, query }, reply) => {
    const { follow, tail, terminal } = read(LogQuery, query)
    const { id } = await sessions.inspect(params.id)
    const gone = new AbortController()
    reply.raw.on('close', () => gone.abort())
    const lines = sessions.logs(id, { follow, ...(tail !== undefined && { tail }) }, gone.signal)
    const output = openOutput(
      createRedaction(() => secretsOf(id)),
      terminal ? 'lines' : 'pipe',
    )
    return reply.type('application/octet-stream').send(Readable.from(redactedChunks(lines, output)))
  })
  app.get('/v1/events', (_request, reply) =>
    inLines(reply, async (say, signal) => {
      for await (const event of sessions.events(signal)) await say({ event })
      return {}
    }),
  )
}

/** @throws usage with the place of the first fault */
export function read<T>(schema: z.ZodType<T>, data: unknown): T {
  const parsed = schema.safeParse(data)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new SallyportError('usage', `the request cannot be read: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim())
}

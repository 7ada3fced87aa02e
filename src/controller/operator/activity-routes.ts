import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { ACTIVITY_DECISIONS, ACTIVITY_LANES, ACTIVITY_PLANES, type ActivityDetail } from '../../wire/activity.ts'
import type { Activity } from '../activity/activity.ts'
import { eventsAt } from '../activity/events.ts'
import { remedyOf, traceOf, type PolicyOf } from '../activity/trace.ts'
import { read } from './session-routes.ts'

const Text = z.string().min(1).max(LIMITS.activityTextCharsMax)
const Plane = z.enum(ACTIVITY_PLANES).optional()
const Query = z.strictObject({
  session: Text.optional(),
  host: Text.optional(),
  decision: z.enum(ACTIVITY_DECISIONS).optional(),
  credential: Text.optional(),
  lane: z.enum(ACTIVITY_LANES).optional(),
  plane: Plane,
  before: z.coerce.number().int().min(1).optional(),
  limit: z.coerce.number().int().min(1).max(LIMITS.activityPageMax).default(LIMITS.activityPageLines),
})
const SeriesQuery = z.strictObject({
  session: Text.optional(),
  plane: Plane,
  minutes: z.coerce
    .number()
    .int()
    .min(1)
    .max(LIMITS.activityCoarseKeptMs / 60_000)
    .default(60),
})

type ByRequest = { Params: { session: string; request: string } }

/** What sessions do in the network. */
export function addActivityRoutes(app: FastifyInstance, home: string, activity: Activity, policyOf: PolicyOf): void {
  app.get('/v1/activity', ({ query }) => {
    const { before, limit, ...filter } = read(Query, query)
    return activity.list(filter, before, limit)
  })
  app.get('/v1/activity/series', ({ query }) => activity.series(read(SeriesQuery, query)))
  app.get<ByRequest>('/v1/activity/:session/:request', async ({ params }): Promise<ActivityDetail> => {
    const held = activity.find(params.session, params.request)
    if (held === undefined)
      throw new SallyportError('audit_event_not_found', `there is no request ${params.request} of session ${params.session} in the list`, {
        hint: `the list has the last ${LIMITS.activityLinesMax}; the audit has all`,
      })
    const { line, places, policy } = held
    const { events, problem } = await eventsAt(join(home, 'audit', 'sessions'), places)
    const traced = traceOf(line, policy, policyOf)
    const remedy = remedyOf(line, traced)
    return {
      line,
      events,
      ...(problem !== undefined && { eventsProblem: problem }),
      ...('trace' in traced ? { trace: traced.trace, layers: traced.layers } : { traceProblem: traced.problem, layers: [] }),
      ...(remedy && { remedy }),
    }
  })
}

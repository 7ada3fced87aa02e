import type { FastifyInstance } from 'fastify'
import { UpRequest } from '../../wire/operator.ts'
import type { SessionStats } from '../../wire/session-facts.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { startChoices } from '../start-choices.ts'
import type { StateFile } from '../state.ts'
import { read } from './session-routes.ts'

type Parts = {
  /** `$SALLYPORT_HOME`. */
  readonly home: string
  readonly sessions: Sessions
  readonly state: StateFile
}

/** What the page shows of sessions, and of those that are not there yet. */
export function addSessionPageRoutes(
  app: FastifyInstance,
  { home, sessions, state }: Parts,
  requestsPerMinute: (session: string) => number,
): void {
  app.post('/v1/sessions/preview', ({ body }) => sessions.preview(read(UpRequest, body)))
  // Asked for while somebody looks: what is told without being asked would cost the engine a look at every session, all day.
  app.get('/v1/stats', async (): Promise<SessionStats> => {
    const usage = await sessions.usage()
    return Object.fromEntries(Object.entries(usage).map(([id, figures]) => [id, { ...figures, requestsPerMinute: requestsPerMinute(id) }]))
  })
  app.get('/v1/start-choices', () => startChoices(home, state))
}

import type { FastifyInstance } from 'fastify'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { LoginRequest } from '../../wire/operator.ts'
import type { Logins } from './logins.ts'
import { read } from './session-routes.ts'

type ById = { Params: { id: string } }

/**
 * How a page is let in, on the socket: a link with a ticket behind the `#`, which browsers send to nobody.
 * @param url of the page, absent when the daemon has none
 */
export function addOpenRoute(app: FastifyInstance, logins: Logins, url: string | undefined): void {
  app.post('/v1/open', () => {
    if (url === undefined) throw new SallyportError('page_off', 'this daemon has no page', { hint: 'start it without --no-web' })
    return { url: `${url}/#ticket=${logins.ticket()}`, expiresInMs: LIMITS.openTicketMs }
  })
  addLoginsRoutes(app, logins)
}

/** The same on the page's listener: the ticket becomes a token that the tab keeps and sends as a header. Never a cookie: those go to any port. */
export function addLoginRoute(app: FastifyInstance, logins: Logins): void {
  app.post('/v1/login', (request) => {
    const { ticket } = read(LoginRequest, request.body)
    const { id, token } = logins.redeem(ticket, request.headers['user-agent'] ?? '')
    return { id, token, idleMs: LIMITS.loginIdleMs, lifeMs: LIMITS.loginLifeMs }
  })
  addLoginsRoutes(app, logins)
}

function addLoginsRoutes(app: FastifyInstance, logins: Logins): void {
  app.get('/v1/logins', () => logins.list())
  app.delete<ById>('/v1/logins/:id', ({ params }) => {
    if (!logins.end(params.id))
      throw new SallyportError('login_not_found', `there is no login "${params.id}"`, { hint: 'sallyport open --list lists them' })
    return {}
  })
}

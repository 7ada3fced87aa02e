import type { FastifyInstance, FastifyRequest } from 'fastify'
import { SallyportError } from '../../kernel/errors.ts'

/** Where the operator's API is served: the socket in the home, for the commands, and the loopback listener, for the page. */
export type Surface = 'socket' | 'web'

/**
 * What a call has to prove besides that it comes from the operator (the socket's owner, or a login): nothing more, or the tier that the
 * question asks for. Asked for before its handler is reached: the password or a passkey, always (`proof`) or where the operator has one
 * (`act`); for what would lower what the operator has, a passkey where there is one, else the password where that is (`strongest`). A
 * first password is set with a passkey where there is one; with a password before, the handler asks for that (`password`). A session that
 * is started on the page with files for its policy is an `act` (`session`): they may be anybody's.
 */
export type RoutePresence = 'T0' | 'question' | 'password' | 'act' | 'session' | 'strongest' | 'proof'

type Row = {
  readonly presence: RoutePresence
  readonly on: readonly Surface[]
  /** Answers without a login: it is where one is got. */
  readonly isOpen?: true
}

const BOTH = ['socket', 'web'] as const

/** Every route of the operator's API. One that is not here cannot be registered, so that none is served by oversight. */
export const ROUTES: Readonly<Record<string, Row>> = {
  'GET /v1/status': { presence: 'T0', on: BOTH },
  'GET /v1/events': { presence: 'T0', on: BOTH },
  'GET /v1/feed': { presence: 'T0', on: ['web'] },
  'GET /v1/activity': { presence: 'T0', on: ['web'] },
  'GET /v1/activity/series': { presence: 'T0', on: ['web'] },
  'GET /v1/activity/:session/:request': { presence: 'T0', on: ['web'] },
  'GET /v1/sessions': { presence: 'T0', on: BOTH },
  'POST /v1/sessions': { presence: 'session', on: BOTH },
  'GET /v1/sessions/:id': { presence: 'T0', on: BOTH },
  'GET /v1/sessions/:id/wait': { presence: 'T0', on: BOTH },
  'GET /v1/sessions/:id/logs': { presence: 'T0', on: BOTH },
  'POST /v1/sessions/:id/down': { presence: 'T0', on: BOTH },
  'POST /v1/sessions/:id/reset': { presence: 'T0', on: BOTH },
  'POST /v1/sessions/:id/selftest': { presence: 'T0', on: BOTH },
  // Starts nothing.
  'POST /v1/sessions/preview': { presence: 'T0', on: ['web'] },
  'GET /v1/sessions/:id/sandbox': { presence: 'T0', on: BOTH },
  'GET /v1/stats': { presence: 'T0', on: ['web'] },
  'GET /v1/start-choices': { presence: 'T0', on: ['web'] },
  // One for a WebSocket, which sends no header: `GET /v1/terminal` takes it as a subprotocol.
  'POST /v1/sessions/:id/terminal': { presence: 'T0', on: ['web'] },
  'GET /v1/terminal': { presence: 'T0', on: ['web'] },
  'POST /v1/sessions/:id/mcp/:name/test': { presence: 'T0', on: BOTH },
  'GET /v1/mcp/servers': { presence: 'T0', on: ['web'] },
  'GET /v1/mcp/file': { presence: 'T0', on: ['web'] },
  // Gives out what was hidden as it looks like a secret.
  'POST /v1/mcp/file/reveal': { presence: 'act', on: ['web'] },
  'POST /v1/mcp/file/check': { presence: 'T0', on: ['web'] },
  'PUT /v1/mcp/file': { presence: 'act', on: ['web'] },
  'POST /v1/mcp/file/edits': { presence: 'act', on: ['web'] },
  'POST /v1/mcp/check': { presence: 'T0', on: ['socket'] },
  // Gives values out: to whoever has the socket, which is the operator.
  'POST /v1/mcp/resolve': { presence: 'T0', on: ['socket'] },
  // What commands on this machine work with.
  'GET /v1/workspaces': { presence: 'T0', on: ['socket'] },
  'POST /v1/projects': { presence: 'T0', on: ['socket'] },
  'GET /v1/leases': { presence: 'T0', on: BOTH },
  'POST /v1/leases/:id/revoke': { presence: 'T0', on: BOTH },
  'POST /v1/leases/rotate-key': { presence: 'T0', on: BOTH },
  'GET /v1/audit': { presence: 'T0', on: ['web'] },
  'GET /v1/audit/story/:id': { presence: 'T0', on: ['web'] },
  'GET /v1/audit/export': { presence: 'T0', on: ['web'] },
  'POST /v1/audit/verify': { presence: 'T0', on: ['web'] },
  'POST /v1/audit/changes': { presence: 'T0', on: ['socket'] },
  'POST /v1/secrets/apply': { presence: 'T0', on: BOTH },
  // The commands open the vault themselves.
  'GET /v1/secrets': { presence: 'T0', on: ['web'] },
  'PUT /v1/secrets/:key': { presence: 'act', on: ['web'] },
  'PATCH /v1/secrets/:key': { presence: 'act', on: ['web'] },
  'DELETE /v1/secrets/:key': { presence: 'act', on: ['web'] },
  // Gives a value out.
  'POST /v1/secrets/:key/copy': { presence: 'proof', on: ['web'] },
  'GET /v1/secrets/:key/mappings': { presence: 'T0', on: ['web'] },
  'GET /v1/secrets/:key/changes': { presence: 'T0', on: ['web'] },
  'GET /v1/secret-presets': { presence: 'T0', on: ['web'] },
  'POST /v1/vault/unlock': { presence: 'act', on: ['web'] },
  'GET /v1/providers': { presence: 'T0', on: ['web'] },
  'POST /v1/providers/:name/test': { presence: 'act', on: ['web'] },
  'GET /v1/questions': { presence: 'T0', on: BOTH },
  'GET /v1/questions/events': { presence: 'T0', on: BOTH },
  'GET /v1/questions/:id': { presence: 'T0', on: BOTH },
  'GET /v1/questions/cards': { presence: 'T0', on: ['web'] },
  'GET /v1/questions/:id/presented': { presence: 'T0', on: ['web'] },
  'POST /v1/questions/:id/claim': { presence: 'T0', on: BOTH },
  'DELETE /v1/questions/:id/claim': { presence: 'T0', on: BOTH },
  'POST /v1/questions/:id/answer': { presence: 'question', on: BOTH },
  'POST /v1/questions/:id/challenge': { presence: 'T0', on: ['web'] },
  'POST /v1/presence/challenge': { presence: 'T0', on: ['web'] },
  'GET /v1/policies': { presence: 'T0', on: ['web'] },
  'GET /v1/policies/presets/:kind/:name': { presence: 'T0', on: ['web'] },
  'POST /v1/policies/check': { presence: 'T0', on: ['web'] },
  'POST /v1/policies/changes/preview': { presence: 'T0', on: ['web'] },
  'POST /v1/policies/changes': { presence: 'act', on: ['web'] },
  'GET /v1/policies/effective': { presence: 'T0', on: ['web'] },
  'POST /v1/policies/explain': { presence: 'T0', on: ['web'] },
  'GET /v1/policies/schema': { presence: 'T0', on: ['web'] },
  'GET /v1/policies/history': { presence: 'T0', on: ['web'] },
  'GET /v1/policies/history/:id': { presence: 'T0', on: ['web'] },
  'POST /v1/policies/history/:id/revert': { presence: 'act', on: ['web'] },
  // Narrows what is allowed: as quick as a denial.
  'POST /v1/policies/remembered/:id/forget': { presence: 'T0', on: ['web'] },
  'POST /v1/policies/trust': { presence: 'act', on: ['web'] },
  'POST /v1/policies/trust/withdraw': { presence: 'T0', on: ['web'] },
  'GET /v1/proposals': { presence: 'T0', on: BOTH },
  'POST /v1/proposals/:id/revert': { presence: 'proof', on: BOTH },
  // What the commands doctor and init do by themselves.
  'GET /v1/doctor': { presence: 'T0', on: ['web'] },
  'GET /v1/start': { presence: 'T0', on: ['web'] },
  'POST /v1/start/plan': { presence: 'T0', on: ['web'] },
  'POST /v1/start/policy': { presence: 'act', on: ['web'] },
  'GET /v1/approver': { presence: 'T0', on: BOTH },
  'POST /v1/approver/password': { presence: 'password', on: BOTH },
  'GET /v1/passkeys': { presence: 'T0', on: ['web'] },
  'POST /v1/passkeys/challenge': { presence: 'T0', on: ['web'] },
  'POST /v1/passkeys': { presence: 'strongest', on: ['web'] },
  'PATCH /v1/passkeys/:id': { presence: 'act', on: ['web'] },
  'DELETE /v1/passkeys/:id': { presence: 'strongest', on: ['web'] },
  // A login makes no other: who opens the page is at the socket.
  'POST /v1/open': { presence: 'T0', on: ['socket'] },
  'POST /v1/login': { presence: 'T0', on: ['web'], isOpen: true },
  'GET /v1/login/ways': { presence: 'T0', on: ['web'], isOpen: true },
  'POST /v1/login/password': { presence: 'T0', on: ['web'], isOpen: true },
  'POST /v1/login/passkey/challenge': { presence: 'T0', on: ['web'], isOpen: true },
  'POST /v1/login/passkey': { presence: 'T0', on: ['web'], isOpen: true },
  'GET /v1/logins': { presence: 'T0', on: BOTH },
  'DELETE /v1/logins/:id': { presence: 'T0', on: BOTH },
}

/** Refuses routes that the table does not have when they are registered, and calls of those that are not this surface's. */
export function onlyListed(app: FastifyInstance, surface: Surface, isFile: (path: string) => boolean = () => false): void {
  app.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat())
      if (!Object.hasOwn(ROUTES, `${one} ${url}`) && !(one === 'GET' && isFile(url)))
        throw new SallyportError('internal', `${one} ${url} is not in the table of routes`)
  })
  app.addHook('onRequest', async (request) => {
    const row = rowOf(request)
    if (row !== undefined && !row.on.includes(surface)) throw unknownRoute(request)
  })
}

/** The row of what a request asks for: none for what is no route. */
export function rowOf(request: FastifyRequest): Row | undefined {
  const key = `${request.method} ${request.routeOptions.url ?? ''}`
  return Object.hasOwn(ROUTES, key) ? ROUTES[key] : undefined
}

/** The row of a call that is not made yet, by the path that it will ask for. */
export function rowAt(method: string, path: string): Row | undefined {
  const parts = (path.split('?')[0] ?? '').split('/')
  const isMeant = (key: string): boolean => {
    const [verb, pattern = ''] = key.split(' ')
    const wanted = pattern.split('/')
    return (
      verb === method &&
      wanted.length === parts.length &&
      wanted.every((one, at) => one === parts[at] || (one.startsWith(':') && parts[at] !== ''))
    )
  }
  // One that is written out is meant before one with a place to fill.
  const [found] = Object.keys(ROUTES)
    .filter(isMeant)
    .toSorted((a, b) => a.split(':').length - b.split(':').length)
  return found === undefined ? undefined : ROUTES[found]
}

export function unknownRoute({ method, url }: { readonly method: string; readonly url: string }): SallyportError {
  // A query may have a secret in it that somebody put there by mistake.
  return new SallyportError('usage', `the daemon has no ${method} ${url.split('?')[0] ?? ''}`)
}

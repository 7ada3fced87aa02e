import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { codeOf } from '../../kernel/errors.ts'
import type { Log } from '../../kernel/log.ts'
import type { Approver } from '../approver.ts'
import type { Host } from '../controller.ts'
import type { PolicyFiles } from '../policy-files/policy-files.ts'
import { createVerification } from '../record/verification.ts'
import { policyInUse } from '../session-facts.ts'
import { requirePresence } from './acts.ts'
import { addActivityRoutes } from './activity-routes.ts'
import { addAuditRoutes } from './audit-routes.ts'
import { addFeedRoute, tellQuestions, tellSessions } from './feed-routes.ts'
import { addInboxRoutes } from './inbox-routes.ts'
import { addOpenRoute } from './login-routes.ts'
import { addLoginWays } from './login-ways.ts'
import { Logins } from './logins.ts'
import { addOperatorRoutes } from './operator-routes.ts'
import { openOperatorApi } from './operator.ts'
import { addPasskeyRoutes } from './passkey-routes.ts'
import { readPage } from './page-files.ts'
import { openPageTerminals } from './page-terminals.ts'
import { addPolicyRoutes } from './policy-routes.ts'
import { addProposalRoutes } from './proposal-routes.ts'
import { addQuestionRoutes } from './question-routes.ts'
import { addSessionPageRoutes } from './session-page-routes.ts'
import type { Surface } from './route-table.ts'
import { addStartRoutes, type StartParts } from './start-routes.ts'
import { addSecretRoutes, type SecretRoutesParts } from './secret-routes.ts'
import { takeStreams } from './streams.ts'
import { openWeb, type Web, type WebOptions } from './web.ts'

export type SurfacesParts = Host &
  Pick<StartParts, 'place'> &
  Pick<Approver, 'approvals' | 'presence' | 'proposals'> & {
    readonly operatorSecrets: SecretRoutesParts
    /** The built page. */
    readonly pageFolder: string
    readonly policies: PolicyFiles
    readonly signal: AbortSignal
    readonly log: Log
  }

export type Surfaces = AsyncDisposable & { readonly socket: string; readonly web: Web | undefined }

/**
 * Where the operator is answered: the socket for the commands, and the loopback listener for the page, with one table of routes.
 * @param page its port, 0 for any; without one, or where the default one is taken, there is no page
 * @throws listen_failed
 */
export async function openSurfaces(
  socket: string,
  page: { readonly port: number; readonly isDefault: boolean } | undefined,
  parts: SurfacesParts,
): Promise<Surfaces> {
  await using open = new AsyncDisposableStack()
  const { home, approvals, presence, sessions, secrets, system, signal, log, pageFolder } = parts
  const logins = open.use(new Logins(system))
  const verification = open.use(createVerification(join(home, 'audit'), system, log))
  const addRoutes = (app: FastifyInstance, surface: Surface): void => {
    requirePresence(app, presence, surface)
    addOperatorRoutes(app, parts, signal, surface)
    addQuestionRoutes(app, parts, surface)
    addSecretRoutes(app, parts.operatorSecrets)
    addProposalRoutes(app, parts)
  }
  const secretsOf = (session: string) => secrets.shown(session)
  const terminals = openPageTerminals({ sessions, secretsOf, system, log })
  const addToPage = (app: FastifyInstance): void => {
    addRoutes(app, 'web')
    addSessionPageRoutes(app, parts, (session) => parts.activity.requestsPerMinute(session))
    terminals.addRoutes(app)
    addStartRoutes(app, parts)
    addActivityRoutes(app, home, parts.activity, (session) => policyInUse(session, home, parts.state))
    addInboxRoutes(app, approvals)
    addPasskeyRoutes(app, parts)
    addLoginWays(app, { ...parts, logins })
    addPolicyRoutes(app, parts.policies)
    addAuditRoutes(app, join(home, 'audit'), verification)
    addFeedRoute(app, {
      audit: (until) => verification.tell(until),
      questions: (until) => tellQuestions(approvals, until),
      sessions: (until) => tellSessions(sessions, until),
      activity: (until) => parts.activity.listen(until),
    })
  }
  const files = readPage(pageFolder)
  const web =
    page && (await openPage(page.isDefault, { port: page.port, logins, addRoutes: addToPage, takeTerminal: terminals.take, files, log }))
  if (web) open.use(web)
  // Before the listener: that waits for its connections.
  open.use(terminals)
  const addToSocket = (app: FastifyInstance): void => {
    addRoutes(app, 'socket')
    addOpenRoute(app, logins, web?.url)
  }
  const streams = takeStreams(sessions, secretsOf, signal, log)
  open.use(await openOperatorApi(socket, addToSocket, streams, log))
  const running = open.move()
  return { socket, web, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/** @throws listen_failed for a port that somebody chose */
async function openPage(isDefault: boolean, options: WebOptions): Promise<Web | undefined> {
  try {
    return await openWeb(options)
  } catch (error) {
    if (!isDefault || codeOf(error) !== 'listen_failed') throw error
    options.log.warn({ port: options.port }, 'the page has no port: another daemon has it; choose one with --web, or none with --no-web')
    return undefined
  }
}

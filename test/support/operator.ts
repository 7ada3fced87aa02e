import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import type { AuditEvent } from '../../src/audit/audit.ts'
import { openApprovals, type Approvals } from '../../src/controller/approvals/approvals.ts'
import { requirePresence } from '../../src/controller/operator/acts.ts'
import { addFeedRoute, tellQuestions, type FeedSources } from '../../src/controller/operator/feed-routes.ts'
import { addInboxRoutes } from '../../src/controller/operator/inbox-routes.ts'
import { addOpenRoute } from '../../src/controller/operator/login-routes.ts'
import { addLoginWays } from '../../src/controller/operator/login-ways.ts'
import { addPasskeyRoutes } from '../../src/controller/operator/passkey-routes.ts'
import { Logins } from '../../src/controller/operator/logins.ts'
import { openOperatorApi } from '../../src/controller/operator/operator.ts'
import { addQuestionRoutes } from '../../src/controller/operator/question-routes.ts'
import type { Surface } from '../../src/controller/operator/route-table.ts'
import { addSessionRoutes } from '../../src/controller/operator/session-routes.ts'
import type { PageFile } from '../../src/controller/operator/page-files.ts'
import { openWeb, type Web } from '../../src/controller/operator/web.ts'
import { rememberComplaint } from '../../src/controller/requests/remember.ts'
import { openPresence, type Presence, type SystemPrompt } from '../../src/controller/presence/presence.ts'
import type { Sessions } from '../../src/controller/sessions/sessions.ts'
import { createLog } from '../../src/kernel/log.ts'
import { system as realSystem, type System } from '../../src/kernel/system.ts'
import type { Outcome, Question, QuestionWish } from '../../src/wire/question.ts'
import { wishOf } from './approvals.ts'
import { cleanEnvironment } from './command.ts'
import { noPrompt } from './presence.ts'

export type Operator = AsyncDisposable & {
  /** For commands: their daemon is this one. */
  readonly env: Record<string, string>
  readonly home: string
  readonly socket: string
  readonly web: Web
  readonly approvals: Approvals
  readonly presence: Presence
  readonly logins: Logins
  readonly audited: AuditEvent[]
  /** It has none: what a test wants of them it puts there. */
  readonly sessions: Sessions
  /** Puts a question; somebody watches, unless told otherwise. */
  ask(wish?: QuestionWish): Promise<{ readonly question: Question; readonly outcome: Promise<Outcome> }>
  /** A page that is logged in. */
  login(): string
}

const log = createLog('silent')
const FILES: ReadonlyMap<string, PageFile> = new Map([
  [
    '/',
    { type: 'text/html; charset=utf-8', bodies: { identity: Buffer.from('<!doctype html>the page') }, isImmutable: false, etag: '"1"' },
  ],
])

export type OperatorOptions = {
  readonly system?: System
  readonly systemPrompt?: SystemPrompt
  readonly isWatched?: boolean
  /** Of the page: without them it is a line of text. */
  readonly files?: ReadonlyMap<string, PageFile>
  readonly port?: number
}

/** The operator's API of a daemon, on its socket and on loopback, with real questions and real presence. Sessions it has none. */
export async function openOperator(options: OperatorOptions = {}): Promise<Operator> {
  const { system = realSystem, systemPrompt = noPrompt, isWatched = true, files = FILES, port = 0 } = options
  await using parts = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-operator-'))
  parts.defer(() => rm(folder, { recursive: true, force: true }))
  const env = cleanEnvironment(folder)
  const home = env['SALLYPORT_HOME'] as string
  await mkdir(home, { mode: 0o700 })
  const audited: AuditEvent[] = []
  const approvals = parts.use(
    await openApprovals({
      file: join(home, 'approvals.db'),
      audit: async (event) => void audited.push(event),
      system,
      log,
      remember: {
        folder: join(home, 'policies', 'remembered'),
        complaint: rememberComplaint,
        changed: () => undefined,
      },
    }),
  )
  const watching = new AbortController()
  parts.defer(() => watching.abort())
  if (isWatched) approvals.watch('terminal', watching.signal)
  const presence = await openPresence({ home, system, log, audit: async (event) => void audited.push(event), systemPrompt })
  const logins = parts.use(new Logins(system))
  const sessions = { list: () => [] } as unknown as Sessions
  const audit = { append: async (event: AuditEvent) => void audited.push(event) }
  const addRoutes = (app: FastifyInstance, surface: Surface): void => {
    requirePresence(app, presence, surface)
    addSessionRoutes(app, sessions, () => [])
    addQuestionRoutes(app, { approvals, presence, audit }, surface)
  }
  const addToPage = (app: FastifyInstance): void => {
    addRoutes(app, 'web')
    addInboxRoutes(app, approvals)
    addPasskeyRoutes(app, { approvals, presence, audit })
    addLoginWays(app, { logins, presence, audit, log })
    addFeedRoute(app, { questions: (until: AbortSignal) => tellQuestions(approvals, until) } as unknown as FeedSources)
  }
  const web = parts.use(await openWeb({ port, logins, addRoutes: addToPage, files, log }))
  const socket = join(home, 'daemon.sock')
  parts.use(
    await openOperatorApi(
      socket,
      (app) => {
        addRoutes(app, 'socket')
        addOpenRoute(app, logins, web.url)
      },
      () => false,
      log,
    ),
  )
  const all = parts.move()
  return {
    env,
    home,
    socket,
    web,
    approvals,
    presence,
    logins,
    audited,
    sessions,
    async ask(wish = wishOf()) {
      const before = new Set(approvals.list({ state: 'pending' }).map(({ id }) => id))
      const stop = new AbortController()
      const events = approvals.watch('terminal', stop.signal)[Symbol.asyncIterator]()
      const outcome = approvals.ask(wish, new AbortController().signal)
      outcome.catch(() => undefined)
      try {
        for (;;) {
          const { value, done } = await events.next()
          if (done === true) throw new Error('it was not asked')
          if (value.kind === 'asked' && !before.has(value.question.id)) return { question: value.question, outcome }
        }
      } finally {
        stop.abort()
      }
    },
    login: () => logins.redeem(logins.ticket(), 'a test').token,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** One request, byte by byte as it is given, and the whole answer until the other side closes. */
export async function rawAnswer(port: number, lines: readonly string[], body = '', host = '127.0.0.1'): Promise<string> {
  const socket = connect({ port, host })
  let answer = ''
  const { promise, resolve } = Promise.withResolvers<void>()
  socket.setEncoding('latin1').on('data', (piece: string) => (answer += piece))
  socket.on('close', () => resolve()).on('error', () => resolve())
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
  await promise
  return answer
}

export function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0)
}

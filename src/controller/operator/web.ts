import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { addLoginRoute } from './login-routes.ts'
import type { Login, Logins } from './logins.ts'
import { answerWithProblems, refuseUpgrade, sendProblem, unreadablePath, type TakeUpgrade } from './operator.ts'
import { codingFor, type PageFile } from './page-files.ts'
import { DOCUMENT_POLICY, PAGE_HEADERS, refuseForeign, refuseForeignSocket } from './page-request.ts'
import { onlyListed, rowOf } from './route-table.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** On the page's listener: who calls. */
    login?: Login
  }
}

export type WebOptions = {
  /** 0 takes any that is free. */
  readonly port: number
  readonly logins: Logins
  /** The routes, the same as on the socket. */
  readonly addRoutes: (app: FastifyInstance) => void
  /** Takes the WebSocket of a terminal. Without it none is opened. */
  readonly takeTerminal?: TakeUpgrade
  /** By path. */
  readonly files?: ReadonlyMap<string, PageFile>
  readonly log: Log
}

export type Web = AsyncDisposable & { readonly port: number; readonly url: string }

/**
 * I51: The operator's API on this machine's loopback, for a browser: with a token that `sallyport open` began, at the name localhost alone.
 * Both addresses of that name are taken, so that nobody else can sit on one of them; an address family that the machine does not
 * have nobody can.
 * @throws listen_failed
 */
export async function openWeb(options: WebOptions): Promise<Web> {
  const app = fastify({
    logger: false,
    bodyLimit: LIMITS.operatorBodyBytesMax,
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: LIMITS.operatorPathPartCharsMax },
    // A path that is none is answered before any hook is reached.
    frameworkErrors(error, request, reply) {
      try {
        enter(request, reply)
        sendProblem(reply, unreadablePath(error), options.log)
      } catch (refusal) {
        discourage(options, request, reply, refusal)
        sendProblem(reply, refusal, options.log)
      }
    },
  })
  answerWithProblems(app, options.log)
  app.removeContentTypeParser('text/plain')
  app.decorateRequest('login', undefined)
  let port = options.port
  const enter = (request: FastifyRequest, reply: FastifyReply): void => {
    for (const [name, value] of Object.entries(PAGE_HEADERS)) reply.raw.setHeader(name, value)
    letIn(options, request, reply, port)
  }
  app.addHook('onRequest', async (request, reply) => enter(request, reply))
  app.addHook('onError', async (request, reply, error) => discourage(options, request, reply, error))
  onlyListed(app, 'web', (path) => options.files?.has(path) === true)
  options.addRoutes(app)
  addLoginRoute(app, options.logins)
  for (const [path, file] of options.files ?? []) addFile(app, path, file)
  await app.ready()
  const servers = await listen(options.port, (request, response) => app.routing(request, response))
  port = portOf(servers)
  for (const server of servers) server.on('upgrade', (request, socket, head) => upgrade(options, { request, socket, head, port }))
  return {
    port,
    url: `http://localhost:${port}`,
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map(closed))
      await app.close()
    },
  }
}

/** Lets in what comes from the page and, but for the page itself and its login, has a token. */
function letIn({ logins, files }: WebOptions, request: FastifyRequest, reply: FastifyReply, port: number): void {
  const isFile = request.method === 'GET' && files?.has(request.url.split('?')[0] ?? '') === true
  refuseForeign(request.raw, port, isFile)
  if (isFile || rowOf(request)?.isOpen === true) return endSoon(reply)
  request.login = logins.check(bearerOf(request.raw))
  const { ended, id } = request.login
  const call = logins.hold(id)
  // What streams to a page ends with its login.
  const end = (): void => void reply.raw.destroy()
  ended.addEventListener('abort', end, { once: true })
  reply.raw.on('close', () => {
    ended.removeEventListener('abort', end)
    call[Symbol.dispose]()
  })
}

/** Whoever is not let in takes what they asked for, or lose their connection: there are only so many, and the operator needs one. */
function endSoon({ raw }: FastifyReply): void {
  const late = setTimeout(() => raw.destroy(), LIMITS.webStrangerMs).unref()
  raw.on('close', () => clearTimeout(late))
}

type Upgrade = { readonly request: IncomingMessage; readonly socket: Duplex; readonly head: Buffer; readonly port: number }

/** I51: One path becomes a WebSocket, of our own page alone and by a ticket that a login was given. Whoever else asks is answered, and gone. */
function upgrade(options: WebOptions, { request, socket, head, port }: Upgrade): void {
  socket.on('error', () => socket.destroy())
  try {
    refuseForeignSocket(request, port)
    if (options.takeTerminal?.(request, socket, head) !== true) throw new SallyportError('origin_refused', 'there is no terminal here')
  } catch (error) {
    if (codeOf(error) === 'terminal_refused' && isFlood(options)) return void socket.destroy()
    socket.once('finish', () => socket.destroy())
    refuseUpgrade(socket, error, PAGE_HEADERS)
  }
}

/** A guess is answered, and costs its connection; a flood of them is not answered. Right tokens are never held up by wrong ones. */
function discourage(options: WebOptions, request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  if (!(error instanceof SallyportError) || (error.code !== 'login_required' && error.code !== 'origin_refused')) return
  reply.raw.setHeader('connection', 'close')
  if (error.code !== 'origin_refused' && isFlood(options)) request.raw.socket.destroy()
}

function isFlood({ logins, log }: WebOptions): boolean {
  const failures = logins.failed()
  if (failures === LIMITS.loginFailuresPerMinuteMax) log.warn('many calls to the page have a wrong token or none')
  return failures > LIMITS.loginFailuresPerMinuteMax
}

/** RFC 6750 §2.1, and no other of its ways. */
function bearerOf({ headers }: IncomingMessage): string | undefined {
  return /^Bearer ([A-Za-z0-9_-]{1,256})$/.exec(headers.authorization ?? '')?.[1]
}

function addFile(app: FastifyInstance, path: string, file: PageFile): void {
  app.get(path, (request, reply) => {
    const { raw } = reply
    raw.setHeader('content-security-policy', DOCUMENT_POLICY)
    raw.setHeader('cache-control', file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache')
    raw.setHeader('etag', file.etag)
    raw.setHeader('vary', 'accept-encoding')
    if (request.headers['if-none-match'] === file.etag) return reply.status(304).send()
    const coding = codingFor(request.headers['accept-encoding'], file.bodies)
    if (coding !== 'identity') raw.setHeader('content-encoding', coding)
    return reply.type(file.type).send(file.bodies[coding])
  })
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void

/** @throws listen_failed */
async function listen(port: number, handler: Handler): Promise<Server[]> {
  for (let left = port === 0 ? LIMITS.webPortTriesMax : 1; ; left -= 1) {
    const servers: Server[] = []
    try {
      for (const host of ['127.0.0.1', '::1']) {
        const server = await bind(host, servers[0] === undefined ? port : portOf(servers), handler)
        if (server !== undefined) servers.push(server)
      }
      if (servers.length === 0) throw new Error('the machine has no loopback')
      return servers
    } catch (cause) {
      await Promise.all(servers.map(closed))
      if (left > 1 && codeOf(cause) === 'EADDRINUSE') continue
      throw new SallyportError('listen_failed', `the page: localhost:${port} (${codeOf(cause)})`, {
        hint: 'another program, or another daemon, has it: give another port, as --web localhost:7271, or --no-web',
        cause,
      })
    }
  }
}

/** Nothing where the machine does not have the address, as without IPv6. */
async function bind(host: string, port: number, handler: Handler): Promise<Server | undefined> {
  const server = createServer(
    {
      maxHeaderSize: LIMITS.webHeadBytesMax,
      headersTimeout: LIMITS.webHeadMs,
      requestTimeout: LIMITS.webRequestMs,
      keepAliveTimeout: LIMITS.webKeepAliveMs,
      connectionsCheckingInterval: LIMITS.webHeadMs / 2,
    },
    handler,
  )
  // Nobody who means this listener expects anything (RFC 9110 §10.1.1) but to go on.
  server.on('checkExpectation', (_request, response: ServerResponse) => response.writeHead(417, PAGE_HEADERS).end())
  server.maxConnections = LIMITS.webConnectionsMax
  server.maxRequestsPerSocket = LIMITS.webRequestsPerConnectionMax
  server.listen({ host, port })
  try {
    await once(server, 'listening')
    return server
  } catch (error) {
    if (['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EPROTONOSUPPORT'].includes(codeOf(error))) return undefined
    throw error
  }
}

function portOf([server]: readonly Server[]): number {
  const address = server?.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

async function closed(server: Server): Promise<void> {
  const close = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await close
}

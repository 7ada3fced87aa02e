import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import type { Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Contexts } from './contexts.ts'
import type { Tunnel } from './facts.ts'
import type { Handle } from './handle.ts'
import { refusalOf, statusOf, writeRefusal } from './refuse.ts'
import { createTunnel, type TunnelParts } from './tunnel.ts'

export type HttpFrontParts = Omit<TunnelParts, 'serve'> & {
  readonly handle: Handle
  readonly contexts: Contexts
}

/** HTTP as agents speak it: to the proxy itself, and inside tunnels. */
export type HttpFront = {
  /** A server for one listening address. */
  createListener(): Server
  /** Connections that are open now. */
  readonly connections: number
  /** Ends idle connections; running exchanges go on. */
  drain(): void
  /** Ends all connections. */
  destroy(): void
}

const SERVER_OPTIONS = {
  // Strict parsing on both sides is what keeps a message's end the same for all (smuggling). I10
  insecureHTTPParser: false,
  requireHostHeader: false, // facts.ts says more precisely what is wrong
  maxHeaderSize: LIMITS.headBytesMax,
  headersTimeout: LIMITS.headTimeoutMs,
  requestTimeout: 0, // uploads take as long as they move; forward.ts watches them
  keepAliveTimeout: LIMITS.keepAliveMs,
  connectionsCheckingInterval: 1_000,
  noDelay: true,
} as const

export function createHttpFront(parts: HttpFrontParts): HttpFront {
  const { log, contexts } = parts
  const open = new Set<Socket>()
  const servers: Server[] = []
  const tunnels = new WeakMap<Socket, Tunnel>()
  /** Exchanges that run on a connection now. */
  const running = new WeakMap<Socket, number>()

  const inner = createHttpServer((request, response) => parts.handle(request, response, tunnels.get(request.socket)))
  inner.on('connect', (_request: IncomingMessage, socket: Socket) => {
    const refusal: Refusal = { code: 'method_refused', message: 'CONNECT inside a tunnel' }
    void refuseBare(socket, refusal, tunnels.get(socket))
  })
  // This server is only ever handed sockets. Node sets up its head timeouts when a server starts to listen.
  inner.emit('listening')

  const openTunnel = createTunnel({ ...parts, serve })

  function createHttpServer(handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>): Server {
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      const { socket } = request
      running.set(socket, (running.get(socket) ?? 0) + 1)
      void handle(request, response).finally(() => running.set(socket, (running.get(socket) ?? 1) - 1))
    }
    const server = createServer(SERVER_OPTIONS, onRequest)
    server.on('checkContinue', onRequest)
    // Node would drop what is over the limit unseen; facts.ts counts and refuses.
    server.maxHeadersCount = 0
    server.on('clientError', (error: Error, socket: Socket) => void onClientError(error, socket))
    server.on('connection', track)
    servers.push(server)
    return server
  }

  function track(socket: Socket): void {
    if (open.size >= LIMITS.connectionsMax && !tunnels.has(socket)) {
      writeRefusal(socket, { code: 'overloaded', message: 'too many connections' }, { requestId: randomUUID() })
      socket.destroySoon()
      return
    }
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  }

  /** Serves HTTP on the socket of a tunnel, under TLS with a certificate for the tunnel's host. */
  function serve(socket: Socket, tunnel: Tunnel): void {
    if (tunnel.scheme === 'http') {
      tunnels.set(socket, tunnel)
      inner.emit('connection', socket)
      return
    }
    const secure = new TLSSocket(socket, { isServer: true, secureContext: contexts.for(tunnel.host), ALPNProtocols: ['http/1.1'] })
    const timer = setTimeout(() => secure.destroy(), LIMITS.tlsHandshakeMs)
    secure.on('error', (error) => onHandshakeError(error, tunnel.host))
    secure.once('close', () => {
      clearTimeout(timer)
      socket.destroy()
    })
    secure.once('secure', () => {
      clearTimeout(timer)
      tunnels.set(secure, tunnel)
      inner.emit('connection', secure)
    })
  }

  function onHandshakeError(error: Error, host: Hostname): void {
    const code = codeOf(error)
    if (code === 'ECONNRESET' || code === 'EPIPE') return
    const isDistrust = /alert (unknown ca|bad certificate|certificate unknown)/.test(error.message)
    log.warn(
      { host, code, hint: isDistrust ? 'the client does not trust the CA of this session: see /ca.crt and the CA variables' : undefined },
      'TLS with the agent failed',
    )
  }

  async function onClientError(error: Error, socket: Socket): Promise<void> {
    // While an answer is due, one more would be taken for it: bytes that break an exchange end the connection.
    if (socket.destroyed || codeOf(error) === 'ECONNRESET' || (running.get(socket) ?? 0) > 0) {
      socket.destroy()
      return
    }
    const refusal = refusalOfParser(error)
    await refuseBare(socket, refusal, tunnels.get(socket))
  }

  /** Refuses what never became a request. */
  async function refuseBare(socket: Socket, refusal: Refusal, tunnel: Tunnel | undefined): Promise<void> {
    const requestId = randomUUID()
    const where = tunnel ? { scheme: tunnel.scheme, host: tunnel.host, port: tunnel.port } : {}
    try {
      await parts.audit.append({
        event: 'decided',
        request: requestId,
        lane: tunnel ? 'connect' : 'http',
        ...where,
        decision: 'deny',
        code: refusal.code,
      })
      log.info({ requestId, ...where, code: refusal.code, reason: refusal.message }, 'egress denied')
      if (socket.writable) writeRefusal(socket, refusal, { requestId, ...where })
      await parts.audit.append({
        event: 'finished',
        request: requestId,
        status: statusOf(refusal.code),
        code: refusal.code,
        bytes_up: 0,
        bytes_down: 0,
        duration_ms: 0,
      })
    } catch (failure) {
      log.error({ requestId, code: refusalOf(failure).code }, 'egress refused')
    }
    socket.destroySoon()
  }

  return {
    createListener() {
      const server = createHttpServer((request, response) => parts.handle(request, response, undefined))
      server.on('connect', (request: IncomingMessage, socket: Socket, head: Buffer) => void openTunnel(request, socket, head))
      return server
    },
    get connections() {
      return open.size
    },
    drain() {
      for (const server of servers) server.closeIdleConnections()
    },
    destroy() {
      for (const socket of open) socket.destroy()
      inner.close()
    },
  }
}

function refusalOfParser(error: Error): Refusal {
  const code = codeOf(error)
  if (code === 'HPE_HEADER_OVERFLOW')
    return { code: 'head_too_large', message: `the request head is longer than ${LIMITS.headBytesMax} bytes` }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { code: 'head_timeout', message: 'the request head did not arrive in time' }
  return { code: 'request_malformed', message: `the request is not valid HTTP/1.1 (${code})` }
}

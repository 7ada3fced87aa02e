import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import type { Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { Contexts } from './contexts.ts'
import { openExchange, type ExchangeParts } from './exchange.ts'
import type { Tunnel } from './facts.ts'
import type { Handle } from './handle.ts'
import { refusalOf, writeRefusal } from './refuse.ts'
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
  const open = new Set<Socket>()
  const tunnels = new WeakMap<Socket, Tunnel>()
  const servers: Server[] = []

  function createHttpServer(): Server {
    const running = new WeakMap<Socket, number>()
    const refused = new WeakSet<Socket>()
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
      const { socket } = request
      running.set(socket, (running.get(socket) ?? 0) + 1)
      void parts.handle(request, response, tunnels.get(socket)).finally(() => running.set(socket, (running.get(socket) ?? 1) - 1))
    }
    const server = createServer(SERVER_OPTIONS, onRequest)
    server.on('checkContinue', onRequest)
    // Node would drop what is over the limit unseen; facts.ts counts and refuses.
    server.maxHeadersCount = 0
    server.on('connection', (socket: Socket) => {
      open.add(socket)
      socket.once('close', () => open.delete(socket))
      if (open.size > LIMITS.connectionsMax)
        void refuseBare(parts, socket, { code: 'overloaded', message: 'too many connections' }, undefined)
    })
    server.on('clientError', (error: Error, socket: Socket) => {
      // Node tells of every further piece of what could not be read: one refusal, one audit event.
      if (refused.has(socket)) return
      refused.add(socket)
      // While an answer is due, one more would be taken for it: bytes that break an exchange end the connection.
      if (socket.destroyed || codeOf(error) === 'ECONNRESET' || (running.get(socket) ?? 0) > 0) socket.destroy()
      else void refuseBare(parts, socket, refusalOfParser(error), tunnels.get(socket))
    })
    servers.push(server)
    return server
  }

  const inner = createHttpServer()
  inner.on('connect', (_request: IncomingMessage, socket: Socket) => {
    void refuseBare(parts, socket, { code: 'method_refused', message: 'CONNECT inside a tunnel' }, tunnels.get(socket))
  })
  // This server is only ever handed sockets. Node sets up its head timeouts when a server starts to listen.
  inner.emit('listening')

  /** Serves HTTP on the socket of a tunnel, under TLS with a certificate for the tunnel's host. */
  function serve(socket: Socket, tunnel: Tunnel): void {
    const serveOn = (served: Socket): void => {
      tunnels.set(served, tunnel)
      inner.emit('connection', served)
    }
    if (tunnel.scheme === 'http') serveOn(socket)
    else serveTls(socket, tunnel.host, parts.contexts, parts.log, serveOn)
  }
  const openTunnel = createTunnel({ ...parts, serve })

  return {
    createListener() {
      const server = createHttpServer()
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

/** Our own TLS on a tunnel's socket. `serve` gets it when the handshake is done. */
function serveTls(socket: Socket, host: Hostname, contexts: Contexts, log: Log, serve: (secure: TLSSocket) => void): void {
  const secure = new TLSSocket(socket, { isServer: true, secureContext: contexts.for(host), ALPNProtocols: ['http/1.1', 'http/1.0'] })
  const timer = setTimeout(() => secure.destroy(), LIMITS.tlsHandshakeMs)
  secure.on('error', (error) => {
    const code = codeOf(error)
    if (code === 'ECONNRESET' || code === 'EPIPE') return
    const isDistrust = /alert (unknown ca|bad certificate|certificate unknown)/.test(error.message)
    const hint = isDistrust ? 'the client does not trust the CA of this session: see /ca.crt and the CA variables' : undefined
    log.warn({ host, code, hint }, 'TLS with the agent failed')
  })
  secure.once('close', () => {
    clearTimeout(timer)
    socket.destroy()
  })
  secure.once('secure', () => {
    clearTimeout(timer)
    serve(secure)
  })
}

/** Refuses what never became a request, and ends the connection. */
async function refuseBare(parts: ExchangeParts, socket: Socket, refusal: Refusal, tunnel: Tunnel | undefined): Promise<void> {
  const exchange = openExchange(parts, tunnel ? 'connect' : 'http')
  const where = tunnel ?? {}
  try {
    await exchange.deny(where, refusal)
    if (socket.writable) writeRefusal(socket, refusal, { requestId: exchange.requestId, host: tunnel?.host, port: tunnel?.port })
    await exchange.finish(where, { refusal, bytesUp: 0, bytesDown: 0 })
  } catch (error) {
    parts.log.error({ requestId: exchange.requestId, code: refusalOf(error).code }, 'egress refused')
  }
  socket.destroySoon()
}

function refusalOfParser(error: Error): Refusal {
  const code = codeOf(error)
  if (code === 'HPE_HEADER_OVERFLOW')
    return { code: 'head_too_large', message: `the request head is longer than ${LIMITS.headBytesMax} bytes` }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { code: 'head_timeout', message: 'the request head did not arrive in time' }
  return { code: 'request_malformed', message: `the request is not valid HTTP/1.1 (${code})` }
}

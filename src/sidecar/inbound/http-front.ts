import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import type { Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { createConnections, type Connections } from './connections.ts'
import type { Contexts } from './contexts.ts'
import { openExchange, type ExchangeParts } from '../egress/exchange.ts'
import type { Tunnel } from '../egress/facts.ts'
import type { Handle } from '../egress/handle.ts'
import { refusalOf, writeRefusal } from '../egress/refuse.ts'
import { createTunnel, type TunnelParts } from '../egress/tunnel.ts'

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
  const connections = createConnections()
  const servers: Server[] = []
  const createFront = (): Server => {
    const server = createHttpServer(parts, connections)
    servers.push(server)
    return server
  }

  const inner = createFront()
  inner.on('connect', (_request: IncomingMessage, socket: Socket) => {
    refuseConnection(parts, connections, socket, { code: 'method_refused', message: 'CONNECT inside a tunnel' })
  })
  // This server is only ever handed sockets. Node sets up its head timeouts when a server starts to listen.
  inner.emit('listening')

  /** Serves HTTP on the socket of a tunnel, under TLS with a certificate for the tunnel's host. */
  function serve(socket: Socket, tunnel: Tunnel): void {
    const serveOn = (served: Socket): void => {
      connections.setTunnel(served, tunnel)
      inner.emit('connection', served)
    }
    if (tunnel.scheme === 'http') serveOn(socket)
    else serveTls(socket, tunnel.host, parts.contexts, parts.log, serveOn)
  }
  const openTunnel = createTunnel({ ...parts, serve })

  return {
    createListener() {
      const server = createFront()
      server.on('connection', (socket: Socket) => {
        if (!connections.add(socket)) refuseConnection(parts, connections, socket, { code: 'overloaded', message: 'too many connections' })
      })
      server.on('connect', (request: IncomingMessage, socket: Socket, head: Buffer) => {
        // The tunnel's bytes and an answer that is still due would be one stream.
        if (connections.isBusy(socket)) socket.destroy()
        else void openTunnel(request, socket, head)
      })
      return server
    },
    get connections() {
      return connections.size
    },
    drain() {
      for (const server of servers) server.closeIdleConnections()
    },
    destroy() {
      connections.destroyAll()
      inner.close()
    },
  }
}

/** Node's HTTP server with our limits, and `handle` behind it. */
function createHttpServer(parts: HttpFrontParts, connections: Connections): Server {
  const server = createServer(SERVER_OPTIONS, onRequest)
  server.on('checkContinue', onRequest)
  server.on('checkExpectation', onRequest) // other expectations end here as every hop-by-hop field does
  // Node would drop what is over the limit unseen; facts.ts counts and refuses.
  server.maxHeadersCount = 0
  server.on('clientError', (error: Error, socket: Socket) => {
    if (socket.destroyed || codeOf(error) === 'ECONNRESET') socket.destroy()
    else refuseConnection(parts, connections, socket, refusalOfParser(error))
  })
  return server

  function onRequest(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    if (!connections.begin(socket)) {
      socket.destroy()
      return
    }
    // The answer ends it, not the audit of its end: a CONNECT may follow at once. One that waits its turn may never be told.
    let isOver = false
    const end = (): void => {
      if (!isOver) connections.end(socket)
      isOver = true
    }
    response.once('finish', end).once('close', end)
    void parts
      .handle(request, response, connections.tunnelOf(socket))
      .catch(() => socket.destroy())
      .finally(end)
  }
}

/** The last answer of a connection, for what never became a request. */
function refuseConnection(parts: ExchangeParts, connections: Connections, socket: Socket, refusal: Refusal): void {
  // While an answer is due, one more would be taken for it: then the connection ends without.
  if (connections.isBusy(socket)) socket.destroy()
  // Node tells of every further piece of what could not be read: one refusal, one audit event.
  else if (connections.refuse(socket)) void refuseBare(parts, socket, refusal, connections.tunnelOf(socket))
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
  // An agent that ends its side in the middle of the handshake is gone: the socket would stay half open until the time is up.
  const onEnd = (): void => void secure.destroy()
  secure.once('end', onEnd)
  secure.once('secure', () => {
    clearTimeout(timer)
    secure.off('end', onEnd)
    serve(secure)
  })
}

/** Refuses what never became a request, and ends the connection. */
async function refuseBare(parts: ExchangeParts, socket: Socket, refusal: Refusal, tunnel: Tunnel | undefined): Promise<void> {
  const exchange = openExchange(parts, tunnel ? 'connect' : 'http')
  const where = tunnel ?? {}
  try {
    await exchange.deny(where, refusal)
    writeRefusal(socket, refusal, { requestId: exchange.requestId, host: tunnel?.host, port: tunnel?.port })
    await exchange.finish(where, { refusal, bytesUp: 0, bytesDown: 0 })
  } catch (error) {
    parts.log.error({ requestId: exchange.requestId, code: refusalOf(error).code }, 'egress refused')
    socket.destroy()
  }
}

function refusalOfParser(error: Error): Refusal {
  const code = codeOf(error)
  if (code === 'HPE_HEADER_OVERFLOW')
    return { code: 'head_too_large', message: `the request head is longer than ${LIMITS.headBytesMax} bytes` }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { code: 'head_timeout', message: 'the request head did not arrive in time' }
  return { code: 'request_malformed', message: `the request is not valid HTTP/1.1 (${code})` }
}

import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { isHostname, parseHostname } from '../../kernel/hostname.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import type { Enforcement } from '../egress/enforced.ts'
import { readAuthority, type Tunnel } from '../egress/facts.ts'
import type { Handle } from '../egress/handle.ts'
import type { Lease } from '../egress/lease.ts'
import { sayFarewell, writeRefusal } from '../egress/refuse.ts'
import { createTunnels, type Arrival, type TunnelParts, type Tunnels } from '../egress/tunnel.ts'
import type { Exchange, Where } from '../egress/exchange.ts'
import type { Refusal } from '../../kernel/errors.ts'
import { writeAlert } from './alert.ts'
import type { Connections } from './connections.ts'
import type { Contexts } from './contexts.ts'
import { createHttp1, type Connect } from './http1.ts'
import { createHttp2 } from './http2.ts'
import { createNodeHttp1 } from './node-http1.ts'
import { recognise } from './recognise.ts'
import { secure } from './secure.ts'
import { negotiate, replyFor } from './socks-handshake.ts'
import { SOCKS_REPLY, writeReply, type SocksRequest } from './socks-messages.ts'

export type FrontParts = Omit<TunnelParts, 'serve' | 'recognise'> & {
  readonly enforcement: Enforcement
  readonly handle: Handle
  readonly lease: Lease
  readonly contexts: Contexts
  readonly connections: Connections
  /** True where names lead to this gate's own addresses, because it answers the agent's DNS. */
  readonly isResolver: boolean
  readonly system: Pick<System, 'now' | 'elapsed'>
}

/** Every way in. All lead to one story for requests and one for tunnels. I16 */
export type Front = {
  createProxy(): Server
  createSocks(): Server
  /** For connections that know no proxy; `port` is the one that they are meant for. */
  createTransparent(port: number): Server
  /** For connections to a port that, of all hosts of the policy, one has, and whose protocol nobody looks into. */
  createPassing(port: number): Server
  /** For the gateway's reverse routes. */
  onRouteRequest(request: IncomingMessage, response: ServerResponse): void
  onRouteUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void
  /** Ends idle connections; running exchanges go on. */
  drain(): void
  /** Ends all connections. */
  destroy(): void
}

/** Type of the record that a TLS connection begins with (RFC 8446 §5.1). */
const TLS_HANDSHAKE = 22
/** Ports that programs without a proxy use. */
const TRANSPARENT_PORTS = new Set([80, 443])

export function createFront(parts: FrontParts): Front {
  const { connections } = parts
  const http1 = createHttp1(parts, (request) => connect(parts, tunnels, request))
  const http2 = createHttp2(parts.handle, parts.log)
  const routes = createNodeHttp1(parts.handle, 'gateway')

  /** Serves HTTP on a connection that leads somewhere, under TLS with a certificate for its host. */
  function serve(socket: Socket, tunnel: Tunnel): void {
    if (tunnel.scheme === 'http' || tunnel.host === undefined) return http1.serve(socket, tunnel)
    secure(socket, tunnel.host, parts.contexts, parts.log, (secured) =>
      secured.alpnProtocol === 'h2' ? http2.serve(secured, tunnel) : http1.serve(secured, tunnel),
    )
  }
  const tunnels = createTunnels({ ...parts, recognise, serve })

  return {
    createProxy() {
      return createTcpServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
        if (connections.add(socket)) http1.serve(socket, 'proxy')
        else http1.refuse(socket, { code: 'overloaded', message: 'too many connections' })
      })
    },
    createSocks() {
      return createTcpServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
        if (!welcome(connections, socket)) return
        void serveSocks(parts, tunnels, socket).catch(() => socket.destroy())
      })
    },
    createTransparent(port) {
      return createTcpServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
        if (welcome(connections, socket)) void tunnels.openTransparent(unannounced('transparent', socket, port, false), port)
      })
    },
    createPassing(port) {
      return createTcpServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
        if (!welcome(connections, socket)) return
        const host = parts.enforcement().policy.tcpPorts.get(port)
        // The policy has changed, and its listeners are about to follow.
        if (host === undefined) socket.destroy()
        else void tunnels.open(unannounced('transparent', socket, port, false), host, port)
      })
    },
    onRouteRequest: (request, response) => routes.onRequest(request, response),
    onRouteUpgrade: (request, socket, head) => routes.onUpgrade(request, socket, head),
    drain() {
      http1.closeIdle()
      http2.drain()
    },
    destroy: () => connections.destroyAll(),
  }
}

/** False for a connection too many: its protocol has no words for that before it has said any itself. */
function welcome(connections: Connections, socket: Socket): boolean {
  socket.on('error', () => socket.destroy())
  // Its client is not allowed here.
  if (socket.destroyed) return false
  if (connections.add(socket)) return true
  socket.destroy()
  return false
}

/** CONNECT (RFC 9110 §9.3.6). */
function connect(parts: FrontParts, tunnels: Tunnels, connection: Connect): void {
  const { request, behind } = connection
  const end = parts.lease.refusalOf(parts.enforcement().policy, 'proxy', request) ?? readAuthority(request.url, request.rawHeaders)
  if ('code' in end) return connection.refuse(end)
  const socket = connection.take()
  const arrival: Arrival = {
    lane: 'connect',
    socket,
    isProven: parts.lease.isShown(request),
    accept() {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      if (behind.length > 0) socket.unshift(behind)
    },
    refuse: (refusal, to) => writeRefusal(socket, refusal, to),
  }
  void tunnels.open(arrival, end.host, end.port)
}

/** SOCKS5 (RFC 1928). */
async function serveSocks(parts: FrontParts, tunnels: Tunnels, socket: Socket): Promise<void> {
  const reply = (code: number): void => {
    socket.end(writeReply(code))
    sayFarewell(socket)
  }
  const checkLease = parts.lease.checkFor(parts.enforcement().policy)
  const isProven = checkLease !== undefined
  const found = await negotiate(socket, { checkLease })
  if (found.kind === 'closed') return void socket.destroy()
  if (found.kind === 'refused') {
    await record(parts, found.refusal, found.request)
    if (found.reply === undefined) sayFarewell(socket.end())
    else reply(found.reply)
    return
  }
  const { address, port } = found.request
  const host = parseHostname(address.text)
  if (!isHostname(host)) {
    await record(parts, { code: 'host_invalid', message: `the host "${shown(address.text)}" is refused: ${host.problem}` }, found.request)
    return reply(SOCKS_REPLY.notAllowed)
  }
  // A client that asked our DNS names our own address: its first bytes say where it wants to go, as without SOCKS.
  const isOwn = parts.isResolver && isOwnAddress(found.request, socket)
  if (isOwn && TRANSPARENT_PORTS.has(port)) {
    socket.write(writeReply(SOCKS_REPLY.succeeded))
    return tunnels.openTransparent(unannounced('socks', socket, port, isProven), port)
  }
  const meant = isOwn ? parts.enforcement().policy.tcpPorts.get(port) : undefined
  const arrival: Arrival = {
    lane: 'socks',
    socket,
    isProven,
    accept: () => void socket.write(writeReply(SOCKS_REPLY.succeeded)),
    refuse: ({ code }, { cause }) => reply(replyFor(code, cause)),
  }
  return tunnels.open(arrival, meant ?? host, port)
}

function isOwnAddress({ address }: SocksRequest, socket: Socket): boolean {
  return address.kind === 'ipv4' && address.text === socket.localAddress
}

/** A connection without a word before its first bytes. TLS has alerts to say no, HTTP an answer, anything else nothing. */
function unannounced(lane: Arrival['lane'], socket: Socket, port: number, isProven: boolean): Arrival {
  return {
    lane,
    socket,
    isProven,
    accept() {},
    refuse({ code }) {
      // What was recognised was put back. One too many is refused before it said anything.
      const first: unknown = socket.read(1)
      const isTls = Buffer.isBuffer(first) ? first[0] === TLS_HANDSHAKE : port === 443
      if (!isTls || code === 'protocol_not_recognised') socket.destroy()
      else writeAlert(socket, code === 'server_name_missing' || code === 'host_invalid' ? 'unrecognized_name' : 'access_denied')
    },
  }
}

/** Both audit events of what was refused before it named an end that could be read. */
function record({ exchanges, log }: FrontParts, refusal: Refusal, request?: SocksRequest): Promise<void> {
  const host = parseHostname(request?.address.text ?? '')
  const where: Where = {
    method: request === undefined ? 'CONNECT' : String(request.command).toUpperCase(),
    ...(isHostname(host) && { host }),
    ...(request !== undefined && request.port > 0 && { port: request.port }),
  }
  return exchanges.run('socks', async (exchange: Exchange) => {
    try {
      await exchange.deny(where, refusal)
      await exchange.finish(where, { refusal, bytesUp: 0, bytesDown: 0 })
    } catch {
      log.error({ requestId: exchange.requestId, code: 'audit_unavailable' }, 'tunnel refused')
    }
  })
}

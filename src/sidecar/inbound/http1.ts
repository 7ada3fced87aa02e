import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { Exchanges } from '../egress/exchange.ts'
import type { CameBy, Handle } from '../egress/handle.ts'
import { refusalOf, writeRefusal } from '../egress/refuse.ts'
import type { Connections } from './connections.ts'
import { Http1Agent, UpgradingAgent } from './http1-agent.ts'

export type Http1Parts = {
  readonly connections: Connections
  readonly exchanges: Exchanges
  readonly handle: Handle
  readonly log: Log
}

/** HTTP/1 as agents speak it, on connections that `Connections` knows. */
export type Http1 = {
  /** Node's server with our limits. Without a tunnel of their own its connections are the proxy's. */
  createServer(): Server
  /** One request, also of another server. */
  onRequest(request: IncomingMessage, response: ServerResponse, by: CameBy): void
  /** One WebSocket handshake, also of another server. */
  onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer, by: CameBy): void
  /** The last answer of a connection, for what never became a request. */
  refuse(socket: Socket, refusal: Refusal): void
}

/**
 * What Node's server needs to know to leave a request to `onUpgrade`. Everything else with an Upgrade field is an ordinary
 * request; HTTP/1.0 has no upgrades (RFC 9110 §7.8).
 */
export const shouldUpgradeCallback = ({ headers, httpVersion }: IncomingMessage): boolean =>
  httpVersion === '1.1' && headers.upgrade?.toLowerCase() === 'websocket'

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
  shouldUpgradeCallback,
} as const

export function createHttp1(parts: Http1Parts): Http1 {
  const { connections, handle } = parts
  /**
   * The end of the last request of a connection. One that is pipelined behind it waits: side by side a read could overtake
   * the write before it (RFC 9112 §9.3.2).
   */
  const turns = new WeakMap<Socket, Promise<void>>()
  const cameBy = (socket: Socket): CameBy => connections.tunnelOf(socket) ?? 'proxy'

  function onRequest(request: IncomingMessage, response: ServerResponse, by: CameBy): void {
    const { socket } = request
    const before = connections.isBusy(socket) ? turns.get(socket) : undefined
    const number = connections.begin(socket)
    if (number === undefined) {
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
    const turn = async (): Promise<void> => {
      await before
      // RFC 9112 §9.6: what comes behind a last answer is not processed.
      if (socket.destroyed || connections.isRefused(socket, number)) return
      await handle(new Http1Agent(request, response, connections, number), by)
    }
    const ended = turn()
      .catch(() => void socket.destroy())
      .finally(end)
    turns.set(socket, ended)
  }

  function onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer, by: CameBy): void {
    // What it becomes and an answer that is still due would be one stream.
    const number = connections.isBusy(socket) ? undefined : connections.begin(socket)
    if (number === undefined || connections.isRefused(socket, number)) {
      socket.destroy()
      return
    }
    void handle(new UpgradingAgent(request, socket, head, connections, number), by)
      .catch(() => socket.destroy())
      .finally(() => connections.end(socket))
  }

  function refuse(socket: Socket, refusal: Refusal): void {
    // While an answer is due, one more would be taken for it: then the connection ends without.
    if (connections.isBusy(socket)) socket.destroy()
    // Node tells of every further piece of what could not be read: one refusal, one audit event.
    else if (connections.refuse(socket)) {
      // Node has let go of the socket of a CONNECT: an agent that resets it before its answer would end the process for all.
      socket.on('error', () => socket.destroy())
      void refuseBare(parts, socket, refusal)
    }
  }

  const onAnyRequest = (request: IncomingMessage, response: ServerResponse): void => onRequest(request, response, cameBy(request.socket))

  return {
    createServer() {
      const server = createServer(SERVER_OPTIONS)
      server.on('request', onAnyRequest)
      server.on('checkContinue', onAnyRequest)
      server.on('checkExpectation', onAnyRequest) // other expectations end here as every hop-by-hop field does
      server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => onUpgrade(request, socket, head, cameBy(socket)))
      // Node would drop what is over the limit unseen; facts.ts counts and refuses.
      server.maxHeadersCount = 0
      server.on('clientError', (error: Error, socket: Socket) => {
        if (socket.destroyed || codeOf(error) === 'ECONNRESET') socket.destroy()
        else refuse(socket, refusalOfParser(error))
      })
      return server
    },
    onRequest,
    onUpgrade,
    refuse,
  }
}

/** Refuses what never became a request, and ends the connection. */
async function refuseBare({ connections, exchanges, log }: Http1Parts, socket: Socket, refusal: Refusal): Promise<void> {
  const tunnel = connections.tunnelOf(socket)
  const where = tunnel ? { scheme: tunnel.scheme, port: tunnel.port, ...(tunnel.host !== undefined && { host: tunnel.host }) } : {}
  await exchanges.run(tunnel?.lane ?? 'http', async (exchange) => {
    try {
      await exchange.deny(where, refusal)
      writeRefusal(socket, refusal, { requestId: exchange.requestId, host: tunnel?.host, port: tunnel?.port })
      await exchange.finish(where, { refusal, bytesUp: 0, bytesDown: 0 })
    } catch (error) {
      log.error({ requestId: exchange.requestId, code: refusalOf(error).code }, 'egress refused')
      socket.destroy()
    }
  })
}

/** What Node's parser found wrong. */
export function refusalOfParser(error: Error): Refusal {
  const code = codeOf(error)
  if (code === 'HPE_HEADER_OVERFLOW')
    return { code: 'head_too_large', message: `the request head is longer than ${LIMITS.headBytesMax} bytes` }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { code: 'head_timeout', message: 'the request head did not arrive in time' }
  if (code === 'HPE_PAUSED_H2_UPGRADE') return { code: 'upgrade_refused', message: 'HTTP/2 without TLS (h2c)' }
  return { code: 'request_malformed', message: `the request is not valid HTTP/1.1 (${code})` }
}

import type { Socket } from 'node:net'
import type { Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { Exchanges } from '../egress/exchange.ts'
import type { RequestHead } from '../egress/facts.ts'
import type { CameBy, Handle } from '../egress/handle.ts'
import { refusalOf, writeRefusal } from '../egress/refuse.ts'
import { AgentConnection, LOOK_MS, type Service } from './agent-connection.ts'

export type Http1Parts = {
  readonly exchanges: Exchanges
  readonly handle: Handle
  readonly log: Log
  readonly system: Pick<System, 'now' | 'elapsed'>
}

/** A CONNECT at the proxy, to be taken or refused, once. */
export type Connect = {
  readonly request: RequestHead
  /** What came behind it. */
  readonly behind: Buffer
  /** Gives the socket, paused. */
  take(): Socket
  /** The last answer of the connection. */
  refuse(refusal: Refusal): void
}

/** HTTP/1 as agents speak it. */
export type Http1 = {
  /** Takes a connection over: one that leads somewhere, or the proxy's. */
  serve(socket: Socket, by: CameBy): void
  /** The last answer of a connection that nobody serves. */
  refuse(socket: Socket, refusal: Refusal): void
  /** Ends connections that wait for a next request. */
  closeIdle(): void
}

/** @param onConnect takes the CONNECTs of the proxy's connections; others are refused */
export function createHttp1(parts: Http1Parts, onConnect: (connect: Connect) => void): Http1 {
  const { handle, system } = parts
  const open = new Set<AgentConnection>()
  let looking: NodeJS.Timeout | undefined
  let elapsedMs = 0
  const date = { second: 0, line: '' }

  function look(): void {
    elapsedMs = system.elapsed()
    for (const connection of open) connection.expire(elapsedMs)
    if (open.size > 0) return
    clearInterval(looking)
    looking = undefined
  }
  const service: Service = {
    keepAliveLines: `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(LIMITS.keepAliveMs / 1_000)}\r\n`,
    dateLine() {
      const second = Math.floor(system.now() / 1_000)
      if (second !== date.second) Object.assign(date, { second, line: `Date: ${new Date(second * 1_000).toUTCString()}\r\n` })
      return date.line
    },
    get elapsedMs() {
      return elapsedMs
    },
    handle: (agent, connection) => void handle(agent, connection.by).catch(connection.destroy),
    connect(request, connection, behind) {
      if (connection.by === 'proxy')
        onConnect({ request, behind, take: () => connection.release(), refuse: (refusal) => connection.fail(refusal) })
      else connection.fail({ code: 'method_refused', message: 'CONNECT inside a tunnel' })
    },
    refuse: ({ socket, by }, refusal) => void refuseBare(parts, socket, by, refusal),
    forget: (connection) => void open.delete(connection),
  }
  return {
    serve(socket, by) {
      if (socket.destroyed) return
      if (looking === undefined) {
        elapsedMs = system.elapsed()
        looking = setInterval(look, LOOK_MS).unref()
      }
      open.add(new AgentConnection(socket, by, service))
    },
    refuse(socket, refusal) {
      socket.on('error', () => socket.destroy())
      void refuseBare(parts, socket, 'proxy', refusal)
    },
    closeIdle() {
      for (const connection of open) connection.closeIfIdle()
    },
  }
}

/** Refuses what never became a request, and ends the connection. */
async function refuseBare({ exchanges, log }: Http1Parts, socket: Socket, by: CameBy, refusal: Refusal): Promise<void> {
  const tunnel = typeof by === 'string' ? undefined : by
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

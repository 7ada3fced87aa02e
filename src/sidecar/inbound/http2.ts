import type { TLSSocket } from 'node:tls'
import { Http2Connection } from '../../http2/connection.ts'
import type { ConnectionEvents, ConnectionOptions } from '../../http2/options.ts'
import type { RequestFields } from '../../http2/fields.ts'
import { nameOfCode, type ConnectionError } from '../../http2/protocol.ts'
import type { Http2Stream, StreamOwner } from '../../http2/stream.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { Tunnel } from '../egress/facts.ts'
import type { Handle } from '../egress/handle.ts'
import { Http2Agent } from './http2-agent.ts'

/** HTTP/2 as agents speak it, inside TLS. */
export type Http2 = {
  serve(socket: TLSSocket, tunnel: Tunnel): void
  /** Tells the agents to open no more streams; running ones go on. */
  drain(): void
}

/**
 * What agents are held to: streams, header bytes and fields (CVE-2024-27316), resets and what else costs more than it says
 * (CVE-2023-44487). Extended CONNECT (RFC 8441) is not offered: clients open a WebSocket over HTTP/1.1.
 */
export const agentOptions = (): ConnectionOptions => ({
  role: 'server',
  streamsMax: LIMITS.streamsMax,
  streamWindowBytes: LIMITS.streamWindowBytes,
  windowBytes: 4 * LIMITS.streamWindowBytes,
  headers: { bytesMax: LIMITS.headBytesMax, fieldsMax: LIMITS.headFieldsMax },
  noiseBurstMax: LIMITS.streamResetsBurstMax,
  noisePerSecondMax: LIMITS.streamResetsPerSecondMax,
})

export function createHttp2(handle: Handle, log: Log): Http2 {
  const sessions = new Set<AgentSession>()
  return {
    serve(socket, tunnel) {
      const session = new AgentSession(socket, tunnel, handle, log)
      sessions.add(session)
      socket.once('close', () => sessions.delete(session))
    },
    drain() {
      for (const session of sessions) session.close()
    },
  }
}

/** One connection of an agent. */
class AgentSession implements ConnectionEvents {
  readonly #socket: TLSSocket
  readonly #tunnel: Tunnel
  readonly #handle: Handle
  readonly #log: Log
  readonly #connection: Http2Connection
  /** Ends a session that has had no stream for so long, whatever else it sends: bytes alone keep nothing open. */
  readonly #idle: NodeJS.Timeout

  constructor(socket: TLSSocket, tunnel: Tunnel, handle: Handle, log: Log) {
    this.#socket = socket
    this.#tunnel = tunnel
    this.#handle = handle
    this.#log = log
    this.#connection = new Http2Connection(agentOptions(), this)
    this.#idle = setTimeout(() => this.#endIdle(), LIMITS.keepAliveMs)
    socket.on('data', (chunk: Buffer) => this.#connection.receive(chunk))
    socket.on('drain', () => this.#connection.drained())
    // Its side may be half open: an agent that ended it would hold upstreams.
    socket.once('end', () => socket.destroy())
    socket.once('close', () => {
      clearTimeout(this.#idle)
      this.#connection.lost()
    })
  }

  close(): void {
    this.#connection.close()
  }

  send(bytes: Buffer): boolean {
    return this.#socket.destroyed || this.#socket.write(bytes)
  }

  onRequest(stream: Http2Stream, head: RequestFields, isEnd: boolean): StreamOwner {
    // I22: each stream has an agent, a decision and a credential of its own.
    const agent = new Http2Agent(stream, head, isEnd)
    this.#handle(agent, this.#tunnel).catch(() => agent.abort())
    return agent
  }

  onSettings(): void {}

  onGoaway(): void {}

  onRoom(): void {
    if (this.#connection.load === 0) this.#idle.refresh()
  }

  onEnd(error: ConnectionError | undefined): void {
    if (error) this.#log.warn({ host: this.#tunnel.host, code: nameOfCode(error.code) }, `HTTP/2 with the agent failed: ${error.message}`)
    if (this.#socket.destroyed) return
    this.#socket.destroySoon()
    // An agent that does not read would keep what is said to it.
    this.#socket.pause()
    this.#socket.setTimeout(LIMITS.farewellMs, () => this.#socket.destroy())
  }

  #endIdle(): void {
    if (this.#connection.load === 0) this.#connection.close()
  }
}

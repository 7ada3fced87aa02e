import { performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import { codeOf } from '../../kernel/errors.ts'
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
 * nghttp2 keeps to these: streams, header bytes and fields (CONTINUATION floods end the connection, CVE-2024-27316), resets
 * (CVE-2023-44487), settings and pings. Extended CONNECT (RFC 8441) is not offered: clients open a WebSocket over HTTP/1.1.
 */
const SESSION_OPTIONS = {
  settings: {
    maxConcurrentStreams: LIMITS.streamsMax,
    maxHeaderListSize: LIMITS.headBytesMax,
    initialWindowSize: LIMITS.streamWindowBytes,
    enableConnectProtocol: false,
  },
  maxHeaderListPairs: LIMITS.headFieldsMax,
  streamResetBurst: LIMITS.streamResetsBurstMax,
  streamResetRate: LIMITS.streamResetsPerSecondMax,
  // Two values of a field that should have one are the upstream's own affair, as over HTTP/1. Node would throw.
  strictSingleValueFields: false,
  maxSessionInvalidFrames: 20,
  maxSessionRejectedStreams: 20,
}

export function createHttp2(handle: Handle, log: Log): Http2 {
  const sessions = new Set<ServerHttp2Session>()
  return {
    serve(socket, tunnel) {
      const session = performServerHandshake(socket, SESSION_OPTIONS)
      sessions.add(session)
      session.once('close', () => sessions.delete(session))
      // Its socket may be half open, and the session says nothing of that: an agent that ended its side would hold upstreams.
      socket.once('end', () => session.destroy())
      session.on('error', (error) => {
        if (codeOf(error) !== 'ECONNRESET') log.warn({ host: tunnel.host, code: codeOf(error) }, 'HTTP/2 with the agent failed')
      })
      const isIdle = watchIdle(session)
      session.on('stream', (stream: ServerHttp2Stream, _headers: unknown, flags: number, raw: unknown) => {
        isIdle(stream)
        // I22: each stream has an agent, a decision and a credential of its own.
        const agent = new Http2Agent(stream, Array.isArray(raw) ? raw.filter((part) => typeof part === 'string') : [], flags)
        handle(agent, tunnel).catch(() => agent.abort())
      })
    },
    drain() {
      for (const session of sessions) session.close()
    },
  }
}

/** Ends a session that has had no stream for `LIMITS.keepAliveMs`, whatever else it sends: bytes alone keep nothing open. */
function watchIdle(session: ServerHttp2Session): (stream: ServerHttp2Stream) => void {
  let open = 0
  const end = (): void => {
    session.close()
    session.destroy()
  }
  let timer = setTimeout(end, LIMITS.keepAliveMs)
  session.once('close', () => clearTimeout(timer))
  return (stream) => {
    open += 1
    clearTimeout(timer)
    stream.once('close', () => {
      open -= 1
      if (open === 0 && !session.destroyed) timer = setTimeout(end, LIMITS.keepAliveMs)
    })
  }
}

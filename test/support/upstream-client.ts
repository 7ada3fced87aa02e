import { once } from 'node:events'
import {
  createSecureServer,
  type Http2SecureServer,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { system } from '../../src/kernel/system.ts'
import { createAuthority } from '../../src/pki/pki.ts'
import type { UpstreamKey } from '../../src/sidecar/upstream/upstreams.ts'
import type { Upstream, UpstreamController, UpstreamHandler, UpstreamRequest } from '../../src/sidecar/upstream/upstream.ts'
import { hostname } from './policy.ts'
import { leafFor } from './upstream.ts'

export const HOST = 'api.example.com'
const authority = createAuthority('upstream', system)
/** The certificate of HOST, and what trusts it. */
export const LEAF = leafFor(authority, HOST)
export const TRUST = createSecureContext({ ca: authority.certificatePem })
/** For the certificates of other hosts of the same authority. */
export const leafOf = (host: string): { cert: string; key: string } => leafFor(authority, host)

export function keyFor(port: number, more: Partial<UpstreamKey> = {}): UpstreamKey {
  return { scheme: 'https', host: hostname(HOST), port, addresses: ['127.0.0.1'], credential: '', generation: 0, ...more }
}

export type Answer = {
  status: number
  interim: number[]
  headers: string[]
  trailers: string[]
  body: Buffer
  bytes: number
}

/** One exchange as it goes on: what its handler was told, and its controller. */
export class Taker implements UpstreamHandler {
  readonly answer: Answer = { status: 0, interim: [], headers: [], trailers: [], body: Buffer.alloc(0), bytes: 0 }
  readonly started = Promise.withResolvers<UpstreamController>()
  readonly answered = Promise.withResolvers<UpstreamController>()
  readonly upgraded = Promise.withResolvers<Duplex>()
  readonly done = Promise.withResolvers<Answer>()
  /** Called with each piece instead of keeping it. */
  onChunk: ((controller: UpstreamController, chunk: Buffer) => void) | undefined
  bytesSent = 0
  isSent = false
  /** How often one of the last calls came. */
  ends = 0

  constructor() {
    for (const { promise } of [this.started, this.answered, this.done]) promise.catch(() => {})
  }

  onRequestStart(controller: UpstreamController): void {
    this.started.resolve(controller)
  }

  onBodySent(bytes: number): void {
    this.bytesSent += bytes
  }

  onRequestSent(): void {
    this.isSent = true
  }

  onResponseStart(controller: UpstreamController, status: number): void {
    if (status < 200) return void this.answer.interim.push(status)
    this.answer.status = status
    this.answer.headers = [...controller.rawHeaders]
    this.answered.resolve(controller)
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    this.answer.bytes += chunk.length
    if (this.onChunk) this.onChunk(controller, chunk)
    else this.answer.body = Buffer.concat([this.answer.body, chunk])
  }

  onResponseEnd(controller: UpstreamController): void {
    this.ends += 1
    this.answer.trailers = [...controller.rawTrailers]
    this.done.resolve(this.answer)
  }

  onResponseError(_controller: UpstreamController, error: Error): void {
    this.ends += 1
    for (const { reject } of [this.started, this.answered, this.done]) reject(error)
  }

  onRequestUpgrade(_controller: UpstreamController, status: number, socket: Duplex): void {
    this.answer.status = status
    this.upgraded.resolve(socket)
  }
}

/** Starts an exchange; GET / of HOST unless `request` says otherwise. */
export function take(upstream: Upstream, request: Partial<UpstreamRequest> = {}, taker = new Taker()): Taker {
  upstream.dispatch({ method: 'GET', path: '/', headers: ['host', HOST], ...request }, taker)
  return taker
}

/** The answer of an exchange. */
export function ask(upstream: Upstream, request: Partial<UpstreamRequest> = {}): Promise<Answer> {
  return take(upstream, request).done.promise
}

export type TestServer = AsyncDisposable & {
  readonly port: number
  /** Connections so far. */
  readonly connections: number
  /** Connections that are not closed. */
  readonly open: number
  readonly sessions: Set<ServerHttp2Session>
}

/** An HTTP/2 server of HOST with Node's own streams. */
export async function openStreams(
  onStream: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, raw: string[]) => void,
  options: SecureServerOptions = {},
): Promise<TestServer> {
  const server = createSecureServer({ ...LEAF, ...options })
  const sessions = new Set<ServerHttp2Session>()
  server.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => {})
    session.once('close', () => sessions.delete(session))
  })
  server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, flags: number, raw: string[]) => {
    stream.on('error', () => {})
    onStream(stream, headers, flags, raw)
  })
  return listen(server, sessions)
}

/** A TLS server of HOST that speaks whatever `onSocket` writes, under these ALPN ids. */
export function openTlsSockets(onSocket: (socket: TLSSocket) => void, ALPNProtocols: string[]): Promise<TestServer> {
  return listen(createTlsServer({ ...LEAF, ALPNProtocols }, onSocket), new Set())
}

async function listen(
  server: Http2SecureServer | ReturnType<typeof createTlsServer>,
  sessions: Set<ServerHttp2Session>,
): Promise<TestServer> {
  const sockets = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('secureConnection', (socket: TLSSocket) => socket.on('error', () => {}))
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    get open() {
      return sockets.size
    },
    sessions,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

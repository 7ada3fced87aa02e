import {
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type SecureServerOptions,
  type ServerHttp2Session,
} from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { listenAsUpstream, type Place, type Recorded, type Upstream } from './upstream.ts'

export type RecordedStream = Recorded & {
  readonly protocol: 'h2' | 'http/1.1'
  /** `:authority` or Host. */
  readonly authority: string
  /** Names and values in turn, after the body. */
  readonly rawTrailers: readonly string[]
}

export type Http2Upstream = Upstream<RecordedStream>
export type StreamRequest = Http2ServerRequest | IncomingMessage
export type StreamResponse = Http2ServerResponse | ServerResponse
export type Protocol = RecordedStream['protocol']

export type Http2UpstreamOptions = {
  /** What it offers by ALPN. Default: both. A server of `h2` alone refuses a client without it. */
  readonly protocols?: readonly Protocol[]
  /** Called when the head is there. By default the answer is `ok` at the end of the body. */
  readonly answer?: (request: StreamRequest, response: ServerResponse) => void
  readonly server?: SecureServerOptions
  /** Whether bodies are kept. Default: yes. */
  readonly isRecording?: boolean
  readonly place?: Place
}

/** Flow control that is no bottleneck: Node's own window of a connection is 64 KB. */
const WINDOW_BYTES = 4 * 1024 * 1024

/** An HTTPS upstream on loopback that speaks HTTP/2, HTTP/1.1 or both, and records what arrives: bodies up to 1 MB. */
export async function openHttp2Upstream(tls: { cert: string; key: string }, options: Http2UpstreamOptions = {}): Promise<Http2Upstream> {
  const protocols = options.protocols ?? ['h2', 'http/1.1']
  const requests: RecordedStream[] = []
  const answer = options.answer ?? answerOk
  const onRequest = (request: StreamRequest, response: StreamResponse): void => {
    requests.push(recordStream(request, options.isRecording))
    response.on('error', () => {}) // a stream that breaks off is a case of many tests
    answer(request, response as ServerResponse)
  }
  const server = protocols.includes('h2')
    ? createSecureServer(
        { ...tls, settings: { initialWindowSize: WINDOW_BYTES }, ...options.server, allowHTTP1: protocols.includes('http/1.1') },
        onRequest,
      )
    : createHttpsServer({ ...tls, ALPNProtocols: ['http/1.1'] }, onRequest)
  server.on('sessionError', () => {})
  server.on('session', (session: ServerHttp2Session) => session.setLocalWindowSize(WINDOW_BYTES))
  return listenAsUpstream(server, requests, options.place)
}

/** What arrived, its body up to 1 MB and its trailers filled in as they come. */
export function recordStream(request: StreamRequest, isRecording = true): RecordedStream {
  const entry = {
    protocol: request.httpVersionMajor === 2 ? ('h2' as const) : ('http/1.1' as const),
    authority: String(request.headers[':authority'] ?? request.headers.host ?? ''),
    method: request.method ?? '',
    url: request.url ?? '',
    rawHeaders: [...request.rawHeaders],
    rawTrailers: [] as string[],
    body: Buffer.alloc(0),
    remotePort: request.socket.remotePort ?? 0,
  }
  request.on('error', () => {})
  if (isRecording)
    request.on('data', (chunk: Buffer) => {
      if (entry.body.length < 1_000_000) entry.body = Buffer.concat([entry.body, chunk])
    })
  request.on('end', () => entry.rawTrailers.push(...request.rawTrailers))
  return entry
}

function answerOk(request: StreamRequest, response: ServerResponse): void {
  request.on('end', () => response.end('ok'))
}

/** The value of a recorded header, or undefined. */
export function headerOf(request: { readonly rawHeaders: readonly string[] } | undefined, name: string): string | undefined {
  const raw = request?.rawHeaders ?? []
  const at = raw.findIndex((field, index) => index % 2 === 0 && field.toLowerCase() === name)
  return at < 0 ? undefined : raw[at + 1]
}

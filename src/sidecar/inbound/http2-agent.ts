import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Agent } from '../egress/agent.ts'
import type { RequestHead } from '../egress/facts.ts'
import type { RawHeaders } from '../egress/headers.ts'

/** A request of an HTTP/2 stream. What HTTP/1 has in its first line comes from the pseudo-header fields (RFC 9113 §8.3.1). */
export class Http2Agent implements Agent {
  readonly head: RequestHead
  readonly isModern = true
  readonly body: ServerHttp2Stream | undefined
  readonly upgrade = undefined
  readonly #stream: ServerHttp2Stream
  #trailers: RawHeaders = []
  #isUploaded: boolean
  #start: string[] | undefined
  #isEnded = false

  constructor(stream: ServerHttp2Stream, raw: RawHeaders, flags: number) {
    this.#stream = stream
    this.head = headOf(raw)
    this.#isUploaded = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0
    this.body = this.#isUploaded ? undefined : stream
    stream.on('trailers', (_trailers: unknown, _flags: number, fields: unknown) => {
      if (Array.isArray(fields)) this.#trailers = fields.filter((part) => typeof part === 'string')
    })
    stream.on('end', () => (this.#isUploaded = true))
    // Told by 'close' too, and without a listener it would end the process.
    stream.on('error', () => {})
  }

  get isUploaded(): boolean {
    return this.#isUploaded
  }

  get isGone(): boolean {
    return this.#stream.destroyed || this.#stream.closed
  }

  get isAnswered(): boolean {
    return this.#stream.headersSent
  }

  trailers(): RawHeaders {
    return this.#trailers
  }

  sendInterim(status: number, headers: readonly string[]): void {
    if (this.isGone || this.#stream.headersSent) return
    const fields: Record<string, string[]> = {}
    headers.forEach((name, i) => {
      if (i % 2 === 0) (fields[name.toLowerCase()] ??= []).push(headers[i + 1] ?? '')
    })
    this.#stream.additionalHeaders({ ':status': status, ...fields })
  }

  start(status: number, _reason: string, headers: readonly string[]): void {
    this.#start = [':status', String(status), ...headers.map((part, i) => (i % 2 === 0 ? part.toLowerCase() : part))]
  }

  flush(): void {
    this.#respond(false)
  }

  write(chunk: Buffer): boolean {
    this.#respond(false)
    return this.isGone || this.#stream.write(chunk)
  }

  onceDrained(listener: () => void): void {
    this.#stream.once('drain', listener)
  }

  end(trailers: RawHeaders): void {
    if (this.isGone) return
    this.#isEnded = true
    // gRPC tells an answer of trailers alone by the end of the stream in its head.
    this.#respond(trailers.length === 0)
    this.#stream.once('wantTrailers', () => this.#stream.sendTrailers(fieldsOf(trailers)))
    this.#stream.end()
    // RFC 9113 §8.1: the rest of a body that nobody wants is stopped without an error.
    if (!this.#isUploaded) this.#stream.once('finish', () => this.#stream.close(constants.NGHTTP2_NO_ERROR))
  }

  refuse(status: number, headers: Readonly<Record<string, string>>, body: string): void {
    if (this.isGone || this.#isEnded) return
    this.start(status, '', Object.entries(headers).flat())
    if (this.head.method !== 'HEAD') this.write(Buffer.from(body))
    this.end([])
  }

  abort(): void {
    if (!this.isGone) this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR)
  }

  onGone(listener: () => void): () => void {
    this.#stream.on('close', listener)
    return () => this.#stream.off('close', listener)
  }

  #respond(endStream: boolean): void {
    if (this.#start === undefined || this.isGone || this.#stream.headersSent) return
    this.#stream.respond(this.#start as never, { endStream, waitForTrailers: !endStream, ...NO_DATE })
  }
}

/** The date is the upstream's to say, and Node takes this option without a type for it. */
const NO_DATE = { sendDate: false }

/** As HTTP/1 would have it: one Host in front, cookie crumbs in one field (RFC 9113 §8.2.3). */
function headOf(raw: RawHeaders): RequestHead {
  const pseudo = new Map<string, string>()
  const fields: string[] = []
  const cookies: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] ?? ''
    const value = raw[i + 1] ?? ''
    if (name.startsWith(':')) pseudo.set(name, value)
    else if (name === 'cookie') cookies.push(value)
    // A Host that says the same is one too many for HTTP/1; one that says something else is for facts.ts to refuse.
    else if (name !== 'host' || value !== pseudo.get(':authority')) fields.push(name, value)
  }
  const authority = pseudo.get(':authority')
  if (authority !== undefined) fields.unshift('host', authority)
  if (cookies.length > 0) fields.push('cookie', cookies.join('; '))
  return {
    method: pseudo.get(':method') ?? '',
    url: pseudo.get(':path') ?? '',
    rawHeaders: fields,
    scheme: pseudo.get(':scheme'),
  }
}

function fieldsOf(flat: RawHeaders): Record<string, string[]> {
  const fields: Record<string, string[]> = {}
  flat.forEach((name, i) => {
    if (i % 2 === 0) (fields[name.toLowerCase()] ??= []).push(flat[i + 1] ?? '')
  })
  return fields
}

import { validateHeaderName, validateHeaderValue } from 'node:http'
import { constants, type ServerHttp2Stream } from 'node:http2'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Agent } from '../egress/agent.ts'
import type { RequestHead } from '../egress/facts.ts'
import type { RawHeaders } from '../egress/headers.ts'
import { watchArrival } from '../upstream/http2-arrival.ts'

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
    const hasBody = (flags & constants.NGHTTP2_FLAG_END_STREAM) === 0
    this.body = hasBody ? stream : undefined
    // The end of the body may have come with the head.
    this.#isUploaded = !hasBody || stream.state.remoteClose === 1
    if (hasBody) this.#watchBody()
    stream.on('trailers', (_trailers: unknown, _flags: number, fields: unknown) => {
      if (Array.isArray(fields)) this.#trailers = fields.filter((part) => typeof part === 'string')
    })
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
    this.#stream.additionalHeaders({ ':status': status, ...fieldsOf(headers) })
  }

  start(status: number, _reason: string, headers: readonly string[]): void {
    // Node takes no other, and would say so only when it writes the head.
    if (status > 599) throw new SallyportError('upstream_invalid', `the answer has the status ${status}, which HTTP/2 has no words for`)
    this.#start = [':status', String(status), ...writable(headers)]
  }

  flush(): void {
    this.#respond(false)
  }

  write(chunk: Buffer): boolean {
    this.#respond(false)
    // Node has ended an answer whose status has no body (205): what comes all the same goes nowhere.
    return this.isGone || this.#stream.writableEnded || this.#stream.write(chunk)
  }

  onceDrained(listener: () => void): void {
    this.#stream.once('drain', listener)
  }

  end(trailers: RawHeaders): void {
    const fields = fieldsOf(trailers)
    if (this.isGone) return
    this.#isEnded = true
    // gRPC tells an answer of trailers alone by the end of the stream in its head.
    this.#respond(trailers.length === 0)
    this.#stream.once('wantTrailers', () => this.#stream.sendTrailers(fields))
    this.#stream.end()
    this.#boundRest()
    if (this.#isUploaded) return
    this.#stream.resume()
    setImmediate(this.#stopUpload)
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

  /** What waits to be read stays within the stream's window, and a body that breaks off does not end. */
  #watchBody(): void {
    const stream = this.#stream
    watchArrival(stream, () => (this.#isUploaded = true))
    const push = stream.push.bind(stream)
    stream.push = (chunk: Buffer | null): boolean => {
      if (chunk === null && stream.closed) {
        // Nobody needs what is left of it, and unread it would keep the stream. Not here, where Node goes on to use it.
        if (!stream.destroyed) process.nextTick(() => stream.destroy())
        // Node ends the readable side of a stream that is reset: half a body would go on as a whole one. I10
        if (!this.#isUploaded) return false
      }
      return push(chunk)
    }
    // Until somebody wants the body.
    stream.pause()
  }

  /** RFC 9113 §8.1: the rest of a body that nobody wants is stopped without an error, behind the whole answer and never before. */
  readonly #stopUpload = (): void => {
    if (this.#isUploaded || this.isGone) return
    // Node does not tell when END_STREAM is out, and a reset would overtake it.
    if (this.#stream.state.localClose === 1) this.#stream.close(constants.NGHTTP2_NO_ERROR)
    else setTimeout(this.#stopUpload, STOP_LOOK_MS)
  }

  /** An agent that opens no window for the rest of its answer does not keep it, and the session, for good. */
  #boundRest(): void {
    const timer = setTimeout(() => this.#stream.close(constants.NGHTTP2_CANCEL), LIMITS.bodyIdleMs)
    this.#stream.once('close', () => clearTimeout(timer))
  }

  #respond(endStream: boolean): void {
    if (this.#start === undefined || this.isGone || this.#stream.headersSent) return
    this.#stream.respond(this.#start, { endStream, waitForTrailers: !endStream, ...NO_DATE })
  }
}

/** How often it is looked whether an answer is out. */
const STOP_LOOK_MS = 10

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

/** Names in lower case. Node would write them later, where nobody takes its error. @throws on what cannot be written */
function writable(headers: RawHeaders): string[] {
  return headers.map((part, i) => {
    if (i % 2 === 0) validateHeaderName(part)
    else validateHeaderValue(headers[i - 1] ?? '', part)
    return i % 2 === 0 ? part.toLowerCase() : part
  })
}

/** The same as Node takes what is not the head of an answer. Any name is a field, "__proto__" too. */
function fieldsOf(headers: RawHeaders): Record<string, string[]> {
  const flat = writable(headers)
  const fields = Object.create(null) as Record<string, string[]>
  flat.forEach((name, i) => {
    if (i % 2 === 0) (fields[name] ??= []).push(flat[i + 1] ?? '')
  })
  return fields
}

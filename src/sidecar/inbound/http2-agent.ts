import { Readable } from 'node:stream'
import type { RequestFields } from '../../http2/fields.ts'
import { CODE } from '../../http2/protocol.ts'
import type { Http2Stream, StreamOwner } from '../../http2/stream.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Agent } from '../egress/agent.ts'
import type { RequestHead } from '../egress/facts.ts'
import type { RawHeaders } from '../egress/headers.ts'
import { writableFields } from '../upstream/http2-fields.ts'

/** A request of an HTTP/2 stream. What HTTP/1 has in its first line comes from the pseudo-header fields (RFC 9113 §8.3.1). */
export class Http2Agent implements Agent, StreamOwner {
  readonly head: RequestHead
  readonly isModern = true
  readonly body: Http2Body | undefined
  readonly upgrade = undefined
  readonly #stream: Http2Stream
  #trailers: RawHeaders = []
  #status = 0
  #fields: readonly string[] = []
  #isAnswered = false
  #isEnded = false
  #rest: NodeJS.Timeout | undefined
  #onGone: (() => void)[] = []
  #onDrained: (() => void)[] = []

  constructor(stream: Http2Stream, fields: RequestFields, isEnd: boolean) {
    this.#stream = stream
    this.head = headOf(fields)
    this.body = isEnd ? undefined : new Http2Body(stream)
  }

  get isUploaded(): boolean {
    return this.body === undefined || this.#stream.isWhole
  }

  get isGone(): boolean {
    return this.#stream.isClosed
  }

  get isAnswered(): boolean {
    return this.#isAnswered
  }

  trailers(): RawHeaders {
    return this.#trailers
  }

  sendInterim(status: number, headers: readonly string[]): void {
    if (!this.isGone && !this.#isAnswered) this.#stream.interim(status, writableFields(headers))
  }

  start(status: number, _reason: string, headers: readonly string[]): void {
    // RFC 9110 §15: there are no others, and HTTP/2 has no words for them.
    if (status > 599) throw new SallyportError('upstream_invalid', `the answer has the status ${status}, which HTTP/2 has no words for`)
    this.#fields = writableFields(headers)
    this.#status = status
  }

  flush(): void {
    this.#respond()
  }

  write(chunk: Buffer): boolean {
    this.#respond()
    return this.#stream.write(chunk)
  }

  onceDrained(listener: () => void): void {
    this.#onDrained.push(listener)
  }

  end(trailers: RawHeaders): void {
    const fields = writableFields(trailers)
    if (this.isGone) return
    this.#isEnded = true
    this.#respond()
    this.#stream.end(fields)
    // What nobody takes any more must not keep the stream.
    this.body?.resume()
  }

  refuse(status: number, headers: Readonly<Record<string, string>>, body: string): void {
    if (this.isGone || this.#isEnded) return
    this.start(status, '', Object.entries(headers).flat())
    if (this.head.method !== 'HEAD') this.write(Buffer.from(body))
    this.end([])
  }

  abort(): void {
    if (!this.isGone) this.#reset(CODE.INTERNAL_ERROR)
  }

  onGone(listener: () => void): () => void {
    this.#onGone.push(listener)
    return () => {
      const at = this.#onGone.indexOf(listener)
      if (at >= 0) this.#onGone.splice(at, 1)
    }
  }

  onInterim(): void {}

  onHead(): void {}

  onData(chunk: Buffer): void {
    this.body?.arrive(chunk)
  }

  onEnd(trailers: string[]): void {
    this.#trailers = trailers
    this.body?.arriveEnd()
  }

  onDrain(): void {
    const listeners = this.#onDrained
    this.#onDrained = []
    for (const listener of listeners) listener()
  }

  /** An agent that opens no window for the rest of its answer does not keep it, and the session, for good. */
  onHeld(): void {
    this.#rest = setTimeout(() => this.#reset(CODE.CANCEL), LIMITS.bodyIdleMs)
  }

  /** RFC 9113 §8.1: the rest of a body that nobody wants is stopped without an error, behind the whole answer and never before. */
  onSent(): void {
    this.#reset(CODE.NO_ERROR)
  }

  onBreak(): void {
    this.#gone()
  }

  onClose(): void {
    this.#gone()
  }

  #reset(code: number): void {
    this.#stream.reset(code)
    this.#gone()
  }

  #gone(): void {
    clearTimeout(this.#rest)
    // I10: what broke off does not end.
    this.body?.breakOff()
    const listeners = this.#onGone
    this.#onGone = []
    for (const listener of listeners) listener()
  }

  #respond(): void {
    if (this.#status === 0 || this.#isAnswered || this.isGone) return
    this.#isAnswered = true
    this.#stream.respond(this.#status, this.#fields)
    // What comes all the same goes nowhere.
    if (this.head.method === 'HEAD' || BODILESS.has(this.#status)) this.#stream.end()
  }
}

/** RFC 9110 §15: answers without a body. */
const BODILESS = new Set([204, 205, 304])

/** The body of a request. It is taken off the wire only as it is read, within the stream's window. */
class Http2Body extends Readable {
  readonly #stream: Http2Stream

  constructor(stream: Http2Stream) {
    // What waits does so in the stream, where small pieces are gathered.
    super({ highWaterMark: 1 })
    this.#stream = stream
    stream.pause()
  }

  arrive(chunk: Buffer): void {
    if (!this.push(chunk)) this.#stream.pause()
  }

  arriveEnd(): void {
    this.push(null)
  }

  breakOff(): void {
    if (!this.readableEnded) this.destroy()
  }

  override _read(): void {
    this.#stream.resume()
  }
}

/** As HTTP/1 would have it: one Host in front, cookie crumbs in one field (RFC 9113 §8.2.3). */
function headOf({ method, scheme, authority, path, headers }: RequestFields): RequestHead {
  const fields: string[] = authority === undefined ? [] : ['host', authority]
  let cookies: string[] | undefined
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    const value = headers[i + 1] as string
    if (name === 'cookie') (cookies ??= []).push(value)
    // A Host that says the same is one too many for HTTP/1; one that says something else is for facts.ts to refuse.
    else if (name !== 'host' || value !== authority) fields.push(name, value)
  }
  if (cookies) fields.push('cookie', cookies.join('; '))
  return { method, url: path, rawHeaders: fields, scheme }
}

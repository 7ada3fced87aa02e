import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import { SallyportError } from '../../kernel/errors.ts'
import type { MessageHead } from '../../http1/parser.ts'
import type { Agent } from '../egress/agent.ts'
import type { RequestHead } from '../egress/facts.ts'
import type { RawHeaders } from '../egress/headers.ts'
import type { RequestBody } from './http1-body.ts'
import { fieldLine, fieldLines, isDateField, isLengthField } from './http1-fields.ts'

/** What an answer needs of the connection that it goes out on. */
export type Line = {
  readonly socket: Socket
  /** The fields by which a connection is offered for a next request. */
  readonly keepAliveLines: string
  /** For an answer whose upstream said none (RFC 9110 §6.6.1). */
  dateLine(): string
  /** True when this answer is due, and somebody is there for it. */
  isDue(agent: Http1Agent): boolean
  /** The answer is whole. */
  onAnswered(agent: Http1Agent, isLast: boolean): void
  /** Nothing that comes behind the answer that is due is processed (RFC 9112 §9.6). */
  deafen(): void
  /** Lets go of the socket, for bytes instead of HTTP. What came so far is put back, and it is paused. */
  release(): Socket
}

/** How the end of an answer is told. `none`: it has no body, whatever comes. */
type Framing = 'length' | 'chunked' | 'close' | 'none'

/** A body up to here goes out in one piece with what is before it. */
const SMALL_BYTES = 8 * 1024
const LAST_CHUNK = '0\r\n'

/** A request of an HTTP/1 connection. */
export class Http1Agent implements Agent {
  readonly head: RequestHead
  readonly isModern: boolean
  readonly body: RequestBody | undefined
  readonly upgrade: Agent['upgrade'] = undefined
  isUploaded = false
  readonly #line: Line
  #isKept: boolean
  /** False as long as the agent may wait for 100 before it sends its body, or send it all the same. */
  #isContinued: boolean
  #trailers: RawHeaders = []
  #framing: Framing | undefined
  #isEnded = false
  /** Text that is still to be written: the head, and small parts of the body. */
  #text = ''
  #isFlushing = false
  #onGone: (() => void)[] = []
  #onDrained: (() => void)[] = []

  constructor(line: Line, head: MessageHead, body: RequestBody | undefined, expectsContinue: boolean, isUpgrade = false) {
    this.#line = line
    this.head = { method: head.method, url: head.target, rawHeaders: head.headers, isUpgrade }
    this.isModern = head.version === '1.1'
    this.body = body
    // Behind an upgrade nobody reads on, taken or not.
    this.#isKept = head.keepsAlive && !head.isUpgrade
    this.#isContinued = !expectsContinue
  }

  get isGone(): boolean {
    return !this.#line.isDue(this)
  }

  /** The whole answer is on its way. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** How much memory the head takes that waits, about. */
  get headChars(): number {
    return this.head.rawHeaders.reduce((sum, { length }) => sum + length, this.head.url.length)
  }

  get isAnswered(): boolean {
    return this.#framing !== undefined
  }

  trailers(): RawHeaders {
    return this.#trailers
  }

  sendInterim(status: number, headers: readonly string[]): void {
    if (this.isAnswered || this.isGone) return
    if (status === 100) this.#isContinued = true
    this.#line.socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${fieldLines(headers)}\r\n`, 'latin1')
  }

  start(status: number, reason: string, headers: readonly string[]): void {
    if (this.isAnswered) throw new Error('answered twice')
    if (!(status >= 200 && status <= 999)) throw new SallyportError('upstream_invalid', `the answer has the status ${status}`)
    let lines = ''
    let hasLength = false
    let hasDate = false
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] ?? ''
      lines += fieldLine(name, headers[i + 1] ?? '')
      hasLength ||= isLengthField(name)
      hasDate ||= isDateField(name)
    }
    const framing = this.#framingOf(status, hasLength)
    // An agent that waits for 100 may send its body all the same: behind an answer without it nobody knows what comes.
    this.#isKept &&= this.#isContinued && (hasLength || this.isModern)
    this.#text =
      `HTTP/1.1 ${status} ${reason}\r\n${lines}${hasDate ? '' : this.#line.dateLine()}` +
      `${this.#isKept ? this.#line.keepAliveLines : 'Connection: close\r\n'}${framing === 'chunked' ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n'}`
    this.#framing = framing
  }

  flush(): void {
    this.#isFlushing = false
    const text = this.#text
    if (text === '') return
    this.#text = ''
    if (!this.isGone) this.#line.socket.write(text, 'latin1')
  }

  write(chunk: Buffer): boolean {
    if (this.#framing === undefined || this.#isEnded) throw new Error('written out of order')
    if (this.#framing === 'none' || chunk.length === 0 || this.isGone) return true
    const isChunked = this.#framing === 'chunked'
    if (isChunked) this.#text += `${chunk.length.toString(16)}\r\n`
    const { socket } = this.#line
    if (chunk.length <= SMALL_BYTES) {
      this.#text += isChunked ? `${chunk.latin1Slice()}\r\n` : chunk.latin1Slice()
      if (this.#text.length > 2 * SMALL_BYTES) this.flush()
      else this.#flushSoon()
    } else {
      socket.cork()
      this.flush()
      socket.write(chunk)
      if (isChunked) socket.write('\r\n', 'latin1')
      socket.uncork()
    }
    // What the system took at once does not wait, and below its mark a socket tells of no drain.
    return socket.writableLength < socket.writableHighWaterMark
  }

  onceDrained(listener: () => void): void {
    this.#onDrained.push(listener)
  }

  end(trailers: RawHeaders): void {
    if (this.#framing === undefined || this.#isEnded) throw new Error('ended out of order')
    if (this.#framing === 'chunked') this.#text += `${LAST_CHUNK}${fieldLines(trailers)}\r\n`
    this.#isEnded = true
    if (this.isGone) return
    this.flush()
    this.#line.onAnswered(this, !this.#isKept)
  }

  refuse(status: number, headers: Readonly<Record<string, string>>, body: string): void {
    if (this.#isEnded) return
    if (this.isAnswered) throw new Error('refused behind its answer')
    this.#isKept = false
    this.#isEnded = true
    this.#framing = 'length'
    if (this.isGone) return
    this.#line.deafen()
    const lines = fieldLines(Object.entries({ ...headers, connection: 'close' }).flat())
    const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines}${this.#line.dateLine()}\r\n`
    this.#line.socket.write(this.head.method === 'HEAD' ? head : Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]), 'latin1')
    this.#line.onAnswered(this, true)
  }

  abort(): void {
    const { socket } = this.#line
    // The end of the connection is the end of such an answer (RFC 9112 §6.3): only a reset says that it is none.
    if (this.#framing === 'close' && !(socket instanceof TLSSocket) && !socket.destroyed) socket.resetAndDestroy()
    else socket.destroy()
  }

  onGone(listener: () => void): () => void {
    this.#onGone = [...this.#onGone, listener]
    return () => (this.#onGone = this.#onGone.filter((one) => one !== listener))
  }

  /** The request is whole. */
  complete(trailers: RawHeaders): void {
    this.#trailers = trailers
    this.isUploaded = true
    this.body?.complete()
  }

  /** The connection is gone. */
  leave(): void {
    for (const listener of this.#onGone) listener()
    this.body?.break()
  }

  /** The connection takes more. */
  drained(): void {
    const listeners = this.#onDrained
    this.#onDrained = []
    for (const listener of listeners) listener()
  }

  /** At the end of the turn: what comes in one read from the upstream goes out in one write. */
  #flushSoon(): void {
    if (this.#isFlushing) return
    this.#isFlushing = true
    if (flushing.push(this) === 1) process.nextTick(flushAll)
  }

  #framingOf(status: number, hasLength: boolean): Framing {
    if (status === 204 || status === 304 || this.head.method === 'HEAD') return 'none'
    return hasLength ? 'length' : this.isModern ? 'chunked' : 'close'
  }
}

/** A request to become a WebSocket. Whatever else it is answered is the last answer of its connection, which nobody reads any more. */
export class UpgradingAgent extends Http1Agent {
  override readonly upgrade: NonNullable<Agent['upgrade']>

  constructor(line: Line, head: MessageHead) {
    super(line, head, undefined, false, true)
    this.isUploaded = true
    this.upgrade = (headers): Duplex => {
      const lines = fieldLines(headers)
      const socket = line.release()
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines}connection: Upgrade\r\nupgrade: websocket\r\n\r\n`, 'latin1')
      return socket
    }
  }
}

/** Agents with text that goes out when this turn ends. */
let flushing: Http1Agent[] = []

function flushAll(): void {
  const agents = flushing
  flushing = []
  for (const agent of agents) agent.flush()
}

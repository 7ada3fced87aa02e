import type { Socket } from 'node:net'
import type { Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { MessageError, MessageParser, type Following, type MessageHandler, type MessageHead } from '../../http1/parser.ts'
import type { RequestHead } from '../egress/facts.ts'
import type { CameBy } from '../egress/handle.ts'
import { sayFarewell } from '../egress/refuse.ts'
import { Http1Agent, UpgradingAgent, type Line } from './http1-agent.ts'
import { RequestBody } from './http1-body.ts'
import { traitsOf } from './http1-fields.ts'
import { refusalOfParser } from './refusal-of-parser.ts'

/** What all connections share. */
export type Service = {
  readonly keepAliveLines: string
  dateLine(): string
  /** Monotonic milliseconds, as of the last look at who is late; `LOOK_MS` lie between two. */
  readonly elapsedMs: number
  /** Begins the story of a request. Its end is told to the agent. */
  handle(agent: Http1Agent, connection: AgentConnection): void
  /** Takes the socket of a CONNECT, with what came behind it, or refuses it. */
  connect(request: RequestHead, connection: AgentConnection, behind: Buffer): void
  /** Answers what is no request, as the last answer. */
  refuse(connection: AgentConnection, refusal: Refusal): void
  /** The connection is closed, or none of HTTP any more. */
  forget(connection: AgentConnection): void
}

/** So long at least it takes until a connection that is late is found. */
export const LOOK_MS = 1_000
const NOTHING = Buffer.alloc(0)

/**
 * One HTTP/1 connection of an agent. Requests are read as they come and answered one by one, in their order: side by side a read
 * could overtake the write before it (RFC 9112 §9.3.2). It is read all the time, so that an agent that goes is noticed.
 */
export class AgentConnection implements MessageHandler, Line {
  readonly socket: Socket
  readonly by: CameBy
  readonly #service: Service
  readonly #parser = new MessageParser('request', this, LIMITS.headBytesMax)
  /** Whose answer is due, and whose turn comes then. */
  #due: Http1Agent | undefined
  #waiting: Http1Agent[] = NOBODY
  /** The request that is being read. `fresh` until it has its place. */
  #arriving: Http1Agent | undefined
  #fresh: Http1Agent | undefined
  /** A CONNECT or the handshake of a WebSocket: what comes behind it is none of HTTP. */
  #leaving: MessageHead | undefined
  /** What came behind a handshake before its answer. */
  #early: Buffer[] | undefined
  /** What is to be told behind the last answer. */
  #failure: Refusal | undefined
  /** It is being told. */
  #isRefused = false
  /** No request comes behind the one that is being read. */
  #isLast = false
  /** What comes is not looked at any more; `isTalking` when something did. */
  #isDeaf = false
  #isTalking = false
  #isClosed = false
  /** Requests wait for the agent to read the answers before theirs. */
  #isStuck = false
  /** The head of a request is due. A connection begins with that. */
  #isHeadDue = true
  /** When the connection has had its time, by `elapsedMs`. */
  #deadlineMs: number
  /** For the rest of a body that nobody needs. */
  #restTimer: NodeJS.Timeout | undefined

  constructor(socket: Socket, by: CameBy, service: Service) {
    this.socket = socket
    this.by = by
    this.#service = service
    this.#deadlineMs = this.#in(LIMITS.headTimeoutMs)
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('close', this.#onClose)
    // As long as there is the socket, also when it is handed over: an agent that resets it must not end the process for all.
    socket.on('error', this.destroy)
    socket.resume()
  }

  get keepAliveLines(): string {
    return this.#service.keepAliveLines
  }

  dateLine(): string {
    return this.#service.dateLine()
  }

  isDue(agent: Http1Agent): boolean {
    return this.#due === agent && !this.socket.destroyed
  }

  onAnswered(agent: Http1Agent, isLast: boolean): void {
    this.#due = undefined
    if (isLast) return this.#finish(agent)
    if (agent.isUploaded) return this.#awaitNext()
    // The upstream said all it had to say before it had the whole body. The agent may send the rest for nobody, but not for ever.
    agent.body?.forgo()
    this.#restTimer = setTimeout(this.destroy, LIMITS.farewellMs)
  }

  deafen(): void {
    this.#isDeaf = true
    this.#waiting = NOBODY
  }

  release(): Socket {
    const { socket } = this
    const early = this.#early
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
    socket.off('close', this.#onClose)
    // By the listener a tunnel would hold the whole connection, with its parser, for hours.
    socket.on('error', destroyItself)
    socket.off('error', this.destroy)
    socket.pause()
    if (early && early.length > 0) socket.unshift(Buffer.concat(early))
    this.#due = undefined
    this.#onClose()
    return socket
  }

  /** What came is no request. It is told when the answers before it are given: earlier it would be taken for one of them. */
  fail(refusal: Refusal): void {
    if (this.#isDeaf || this.#arriving !== undefined) return this.destroy()
    this.#isDeaf = true
    if (!this.#isStuck) this.#deadlineMs = Infinity
    if (this.#due !== undefined || this.#waiting.length > 0) this.#failure = refusal
    else this.#refuse(refusal)
  }

  /** Ends it if it has had its time. */
  expire(elapsedMs: number): void {
    if (elapsedMs < this.#deadlineMs) return
    if (this.#isHeadDue && !this.#isStuck) this.fail({ code: 'head_timeout', message: 'the request head did not arrive in time' })
    else this.destroy()
  }

  /** Ends it if it waits for a next request. */
  closeIfIdle(): void {
    const isBusy = this.#due !== undefined || this.#arriving !== undefined || this.#waiting.length > 0
    if (!isBusy && !this.#isHeadDue && !this.#isDeaf) this.socket.destroySoon()
  }

  readonly destroy = (): void => {
    this.#isDeaf = true
    this.socket.destroy()
  }

  onHead(head: MessageHead): Following {
    this.#isHeadDue = false
    this.#deadlineMs = Infinity
    const { hasBody, isWebSocket, expectsContinue } = traitsOf(head.headers)
    const isModern = head.version === '1.1'
    // HTTP/1.0 has no upgrades (RFC 9110 §7.8). Any other is an ordinary request, which is refused.
    if (head.method === 'CONNECT' || (head.isUpgrade && isModern && isWebSocket)) {
      this.#leaving = head
      return 'another protocol'
    }
    this.#isLast = head.isUpgrade || !head.keepsAlive
    const body = hasBody ? new RequestBody(this.#onRoom) : undefined
    this.#arriving = this.#fresh = new Http1Agent(this, head, body, isModern && expectsContinue)
    return 'body'
  }

  onBody(bytes: Buffer): void {
    if (this.#arriving?.body?.arrive(bytes) === false) this.socket.pause()
  }

  onEnd(trailers: readonly string[]): void {
    const agent = this.#arriving
    if (agent === undefined) return
    this.#arriving = undefined
    agent.complete(trailers)
    // It was answered before it was whole.
    if (!agent.isEnded) return
    clearTimeout(this.#restTimer)
    this.#awaitNext()
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#early) return this.#keepEarly(this.#early, chunk)
    let rest = chunk
    while (rest.length > 0 && !this.#isDeaf) {
      const read = this.#read(rest)
      rest = read === rest.length ? NOTHING : rest.subarray(read)
      if (this.#leaving && !this.#isDeaf) return this.#leave(this.#leaving, rest)
      if (this.#fresh) this.#admit(this.#fresh)
      // RFC 9112 §9.6: what comes behind is not processed.
      if (this.#isLast && this.#arriving === undefined) this.#isDeaf = true
    }
    if (rest.length > 0) this.#isTalking = true
    // From the first byte of a request on.
    if (this.#parser.isInside && this.#arriving === undefined && !this.#isHeadDue && !this.#isDeaf) {
      this.#isHeadDue = true
      this.#deadlineMs = this.#in(LIMITS.headTimeoutMs)
    }
  }

  /** How many bytes were read, up to the end of a request at most. */
  #read(bytes: Buffer): number {
    try {
      return this.#parser.execute(bytes)
    } catch (error) {
      // Its story has not begun.
      if (this.#fresh) this.#arriving = this.#fresh = undefined
      if (!(error instanceof MessageError)) throw error
      this.fail(refusalOfParser(error))
      return 0
    }
  }

  /** Gives a request its place. */
  #admit(agent: Http1Agent): void {
    this.#fresh = undefined
    const isStuffed = this.socket.writableNeedDrain
    if (this.#due === undefined && this.#waiting.length === 0 && !isStuffed) return this.#begin(agent)
    // Whoever asks and asks and reads no answers is read no further.
    if (this.#due === undefined && isStuffed) this.#pauseUntilRead()
    this.#waiting = [...this.#waiting, agent]
    const chars = this.#waiting.reduce((sum, { headChars }) => sum + headChars, 0)
    const bytes = this.#waiting.reduce((sum, { body }) => sum + (body?.readableLength ?? 0), 0)
    if (this.#waiting.length >= LIMITS.pipelinedMax || chars > LIMITS.headBytesMax || bytes > LIMITS.pipelinedBytesMax) this.destroy()
  }

  #begin(agent: Http1Agent): void {
    if (this.#isStuck) this.#deadlineMs = Infinity
    this.#isStuck = false
    this.#due = agent
    this.#service.handle(agent, this)
  }

  /** The answers so far are not read. For so long as a body that nobody reads, and then that is the end: a paused socket notices none. */
  #pauseUntilRead(): void {
    this.socket.pause()
    this.#isStuck = true
    this.#deadlineMs = this.#in(LIMITS.bodyIdleMs)
  }

  readonly #next = (): void => {
    const [agent, ...others] = this.#waiting
    if (agent === undefined || this.#due !== undefined || this.#isClosed) return
    if (this.socket.writableNeedDrain) return this.#pauseUntilRead()
    this.#waiting = others
    this.#begin(agent)
  }

  #awaitNext(): void {
    // Not now, in the midst of the upstream's answer to the one before.
    if (this.#waiting.length > 0) process.nextTick(this.#next)
    else if (this.#failure) this.#refuse(this.#failure)
    else if (!this.#isHeadDue) this.#deadlineMs = this.#in(LIMITS.keepAliveMs)
  }

  #refuse(refusal: Refusal): void {
    this.#isRefused = true
    this.#service.refuse(this, refusal)
  }

  #leave(head: MessageHead, behind: Buffer): void {
    this.#leaving = undefined
    // What it becomes and an answer that is still due would be one stream.
    if (this.#due !== undefined || this.#waiting.length > 0) return this.destroy()
    if (head.method === 'CONNECT') {
      this.#service.connect({ method: head.method, url: head.target, rawHeaders: head.headers }, this, behind)
      return
    }
    this.#early = []
    this.#keepEarly(this.#early, behind)
    this.#begin(new UpgradingAgent(this, head))
  }

  #keepEarly(early: Buffer[], chunk: Buffer): void {
    if (chunk.length > 0) early.push(chunk)
    // It has nothing to say before it has its answer.
    if (early.reduce((sum, { length }) => sum + length, 0) > LIMITS.headBytesMax) this.destroy()
  }

  /** The last answer is on its way. */
  #finish(agent: Http1Agent): void {
    const isQuiet = agent.isUploaded && !this.#isTalking && this.#early === undefined
    this.#early = undefined
    this.deafen()
    this.#deadlineMs = this.#in(LIMITS.keepAliveMs)
    if (isQuiet) return this.socket.destroySoon()
    // Closing over a body that is still coming is a reset, which takes the answer with it.
    this.socket.end()
    sayFarewell(this.socket)
  }

  readonly #onEnd = (): void => {
    // Its answer is on its way, and ends the connection.
    if (this.#isRefused) return
    // Who ended their side waits for no answer.
    if (this.#early || this.#due !== undefined || this.#arriving !== undefined || this.#waiting.length > 0) return this.destroy()
    try {
      if (!this.#isDeaf) this.#parser.finish()
      this.socket.end()
    } catch (error) {
      if (!(error instanceof MessageError)) throw error
      this.fail(refusalOfParser(error))
    }
  }

  readonly #onDrain = (): void => {
    this.#due?.drained()
    if (this.#due !== undefined || this.#waiting.length === 0) return
    this.#next()
    this.socket.resume()
  }

  readonly #onRoom = (): void => void this.socket.resume()

  readonly #onClose = (): void => {
    if (this.#isClosed) return
    this.#isClosed = true
    clearTimeout(this.#restTimer)
    this.#isDeaf = true
    this.#parser[Symbol.dispose]()
    this.#service.forget(this)
    this.#due?.leave()
    if (this.#arriving !== this.#due) this.#arriving?.leave()
  }

  /** Never early: what is late is looked for now and then. */
  #in(ms: number): number {
    return this.#service.elapsedMs + LOOK_MS + ms
  }
}

/** Most connections have no other request behind the one that is answered. */
const NOBODY: Http1Agent[] = []

function destroyItself(this: Socket): void {
  this.destroy()
}

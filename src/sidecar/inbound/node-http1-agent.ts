import { STATUS_CODES, ServerResponse, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { LIMITS } from '../../kernel/limits.ts'
import type { Agent } from '../egress/agent.ts'
import type { RequestHead } from '../egress/facts.ts'
import type { RawHeaders } from '../egress/headers.ts'
import { sayFarewell } from '../egress/refuse.ts'
import type { Turns } from './turns.ts'

/** A request of an HTTP/1 connection of Node's own server. */
export class NodeHttp1Agent implements Agent {
  readonly head: RequestHead
  readonly isModern: boolean
  readonly body: IncomingMessage | undefined
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #turns: Turns
  readonly #number: number

  /** @param number which request of its connection it is */
  constructor(request: IncomingMessage, response: ServerResponse, turns: Turns, number: number) {
    this.#request = request
    this.#response = response
    this.#turns = turns
    this.#number = number
    this.head = {
      method: request.method ?? '',
      url: request.url ?? '',
      rawHeaders: request.rawHeaders,
      isUpgrade: this instanceof NodeUpgradingAgent,
    }
    this.isModern = request.httpVersion === '1.1'
    this.body = hasBody(request) ? request : undefined
  }

  get isUploaded(): boolean {
    return this.#request.complete
  }

  get isGone(): boolean {
    const { socket } = this.#request
    // RFC 9112 §9.6: what comes behind a last answer is not processed.
    return socket.destroyed || this.#response.destroyed || this.#turns.isRefused(socket, this.#number)
  }

  get isAnswered(): boolean {
    return this.#response.headersSent
  }

  get upgrade(): Agent['upgrade'] {
    return undefined
  }

  trailers(): RawHeaders {
    return this.#request.rawTrailers
  }

  sendInterim(status: number, headers: readonly string[]): void {
    // An answer that waits its turn behind others (pipelining) has no socket yet, and a hint can be left out.
    if (this.#response.headersSent || this.#response.socket === null) return
    const fields = headers.map((part, i) => (i % 2 === 0 ? `${part}: ` : `${part}\r\n`))
    this.#response.socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${fields.join('')}\r\n`, 'latin1')
  }

  start(status: number, reason: string, headers: readonly string[]): void {
    this.#response.writeHead(status, reason, [...headers])
  }

  flush(): void {
    this.#response.flushHeaders()
  }

  write(chunk: Buffer): boolean {
    return this.#response.write(chunk)
  }

  onceDrained(listener: () => void): void {
    this.#response.once('drain', listener)
  }

  end(trailers: RawHeaders): void {
    if (trailers.length > 0) {
      this.#response.addTrailers(trailers.flatMap((name, i): [string, string][] => (i % 2 === 0 ? [[name, trailers[i + 1] ?? '']] : [])))
    }
    this.#response.end()
    // The upstream said all it had to say before it had the whole body.
    if (!this.#request.complete) boundRest(this.#request)
  }

  refuse(status: number, headers: Readonly<Record<string, string>>, body: string): void {
    if (this.#response.writableEnded) return
    const { socket } = this.#request
    this.#turns.refuse(socket, this.#number)
    if (!this.#request.complete) closeInPeace(socket)
    // With a reason phrase of its own: the response may still hold one of the upstream's that could not be written.
    this.#response.writeHead(status, STATUS_CODES[status] ?? '', { ...headers, connection: 'close' }).end(body)
  }

  abort(): void {
    this.#response.destroy()
  }

  onGone(listener: () => void): () => void {
    const { socket } = this.#request
    this.#response.on('close', listener)
    // Node tells no response that waits its turn (pipelining) when a CONNECT behind it has taken the socket.
    socket.on('close', listener)
    return () => {
      this.#response.off('close', listener)
      socket.off('close', listener)
    }
  }
}

/** A request to become a WebSocket (RFC 6455 §4.1): its connection is no longer Node's. */
export class NodeUpgradingAgent extends NodeHttp1Agent {
  readonly #socket: Socket
  readonly #response: ServerResponse
  readonly #early: Buffer[]
  readonly #onReadable = (): void => {
    const chunk: unknown = this.#socket.read()
    if (!Buffer.isBuffer(chunk)) return
    this.#early.push(chunk)
    // It has nothing to say before it has its answer.
    if (this.#early.reduce((sum, { length }) => sum + length, 0) > LIMITS.headBytesMax) this.#socket.destroy()
  }
  readonly #onEnd = (): void => void this.#socket.destroy()
  readonly #onDrain = (): void => void this.#response.emit('drain')

  constructor(request: IncomingMessage, socket: Socket, head: Buffer, turns: Turns, number: number) {
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    super(request, response, turns, number)
    this.#socket = socket
    this.#response = response
    this.#early = head.length > 0 ? [head] : []
    socket.on('error', () => socket.destroy())
    // Read while the upstream thinks: a socket that nobody reads never notices that its peer is gone.
    socket.on('readable', this.#onReadable)
    socket.on('end', this.#onEnd)
    // Node no longer does: an answer that is longer than what a socket holds would stand still.
    socket.on('drain', this.#onDrain)
    // An answer other than 101 is the last one: the parser that would read a next request has let go of the socket.
    response.once('finish', () => {
      this.#letGo()
      socket.end()
      sayFarewell(socket)
    })
  }

  override get upgrade(): Agent['upgrade'] {
    return (headers): Duplex => {
      const fields = headers.map((part, i) => (i % 2 === 0 ? `${part}: ` : `${part}\r\n`))
      this.#letGo()
      this.#socket.unshift(Buffer.concat(this.#early))
      this.#socket.write(
        `HTTP/1.1 101 Switching Protocols\r\n${fields.join('')}connection: Upgrade\r\nupgrade: websocket\r\n\r\n`,
        'latin1',
      )
      return this.#socket
    }
  }

  #letGo(): void {
    this.#response.detachSocket(this.#socket)
    this.#socket.off('readable', this.#onReadable)
    this.#socket.off('end', this.#onEnd)
    this.#socket.off('drain', this.#onDrain)
  }
}

function hasBody(request: IncomingMessage): boolean {
  const length = request.headers['content-length']
  return request.headers['transfer-encoding'] !== undefined || (length !== undefined && Number(length) > 0)
}

/** Node destroys a socket as soon as its last answer is written: over a body that is still coming that is a reset, which takes the answer with it. */
function closeInPeace(socket: Socket): void {
  socket.destroySoon = () => {
    socket.end()
    sayFarewell(socket)
  }
}

/** An agent that has its answer may send the rest of the body for nobody, but not for ever. */
function boundRest(request: IncomingMessage): void {
  const { socket } = request
  const stop = (): void => {
    clearTimeout(timer)
    socket.off('close', stop)
    request.off('end', stop)
  }
  const timer = setTimeout(() => {
    stop()
    socket.destroy()
  }, LIMITS.farewellMs)
  socket.once('close', stop)
  request.once('end', stop)
}

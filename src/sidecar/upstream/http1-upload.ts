import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { LIMITS } from '../../kernel/limits.ts'
import type { Http1Head } from './http1-head.ts'

/** What a body under way has to say. */
export type UploadEvents = {
  onSent(bytes: number): void
  /** All of it is handed to the socket. */
  onWhole(): void
  /** It broke off, or is not as long as its head says. */
  onBroken(error: Error): void
}

/**
 * The streamed body of one request. The head goes out with its first piece: an upstream sees nothing of a request whose body never
 * begins.
 */
export class Http1Upload {
  readonly #body: Readable
  readonly #events: UploadEvents
  #socket: Socket | undefined
  /** Until it is written. */
  #head = ''
  /** Bytes that are still to come; without a number it goes in chunks. */
  #left: number | undefined
  #isBegun = false
  #isOver = false

  constructor(body: Readable, events: UploadEvents) {
    this.#body = body
    this.#events = events
    // From here on, and for good: an agent that goes while its request waits must not end the process.
    body.on('error', (error: Error) => this.#break(error))
  }

  start(head: Http1Head, socket: Socket): void {
    const body = this.#body
    this.#head = head.text
    this.#left = head.length
    this.#socket = socket
    body.on('data', this.#onData)
    body.on('end', this.#onEnd)
    body.on('close', this.#onClose)
    // An empty one may have told of its end while the request waited.
    if (body.readableEnded) this.#onEnd()
    else if (body.destroyed) this.#onClose()
    else body.resume()
  }

  /** Whether anything of the request was written. */
  get isBegun(): boolean {
    return this.#isBegun
  }

  /** As it was before `start`: nothing was written, and it may start on another socket. */
  unstart(): void {
    this.#socket = undefined
    this.#body.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
    this.#body.pause()
  }

  /** The socket takes more. */
  resume(): void {
    if (!this.#isOver) this.#body.resume()
  }

  /** Nobody wants the rest. */
  stop(error?: Error): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#body.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
    this.#body.destroy(error)
  }

  readonly #onData = (chunk: Buffer): void => {
    if (chunk.length === 0) return
    const left = this.#left
    if (left !== undefined) {
      // I10: the upstream would take what is too much for the next request.
      if (chunk.length > left) return this.#break(new Error(`the body of the request is ${chunk.length - left} bytes too long`))
      this.#left = left - chunk.length
    }
    this.#isBegun = true
    const before = left === undefined ? `${this.#head}${chunk.length.toString(16)}\r\n` : this.#head
    this.#head = ''
    if (!this.#write(before, chunk, left === undefined ? '\r\n' : '')) this.#body.pause()
    this.#events.onSent(chunk.length)
  }

  readonly #onEnd = (): void => {
    if (this.#isOver) return
    // I10: an upstream that believes the length would take the next request for the rest.
    if (this.#left !== undefined && this.#left > 0)
      return this.#break(new Error(`the body of the request is ${this.#left} bytes too short`))
    this.#isOver = true
    this.#isBegun = true
    const last = this.#left === undefined ? `${this.#head}0\r\n\r\n` : this.#head
    if (last !== '') this.#socket?.write(last, 'latin1')
    this.#events.onWhole()
  }

  readonly #onClose = (): void => this.#break(new Error('the body of the request broke off'))

  #write(before: string, chunk: Buffer, after: string): boolean {
    const socket = this.#socket
    if (!socket) return false
    return writeTogether(socket, before, chunk, after)
  }

  #break(error: Error): void {
    if (this.#isOver) return
    this.stop(error)
    this.#events.onBroken(error)
  }
}

/** Writes it as one: small pieces are copied together, a larger one is handed on as it is. False when the socket is full. */
export function writeTogether(socket: Socket, before: string, chunk: Buffer, after = ''): boolean {
  if (before === '' && after === '') return socket.write(chunk)
  if (chunk.length <= LIMITS.joinedBytesMax) return socket.write(`${before}${chunk.latin1Slice()}${after}`, 'latin1')
  socket.cork()
  if (before !== '') socket.write(before, 'latin1')
  let hasRoom = socket.write(chunk)
  if (after !== '') hasRoom = socket.write(after, 'latin1')
  socket.uncork()
  return hasRoom
}

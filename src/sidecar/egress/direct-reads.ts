import type { OnReadOpts, Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'

/**
 * Buffers that what upstreams send into tunnels is read into. A quiet tunnel has none of its own: it reads into one that all
 * share, and what came is copied out at once. One that fills the shared one is lent a large buffer until it has read all that
 * was there: few reads of many bytes are what makes bulk fast, and a buffer for each tunnel would cost memory and connection rate.
 */
export class ReadBuffers {
  /** Nothing that waits to be written is ever in here: whoever reads next overwrites it. */
  readonly shared = Buffer.allocUnsafeSlow(LIMITS.tunnelSharedReadBytes)
  readonly #spare: Buffer[] = []
  #lent = 0

  /** Large buffers that are with tunnels now. */
  get lent(): number {
    return this.#lent
  }

  /** Undefined when too many are lent: a tunnel does without. */
  borrow(): Buffer | undefined {
    if (this.#lent >= LIMITS.tunnelBuffersMax) return undefined
    this.#lent += 1
    return this.#spare.pop() ?? Buffer.allocUnsafeSlow(LIMITS.tunnelBufferBytes)
  }

  giveBack(buffer: Buffer): void {
    this.#lent -= 1
    if (this.#spare.length < LIMITS.tunnelSpareBuffersMax) this.#spare.push(buffer)
  }
}

/**
 * Writes what one upstream sends to one agent, as fast as the agent takes it. A lent buffer goes back when the system has all
 * that was read into it, never before: what another tunnel reads would be sent in place of what still waits.
 */
export class DirectReads {
  /** The bytes that came. */
  bytes = 0
  /** For the connection to be dialled, which is not to be read before `start`. */
  readonly onread: OnReadOpts
  readonly #buffers: ReadBuffers
  readonly #agent: Socket
  #upstream: Socket | undefined
  #isUsed = false
  /** Where the next read goes: the shared buffer, or the one that is lent. */
  #next: Buffer
  #lent: Buffer | undefined
  #isWaiting = false

  constructor(buffers: ReadBuffers, agent: Socket) {
    this.#buffers = buffers
    this.#agent = agent
    this.#next = buffers.shared
    this.onread = {
      // Asked when the connection is made and after each read: where the system puts bytes is never a buffer that was given back.
      buffer: () => {
        this.#isUsed = true
        return this.#next
      },
      callback: (length, from) => this.#take(length, from),
    }
  }

  /** False for a connection that was made without `onread`: its bytes come as events. */
  start(upstream: Socket): boolean {
    if (!this.#isUsed) return false
    this.#upstream = upstream
    upstream.on('end', this.#onOver).on('close', this.#onOver)
    upstream.resume()
    return true
  }

  #take(length: number, from: Uint8Array): boolean {
    const chunk = from.subarray(0, length)
    this.bytes += length
    this.#agent.write(from === this.#buffers.shared ? Buffer.from(chunk) : chunk, this.#onWritten)
    // Not what `write` gave back, and not 'drain': to those a partial write below the high-water mark is a whole one.
    this.#isWaiting = this.#agent.writableLength > 0
    const isBulk = length === from.length && !this.#isWaiting
    if (isBulk) this.#lent ??= this.#buffers.borrow()
    // A read that left nothing behind may be the last one for hours: an idle tunnel is to hold nothing.
    this.#next = (isBulk && this.#lent) || this.#buffers.shared
    this.#settle()
    return !this.#isWaiting
  }

  readonly #onWritten = (): void => {
    if (!this.#isWaiting || this.#agent.writableLength > 0) return
    this.#isWaiting = false
    this.#settle()
    this.#upstream?.resume()
  }

  /** Nothing will be read any more. */
  readonly #onOver = (): void => {
    this.#next = this.#buffers.shared
    this.#settle()
  }

  /** Gives the buffer back when neither the system writes from it nor the next read goes there. */
  #settle(): void {
    if (this.#lent === undefined || this.#isWaiting || this.#next === this.#lent) return
    this.#buffers.giveBack(this.#lent)
    this.#lent = undefined
  }
}

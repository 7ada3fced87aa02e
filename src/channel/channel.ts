import type { Duplex } from 'node:stream'
import { codeOf, ERRORS, SallyportError, type ErrorCode } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { shown } from '../kernel/shown.ts'
import type { System } from '../kernel/system.ts'
import type { Frame } from '../wire/control.ts'
import { createAllowance } from './allowance.ts'
import { broken, createFrameDecoder, encodeFrame } from './frames.ts'

export { createAllowance, type Allowance } from './allowance.ts'
export { acceptMarked, offerMarked } from './marked-stream.ts'
export { isProof, proofOf } from './proof.ts'
export { openUnderLease, sealUnderLease } from './under-lease.ts'
export { encodeFrames, encodeJsonFrame, FrameDecoder, type StreamFrame } from './stream-frames.ts'

export type ChannelOptions = {
  /** What one frame of the peer may have, and what it takes itself. Asked for with each frame. */
  readonly bytesMax: { readonly received: () => number; readonly sent: number }
  /** Answers a request of the peer. What it throws goes there as code, message and hint; an error without a code as `internal`. */
  onRequest(method: string, params: unknown): Promise<unknown>
  onNote?(method: string, params: unknown): void
  /** Milliseconds: `LIMITS.controlBeatMs`, `LIMITS.controlSilenceMs`, `LIMITS.controlFrameMs`. */
  readonly times?: { readonly beatMs: number; readonly silenceMs: number; readonly frameMs: number }
  readonly system: Pick<System, 'elapsed'>
}

/** Requests, answers and notes as frames over a stream, in both directions. It owns the stream. */
export type Channel = AsyncDisposable & {
  /**
   * What the peer answers. @throws what the peer answers instead; control_broken when the channel is closed;
   *   control_unreachable when there is no answer in `timeoutMs`
   */
  request(method: string, params: unknown, timeoutMs?: number): Promise<unknown>
  note(method: string, params: unknown): void
  /** Resolves when it is over, with the reason where that was a fault. Never rejects. */
  readonly closed: Promise<SallyportError | undefined>
  /** Ends it at once. */
  close(reason?: SallyportError): void
}

type Waiting = { readonly resolve: (result: unknown) => void; readonly reject: (error: Error) => void }

const TIMES = { beatMs: LIMITS.controlBeatMs, silenceMs: LIMITS.controlSilenceMs, frameMs: LIMITS.controlFrameMs }

export function openChannel(stream: Duplex, options: ChannelOptions): Channel {
  return new FramedChannel(stream, options)
}

class FramedChannel implements Channel {
  readonly closed: Promise<SallyportError | undefined>
  readonly #stream: Duplex
  readonly #options: ChannelOptions
  readonly #decoder: ReturnType<typeof createFrameDecoder>
  readonly #frames: ReturnType<typeof createAllowance>
  readonly #bytes: ReturnType<typeof createAllowance>
  /** Requests without an answer. One that nobody waits for any more stays: its answer may come yet. */
  readonly #waiting = new Map<number, Waiting>()
  readonly #settle: (reason: SallyportError | undefined) => void
  readonly #beat: NodeJS.Timeout
  #lastId = 0
  #lastPeerId = 0
  #answering = 0
  #sentMs: number
  #heardMs: number
  /** When the frame began that is not whole yet. */
  #begunMs: number | undefined
  #pausing: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(stream: Duplex, options: ChannelOptions) {
    const { system } = options
    const { promise, resolve } = Promise.withResolvers<SallyportError | undefined>()
    this.closed = promise
    this.#settle = resolve
    this.#stream = stream
    this.#options = options
    this.#decoder = createFrameDecoder(options.bytesMax.received)
    this.#frames = createAllowance(LIMITS.controlFramesPerSecondMax, LIMITS.controlBurstFramesMax, system)
    this.#bytes = createAllowance(LIMITS.controlBytesPerSecondMax, LIMITS.controlBytesPerSecondMax, system)
    this.#sentMs = this.#heardMs = system.elapsed()
    const times = options.times ?? TIMES
    this.#beat = setInterval(() => this.#look(times), Math.max(1, Math.min(times.beatMs, times.frameMs) / 2))
    stream.on('data', (chunk: Buffer) => {
      if (this.#isClosed) return
      this.#heardMs = system.elapsed()
      this.#decoder.push(chunk)
      this.#pump()
    })
    stream.once('error', (cause) => this.close(broken(codeOf(cause))))
    stream.once('end', () => this.close())
    stream.once('close', () => this.close())
  }

  async request(method: string, params: unknown, timeoutMs: number = LIMITS.controlAnswerMs): Promise<unknown> {
    if (this.#waiting.size >= LIMITS.controlRequestsMax) throw broken('too many requests wait for their answers')
    const id = (this.#lastId += 1)
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    promise.catch(() => undefined)
    const timer = setTimeout(() => {
      const hint = 'it is stopped or overloaded: look at its log'
      reject(new SallyportError('control_unreachable', `no answer to ${method} in ${timeoutMs} ms`, { hint }))
    }, timeoutMs)
    this.#waiting.set(id, { resolve, reject })
    try {
      this.#send({ kind: 'request', id, method, params })
      return await promise
    } catch (error) {
      // What was never sent has no answer to come.
      if (this.#sentId < id) this.#waiting.delete(id)
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  note(method: string, params: unknown): void {
    this.#send({ kind: 'note', method, params })
  }

  close(reason?: SallyportError): void {
    if (this.#isClosed) return
    this.#isClosed = true
    clearInterval(this.#beat)
    clearTimeout(this.#pausing)
    for (const { reject } of this.#waiting.values()) reject(reason ?? broken('the other side ended it'))
    this.#waiting.clear()
    this.#stream.on('error', () => undefined)
    // What was said last still goes out. Who has left much unread does not get it.
    const isBehind = this.#stream.writableLength > LIMITS.controlHelloBytesMax
    if (!isBehind) this.#stream.end(() => this.#stream.destroy())
    const farewell = setTimeout(() => this.#stream.destroy(), isBehind ? 0 : LIMITS.farewellMs)
    this.#stream.once('close', () => clearTimeout(farewell))
    this.#settle(reason)
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close()
    return this.closed.then(() => undefined)
  }

  #sentId = 0

  #send(frame: Frame): void {
    if (this.#isClosed) throw broken('it is closed')
    const bytes = encodeFrame(frame, this.#options.bytesMax.sent)
    if (this.#stream.writableLength + bytes.length > LIMITS.controlUnsentBytesMax) {
      this.close(broken('the other side does not read'))
      throw broken('the other side does not read')
    }
    if (frame.kind === 'request') this.#sentId = frame.id
    this.#sentMs = this.#options.system.elapsed()
    this.#stream.write(bytes)
  }

  /** Takes frames for as long as the peer has an allowance, and reads no further without one. */
  #pump(): void {
    this.#pausing = undefined
    try {
      while (!this.#isClosed) {
        const waitMs = Math.max(this.#frames.take(0), this.#bytes.take(0))
        if (waitMs > 0) return this.#pause(waitMs)
        const next = this.#decoder.next()
        if (next === undefined) break
        this.#begunMs = undefined
        this.#frames.take(1)
        this.#bytes.take(next.bytes)
        this.#accept(next.frame)
      }
    } catch (error) {
      return this.close(error instanceof SallyportError ? error : broken(codeOf(error)))
    }
    if (this.#isClosed) return
    this.#begunMs = this.#decoder.isWithin ? (this.#begunMs ?? this.#options.system.elapsed()) : undefined
    this.#stream.resume()
  }

  #pause(waitMs: number): void {
    this.#begunMs = undefined
    this.#stream.pause()
    this.#pausing ??= setTimeout(() => {
      this.#heardMs = this.#options.system.elapsed()
      this.#pump()
    }, waitMs)
  }

  #accept(frame: Frame): void {
    switch (frame.kind) {
      case 'beat':
        return
      case 'note':
        return this.#options.onNote?.(frame.method, frame.params)
      case 'request':
        // An id that was there before is a replay.
        if (frame.id <= this.#lastPeerId) throw broken(`request ${frame.id} after request ${this.#lastPeerId}`)
        if (this.#answering >= LIMITS.controlRequestsMax) throw broken('more requests at once than are taken')
        this.#lastPeerId = frame.id
        return void this.#answer(frame.id, frame.method, frame.params)
      case 'answer':
        return this.#waitingFor(frame.id).resolve(frame.result)
      case 'fault': {
        const hint = frame.hint === undefined ? {} : { hint: shown(frame.hint) }
        return this.#waitingFor(frame.id).reject(new SallyportError(codeFrom(frame.code), shown(frame.message), hint))
      }
    }
  }

  #waitingFor(id: number): Waiting {
    const waiting = this.#waiting.get(id)
    if (!waiting) throw broken(`an answer to request ${id}, which is not open`)
    this.#waiting.delete(id)
    return waiting
  }

  async #answer(id: number, method: string, params: unknown): Promise<void> {
    this.#answering += 1
    let frame: Frame
    try {
      frame = { kind: 'answer', id, result: await this.#options.onRequest(method, params) }
    } catch (error) {
      frame = { kind: 'fault', id, ...faultOf(error) }
    } finally {
      this.#answering -= 1
    }
    if (this.#isClosed) return
    try {
      this.#send(frame)
    } catch (error) {
      // An answer that is too large for the peer.
      if (!this.#isClosed) this.#send({ kind: 'fault', id, ...faultOf(error) })
    }
  }

  #look({ beatMs, silenceMs, frameMs }: NonNullable<ChannelOptions['times']>): void {
    const nowMs = this.#options.system.elapsed()
    if (this.#begunMs !== undefined && nowMs - this.#begunMs >= frameMs) return this.close(broken('a frame that does not end'))
    if (this.#pausing === undefined && nowMs - this.#heardMs >= silenceMs) return this.close(broken('the other side is silent'))
    if (nowMs - this.#sentMs < beatMs) return
    try {
      this.#send({ kind: 'beat' })
    } catch {
      // Closed by it: the other side does not read.
    }
  }
}

/** Codes of the table only, and no text of an error that has none. */
function faultOf(error: unknown): { code: ErrorCode; message: string; hint?: string } {
  if (!(error instanceof SallyportError)) return { code: 'internal', message: 'the request could not be handled' }
  const message = error.message.slice(0, 4_096)
  return { code: error.code, message, ...(error.hint !== undefined && { hint: error.hint.slice(0, 4_096) }) }
}

function codeFrom(code: string): ErrorCode {
  return Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'internal'
}

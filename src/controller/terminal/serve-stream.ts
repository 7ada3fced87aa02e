import type { Duplex, Readable } from 'node:stream'
import { once } from 'node:events'
import type * as z from 'zod'
import { encodeFrames, encodeJsonFrame, FrameDecoder, type StreamFrame } from '../../channel/channel.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { FRAME, TerminalSize, type FrameType } from '../../wire/stream-frames.ts'
import { openOutput, redactedChunks, type OutputStream, type Redaction } from './redacted.ts'
import type { Profile } from './sequences.ts'

/** A program in a session, as the engine gives it. */
export type ServedStream = {
  /** Its input, and what it prints unless `stdout` has that. */
  readonly stream: Duplex
  /** Where it has no terminal of its own. */
  readonly stdout?: Readable
  readonly stderr?: Readable
  resize(size: TerminalSize): Promise<void>
  exitCode(): Promise<number>
}

/** What became of it: the program ended, the client detached, or the connection broke. In all but the first the program runs on. */
export type Served = 'ended' | 'detached' | 'lost'

export type ServeOptions = {
  readonly redaction: Redaction
  /** What shows each output at the client's. */
  readonly stdout: Profile | 'pipe'
  readonly stderr: Profile | 'pipe'
  readonly size?: TerminalSize | undefined
  /** Has a program that was there before draw its screen again: it is told another size first, since it ignores one that is the same. */
  readonly isRedrawn: boolean
  /** The session or the daemon ends: the client is told the error that is the reason. */
  readonly signal: AbortSignal
}

/** The upgraded connection of a client. */
export type ClientStream = {
  /** Carries the program's input and output until it ends, the client goes, or the signal. Closes both. */
  serve(program: ServedStream, options: ServeOptions): Promise<Served>
  /** Tells the client why not, and closes. */
  refuse(error: unknown): void
}

/** Which filter a program's output needs. @param tty it has a terminal of its own, which the client's stands for */
export function shownOn(isTerminal: boolean, tty: boolean): Profile | 'pipe' {
  return !isTerminal ? 'pipe' : tty ? 'screen' : 'lines'
}

/**
 * Reads what a client wants of a connection just upgraded.
 * @param head what came with the upgrade
 * @throws stream_lost when no request comes in time or it is not one; the client is told
 */
export async function acceptStream<T>(
  socket: Duplex,
  head: Buffer,
  schema: z.ZodType<T>,
  signal: AbortSignal,
): Promise<{ readonly request: T; readonly client: ClientStream }> {
  const connection = new Connection(socket)
  if (head.length > 0) socket.unshift(head)
  try {
    const request = schema.safeParse(await connection.request(signal))
    if (!request.success) throw new SallyportError('stream_lost', `the request cannot be read: ${request.error.issues[0]?.message ?? ''}`)
    return { request: request.data, client: connection }
  } catch (error) {
    connection.refuse(error)
    throw error
  }
}

/** A client whose wish is known already, on any connection that carries the frames. */
export function clientOn(socket: Duplex): ClientStream {
  return new Connection(socket)
}

class Connection implements ClientStream {
  readonly #socket: Duplex
  readonly #frames: AsyncGenerator<StreamFrame, void>
  #isRefused = false

  constructor(socket: Duplex) {
    this.#socket = socket
    // Errors are seen as the end of what is read; without a listener they would end the process.
    socket.on('error', () => socket.destroy())
    this.#frames = readFrames(socket)
  }

  async request(signal: AbortSignal): Promise<unknown> {
    const late = AbortSignal.any([signal, AbortSignal.timeout(LIMITS.streamRequestMs)])
    const onLate = (): void => void this.#socket.destroy()
    late.addEventListener('abort', onLate)
    try {
      const { value, done } = await this.#frames.next()
      if (done === true || value.type !== FRAME.request) throw new SallyportError('stream_lost', 'the client did not say what it wants')
      return jsonOf(value.payload)
    } finally {
      late.removeEventListener('abort', onLate)
    }
  }

  refuse(error: unknown): void {
    if (this.#isRefused || !this.#socket.writable) return void this.#socket.destroy()
    this.#isRefused = true
    this.#socket.end(encodeJsonFrame(FRAME.error, problemOf(error)))
    // What the client still sends is read, so that it gets to read the reason.
    this.#socket.resume()
    const farewell = setTimeout(() => this.#socket.destroy(), LIMITS.farewellMs)
    this.#socket.once('close', () => clearTimeout(farewell))
  }

  async serve(program: ServedStream, options: ServeOptions): Promise<Served> {
    const { stream, stdout = stream, stderr } = program
    for (const one of [stream, stderr, stdout]) one?.on('error', () => one.destroy())
    const ended = new AbortController()
    const input = this.#carryInput(program, options, ended.signal)
    const onAbort = (): void => {
      this.refuse(options.signal.reason)
      stream.destroy()
    }
    if (options.signal.aborted) onAbort()
    options.signal.addEventListener('abort', onAbort)
    try {
      const answer = (answers: readonly string[]): void => {
        // A program that asks and does not read gets no more answers than fit.
        for (const text of answers) if (stream.writable && !stream.writableNeedDrain) stream.write(text)
      }
      const outputs = Promise.all([
        this.#carryOutput(FRAME.stdout, stdout, openOutput(options.redaction, options.stdout), answer),
        ...(stderr === undefined ? [] : [this.#carryOutput(FRAME.stderr, stderr, openOutput(options.redaction, options.stderr))]),
      ])
      // When the client goes first, nobody waits for them.
      outputs.catch(() => undefined)
      const first = await Promise.race([outputs.then((): Served => 'ended'), input])
      if (first !== 'ended' || this.#isRefused) return this.#isRefused ? 'lost' : first
      await this.#write(encodeJsonFrame(FRAME.exit, { code: await program.exitCode() }))
      return 'ended'
    } catch (error) {
      this.refuse(error)
      return 'lost'
    } finally {
      options.signal.removeEventListener('abort', onAbort)
      ended.abort()
      stream.destroy()
      stdout.destroy()
      stderr?.destroy()
      if (!this.#isRefused) this.#close()
    }
  }

  async #carryOutput(
    type: FrameType,
    source: Readable,
    output: OutputStream,
    answer?: (answers: readonly string[]) => void,
  ): Promise<void> {
    for await (const bytes of redactedChunks(untilClosed(source), output, answer)) await this.#write(encodeFrames(type, bytes))
  }

  /** Gives when the client goes. Never fails: a frame that cannot be read is the end of the connection. */
  async #carryInput(program: ServedStream, { size, isRedrawn }: ServeOptions, ended: AbortSignal): Promise<Served> {
    const { stream } = program
    try {
      if (size !== undefined) {
        if (isRedrawn) await resize(program, { ...size, rows: size.rows + 1 })
        await resize(program, size)
      }
      for (let next = await this.#frames.next(); next.done !== true; next = await this.#frames.next()) {
        const { type, payload } = next.value
        if (type === FRAME.detached) return 'detached'
        else if (type === FRAME.resize) await resize(program, sizeOf(payload))
        else if (type === FRAME.closeStdin) stream.end()
        else if (type !== FRAME.stdin) throw new SallyportError('stream_lost', `a client sends no frame of type ${type}`)
        else if (stream.writable && !stream.write(payload) && stream.writableLength > LIMITS.streamInputBytesMax) {
          await Promise.race([once(stream, 'drain', { signal: ended }), once(stream, 'close', { signal: ended })])
        }
      }
      return 'lost'
    } catch (error) {
      if (!ended.aborted) this.refuse(error)
      return 'lost'
    }
  }

  /** Waits until the client has room again, or is gone. */
  async #write(bytes: Buffer): Promise<void> {
    const socket = this.#socket
    if (this.#isRefused || !socket.writable || socket.write(bytes)) return
    await new Promise<void>((resolve) => {
      const done = (): void => {
        socket.off('drain', done).off('close', done)
        resolve()
      }
      socket.on('drain', done).on('close', done)
    })
  }

  #close(): void {
    this.#socket.end()
    this.#socket.resume()
    const farewell = setTimeout(() => this.#socket.destroy(), LIMITS.farewellMs)
    this.#socket.once('close', () => clearTimeout(farewell))
  }
}

function sizeOf(payload: Buffer): TerminalSize {
  const size = TerminalSize.safeParse(jsonOf(payload))
  if (!size.success) throw new SallyportError('stream_lost', 'a terminal cannot have this size')
  return size.data
}

/** A program that has just ended has no size: what it printed is not lost for that. */
async function resize(program: ServedStream, size: TerminalSize): Promise<void> {
  await program.resize(size).catch(() => undefined)
}

async function* readFrames(socket: Duplex): AsyncGenerator<StreamFrame, void> {
  const decoder = new FrameDecoder()
  for await (const chunk of untilClosed(socket)) yield* decoder.push(chunk)
}

/** The chunks of a stream. That it broke is its end. */
async function* untilClosed(stream: Readable): AsyncGenerator<Buffer, void> {
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) yield chunk as Buffer
  } catch (error) {
    if (!stream.destroyed && stream.errored === null) throw error
  }
}

function jsonOf(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString())
  } catch (cause) {
    throw new SallyportError('stream_lost', 'a frame that is JSON cannot be read', { cause })
  }
}

/** Of errors without a code nothing is told: their text may be anything. */
function problemOf(error: unknown): { code: string; detail: string; hint?: string } {
  if (!(error instanceof SallyportError)) return { code: 'internal', detail: 'the stream could not be carried' }
  return { code: error.code, detail: error.message, ...(error.hint !== undefined && { hint: error.hint }) }
}

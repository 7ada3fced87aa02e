import type { Duplex } from 'node:stream'
import { ReadStream, WriteStream } from 'node:tty'
import { encodeFrames, encodeJsonFrame, FrameDecoder } from '../channel/channel.ts'
import { createTerminalFilter, type TerminalFilter } from '../controller/terminal/filter.ts'
import type { Profile } from '../controller/terminal/sequences.ts'
import { SallyportError } from '../kernel/errors.ts'
import { Exit, FRAME, type TerminalSize } from '../wire/stream-frames.ts'
import { markAttached } from './attached-terminals.ts'
import type { Io } from './command.ts'
import { problemOf, type Upgraded } from './daemon-client.ts'
import { DetachKeys } from './detach-keys.ts'
import { takeTerminal } from './taken-terminal.ts'

/** The operator's side of a stream: the process's own. */
export type Console = { readonly stdin: NodeJS.ReadStream; readonly stdout: Output; readonly stderr: Output }
export type Output = NodeJS.WriteStream & { readonly fd: number }

/** How a stream ended: with the program's exit code, or left running. */
export type StreamEnd = { readonly kind: 'exit'; readonly code: number } | { readonly kind: 'detached' } | { readonly kind: 'unread' }

/** What a request says of this side: `terminal` and `size`. */
export function describeConsole({ stdout, stderr }: Console): {
  terminal: { stdout: boolean; stderr: boolean }
  size?: TerminalSize
} {
  const size = sizeOf(stdout)
  return { terminal: { stdout: isTerminal(stdout), stderr: isTerminal(stderr) }, ...(size !== undefined && { size }) }
}

/**
 * Connects the process's input and outputs with a program in a session, until it ends or the operator detaches. With `tty` and a
 * terminal on both sides the terminal is in raw mode meanwhile. What comes is filtered here once more wherever a terminal shows it,
 * so that nothing which the other side lets through can harm.
 * @param options.request the first frame
 * @throws stream_lost when the connection breaks; or with the code that the daemon gives as the reason
 */
export async function carryStream(
  { socket, head }: Upgraded,
  io: Console,
  options: { request: unknown; tty: boolean; detachKeys: readonly number[]; env: Io['env'] },
): Promise<StreamEnd> {
  const { tty, detachKeys, env } = options
  const filters = { stdout: filterFor(io.stdout, tty, env), stderr: filterFor(io.stderr, tty, env) }
  const isInteractive = tty && isTerminal(io.stdin) && filters.stdout !== undefined
  // Errors show as the end of what is read.
  socket.on('error', () => socket.destroy())
  if (head.length > 0) socket.unshift(head)
  await using lifetime = new AsyncDisposableStack()
  lifetime.defer(() => void socket.destroy())
  lifetime.use(markAttached(env))
  const keyboardOf = isInteractive && io.stdin instanceof ReadStream ? io.stdin : undefined
  if (filters.stderr !== undefined) lifetime.use(takeTerminal({ fd: io.stderr.fd, filter: filters.stderr }))
  if (filters.stdout !== undefined) lifetime.use(takeTerminal({ fd: io.stdout.fd, filter: filters.stdout, keyboard: keyboardOf }))
  socket.write(encodeJsonFrame(FRAME.request, options.request))
  const keyboard = new Keyboard(socket, io.stdin, isInteractive ? { keys: new DetachKeys(detachKeys), filter: filters.stdout } : undefined)
  lifetime.defer(() => keyboard.close())
  if (tty) followSize(io.stdout, socket, lifetime)
  const unread = readerGone(io, lifetime)
  return await Promise.race([readFrames(socket, io, filters), keyboard.detached, unread])
}

type Filters = { readonly stdout: TerminalFilter | undefined; readonly stderr: TerminalFilter | undefined }

/** What goes to a terminal is filtered; to a file or pipe it goes as it came. */
export function filterFor(stream: NodeJS.WriteStream, tty: boolean, env: Io['env']): TerminalFilter | undefined {
  const profile: Profile = tty ? 'screen' : 'lines'
  return isTerminal(stream) ? createTerminalFilter(profile, { isUtf8: isUtf8(env) }) : undefined
}

/** Whether the terminal reads UTF-8, as locale(7) says. Without a word about it: no. */
export function isUtf8(env: Io['env']): boolean {
  return /utf-?8/i.test(env['LC_ALL'] || env['LC_CTYPE'] || env['LANG'] || '')
}

export function isTerminal(stream: NodeJS.ReadStream | NodeJS.WriteStream): boolean {
  return stream instanceof ReadStream || stream instanceof WriteStream
}

async function readFrames(socket: Duplex, io: Console, filters: Filters): Promise<StreamEnd> {
  const decoder = new FrameDecoder()
  for await (const chunk of untilClosed(socket)) {
    for (const { type, payload } of decoder.push(chunk)) {
      switch (type) {
        case FRAME.stdout:
          await show(io.stdout, filters.stdout, payload)
          break
        case FRAME.stderr:
          await show(io.stderr, filters.stderr, payload)
          break
        case FRAME.exit:
          return { kind: 'exit', code: codeOfExit(payload) }
        case FRAME.error:
          throw problemOf(jsonOf(payload), 'the daemon ended the stream without a reason')
        case FRAME.stdin:
        case FRAME.resize:
        case FRAME.closeStdin:
        case FRAME.detached:
        case FRAME.request:
          throw new SallyportError('stream_lost', `the daemon sent a frame of type ${type}`)
      }
    }
  }
  throw new SallyportError('stream_lost', 'the daemon closed the stream before the program ended', {
    hint: 'sallyport ls shows whether the session runs',
  })
}

function codeOfExit(payload: Buffer): number {
  const exit = Exit.safeParse(jsonOf(payload))
  if (!exit.success) throw new SallyportError('stream_lost', 'the daemon gave no exit code')
  return exit.data.code
}

/** Writes, and waits until there is room again or the reader is gone. */
export async function show(stream: NodeJS.WriteStream, filter: TerminalFilter | undefined, bytes: Buffer): Promise<void> {
  const shown = filter === undefined ? bytes : Buffer.concat(filter.push(bytes).map((part) => part.bytes))
  if (stream.write(shown) || stream.destroyed) return
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done)
      resolve()
    }
    stream.on('drain', done).on('close', done)
  })
}

/** What is typed or piped in, to the program. */
class Keyboard {
  readonly detached: Promise<StreamEnd>
  readonly #socket: Duplex
  readonly #stdin: NodeJS.ReadStream
  readonly #interactive: { readonly keys: DetachKeys; readonly filter: TerminalFilter | undefined } | undefined
  readonly #detach: (end: StreamEnd) => void

  constructor(socket: Duplex, stdin: NodeJS.ReadStream, interactive?: { keys: DetachKeys; filter: TerminalFilter | undefined }) {
    const { promise, resolve } = Promise.withResolvers<StreamEnd>()
    this.detached = promise
    this.#detach = resolve
    this.#socket = socket
    this.#stdin = stdin
    this.#interactive = interactive
    stdin.on('data', this.#onData)
    stdin.once('end', this.#onEnd)
  }

  readonly #onData = (chunk: Buffer): void => {
    const typed = this.#interactive?.keys.push(chunk)
    if (typed !== undefined) this.#interactive?.filter?.answered(typed.answers)
    const bytes = typed?.bytes ?? chunk
    if (bytes.length > 0) this.#send(encodeFrames(FRAME.stdin, bytes))
    if (typed?.isDetached !== true) return
    this.#stdin.pause()
    this.#send(encodeFrames(FRAME.detached, Buffer.alloc(0)))
    this.#detach({ kind: 'detached' })
  }

  readonly #onEnd = (): void => {
    const rest = this.#interactive?.keys.end() ?? Buffer.alloc(0)
    if (rest.length > 0) this.#send(encodeFrames(FRAME.stdin, rest))
    this.#send(encodeFrames(FRAME.closeStdin, Buffer.alloc(0)))
  }

  #send(frames: Buffer): void {
    if (!this.#socket.writable || this.#socket.write(frames)) return
    // A person is never kept waiting, so that the detach keys are read; a pipe is.
    if (this.#interactive !== undefined) return
    this.#stdin.pause()
    this.#socket.once('drain', () => void this.#stdin.resume())
  }

  close(): void {
    this.#stdin.off('data', this.#onData).off('end', this.#onEnd)
    this.#stdin.pause()
    // A pipe that somebody still writes to would keep the process alive.
    if (!isTerminal(this.#stdin)) this.#stdin.destroy()
  }
}

function followSize(stdout: NodeJS.WriteStream, socket: Duplex, lifetime: AsyncDisposableStack): void {
  const tell = (): void => {
    const size = sizeOf(stdout)
    if (size !== undefined && socket.writable) socket.write(encodeJsonFrame(FRAME.resize, size))
  }
  stdout.on('resize', tell)
  lifetime.defer(() => void stdout.off('resize', tell))
}

/** A terminal that has no size (0 columns) says nothing. */
function sizeOf(stdout: NodeJS.WriteStream): TerminalSize | undefined {
  const { columns, rows } = stdout
  return isTerminal(stdout) && columns > 0 && rows > 0 ? { columns, rows } : undefined
}

/** `| head` has seen enough. */
async function readerGone({ stdout, stderr }: Console, lifetime: AsyncDisposableStack): Promise<StreamEnd> {
  const { promise, resolve } = Promise.withResolvers<StreamEnd>()
  const onError = (): void => resolve({ kind: 'unread' })
  for (const stream of [stdout, stderr]) {
    stream.on('error', onError)
    lifetime.defer(() => void stream.off('error', onError))
  }
  return await promise
}

async function* untilClosed(stream: Duplex): AsyncGenerator<Buffer, void> {
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) yield chunk as Buffer
  } catch (error) {
    if (!stream.destroyed) throw error
  }
}

function jsonOf(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString())
  } catch (cause) {
    throw new SallyportError('stream_lost', 'a frame of the daemon cannot be read', { cause })
  }
}

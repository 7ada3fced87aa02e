import { StringDecoder } from 'node:string_decoder'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import type { AgentMethod, OutputPiece, OutputView, RequestView } from '../../wire/agent-requests.ts'

/** How a request ended. */
export type Ending = Omit<RequestView, 'id' | 'method'>

/** A request that goes on. What it prints and how it ends is said here. */
export type OpenRequest = {
  readonly id: string
  /** Aborted when the agent withdraws it, or its session ends. */
  readonly signal: AbortSignal
  /** The question was answered, or nobody had to be asked. */
  readonly running: () => void
  /** For the agent, as long as it waits. */
  readonly note: (text: string) => void
  readonly print: (stream: OutputPiece['stream'], chunk: Buffer) => void
}

/**
 * The requests of agents, as they see them: each session its own. In memory alone. Disposed of, all are withdrawn, none begins any more, and it resolves when
 * none goes on.
 */
export type RequestBook = AsyncDisposable & {
  /** Goes on until `work` has ended. @throws overloaded when too many of the session do */
  begin(session: string, method: AgentMethod, work: (request: OpenRequest) => Promise<Ending>): RequestView
  /** The request once it has ended, or as it is after `waitMs`. @throws request_not_found */
  await(session: string, id: string, waitMs: number, signal: AbortSignal): Promise<RequestView>
  /** What it printed behind piece `after`, once there is some. @throws request_not_found */
  output(session: string, id: string, after: number, waitMs: number, signal: AbortSignal): Promise<OutputView>
  /** The request as it is once its work has ended. @throws request_not_found */
  cancel(session: string, id: string): Promise<RequestView>
  /** All of them are withdrawn and forgotten. Resolves when none goes on. */
  endSession(session: string): Promise<void>
}

type Entry = {
  view: RequestView
  readonly abort: AbortController
  readonly pieces: OutputPiece[]
  /** Pieces that were there before the first one that still is. */
  dropped: number
  bytes: number
  ended: Promise<void>
  endedMs: number | undefined
  wake: PromiseWithResolvers<void>
}

const OPEN: ReadonlySet<RequestView['status']> = new Set(['pending', 'running'])
const ID_BYTES = 16

export function createRequestBook(system: Pick<System, 'elapsed' | 'random'>, onFault: (error: unknown) => Ending): RequestBook {
  const sessions = new Map<string, Map<string, Entry>>()
  /** Of sessions that are forgotten too: each may have a process. */
  const goingOn = new Set<Entry>()
  let isClosed = false
  const find = (session: string, id: string): Entry => foundIn(sessions.get(session), id)

  return {
    begin(session, method, work) {
      if (isClosed) throw new SallyportError('controller_unavailable', 'the daemon ends')
      const own = sessions.get(session) ?? new Map<string, Entry>()
      sessions.set(session, own)
      forgetOld(own, system.elapsed())
      refuseSurplus(own)
      const id = system.random(ID_BYTES).toString('hex')
      const entry = newEntry(id, method)
      own.set(id, entry)
      goingOn.add(entry)
      entry.ended = Promise.try(work, openRequest(entry))
        .catch(onFault)
        .then((ending) => {
          entry.view = { ...ending, id, method }
          entry.endedMs = system.elapsed()
          goingOn.delete(entry)
          wake(entry)
        })
      return entry.view
    },
    async await(session, id, waitMs, signal) {
      const entry = find(session, id)
      if (OPEN.has(entry.view.status)) await waitFor(entry.ended, waitMs, signal)
      return sendable(entry.view)
    },
    async output(session, id, after, waitMs, signal) {
      const entry = find(session, id)
      const hasNews = (): boolean => entry.dropped + entry.pieces.length > after || !OPEN.has(entry.view.status)
      const until = system.elapsed() + waitMs
      while (!hasNews() && !signal.aborted && system.elapsed() < until) await waitFor(entry.wake.promise, until - system.elapsed(), signal)
      return outputOf(entry, after)
    },
    async cancel(session, id) {
      const entry = find(session, id)
      entry.abort.abort()
      await entry.ended
      return sendable(entry.view)
    },
    async endSession(session) {
      const own = [...(sessions.get(session)?.values() ?? [])]
      sessions.delete(session)
      for (const { abort } of own) abort.abort()
      await Promise.all(own.map(({ ended }) => ended))
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      const all = [...goingOn]
      for (const { abort } of all) abort.abort()
      await Promise.all(all.map(({ ended }) => ended))
    },
  }
}

function newEntry(id: string, method: AgentMethod): Entry {
  return {
    view: { id, method, status: 'pending' },
    abort: new AbortController(),
    pieces: [],
    dropped: 0,
    bytes: 0,
    ended: Promise.resolve(),
    endedMs: undefined,
    wake: Promise.withResolvers(),
  }
}

/** @throws request_not_found */
function foundIn(own: ReadonlyMap<string, Entry> | undefined, id: string): Entry {
  const entry = own?.get(id)
  if (entry !== undefined) return entry
  throw new SallyportError('request_not_found', `there is no request "${shown(id)}" of this session`, {
    hint: 'a restart of the daemon ends all requests, and those that ended are forgotten after a while',
  })
}

/** I53 @throws overloaded */
function refuseSurplus(own: ReadonlyMap<string, Entry>): void {
  const open = [...own.values()].filter(({ view }) => OPEN.has(view.status)).length
  if (open < LIMITS.requestsOpenMax) return
  throw new SallyportError('overloaded', `${open} requests of this session wait or run already`, {
    hint: 'wait for some of them, or cancel them',
  })
}

/** Written as JSON a character may take six bytes: of what would not go through the channel the end of each stream is kept. */
function sendable(view: RequestView): RequestView {
  const { stdout = '', stderr = '', files = [] } = view
  // Names are as long as their command made them.
  const room = LIMITS.requestAnswerBytesMax - (files.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(files)))
  if ((stdout.length + stderr.length) * ESCAPED_BYTES <= room) return view
  if (Buffer.byteLength(JSON.stringify([stdout, stderr])) <= room) return view
  const each = Math.floor(room / 2 / ESCAPED_BYTES)
  return { ...view, stdout: stdout.slice(-each), stderr: stderr.slice(-each), truncated: true }
}

const ESCAPED_BYTES = 6

function outputOf({ view, pieces: all, dropped }: Entry, after: number): OutputView {
  const from = Math.min(Math.max(after - dropped, 0), all.length)
  const pieces = fitting(all, from)
  const next = dropped + from + pieces.length
  return { pieces, next, lost: after < dropped, isEnded: !OPEN.has(view.status) && next === dropped + all.length }
}

/** What goes into one answer: a frame of the channel has a bound. */
function fitting(all: readonly OutputPiece[], from: number): OutputPiece[] {
  let chars = 0
  const end = Math.min(all.length, from + LIMITS.outputPiecesAtOnceMax)
  const pieces: OutputPiece[] = []
  for (const piece of all.slice(from, end)) {
    chars += piece.text.length
    if (chars > LIMITS.outputCharsAtOnceMax) break
    pieces.push(piece)
  }
  return pieces
}

const PIECE_BYTES_MAX = 32_768

function openRequest(entry: Entry): OpenRequest {
  const decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') }
  return {
    id: entry.view.id,
    signal: entry.abort.signal,
    note(text) {
      if (entry.view.status === 'pending') entry.view = { ...entry.view, note: text }
    },
    running() {
      const { id, method } = entry.view
      entry.view = { id, method, status: 'running' }
      wake(entry)
    },
    print(stream, chunk) {
      for (let at = 0; at < chunk.length; at += PIECE_BYTES_MAX) {
        const text = decoders[stream].write(chunk.subarray(at, at + PIECE_BYTES_MAX))
        if (text === '') continue
        entry.pieces.push({ stream, text })
        entry.bytes += text.length
      }
      while (entry.pieces.length > LIMITS.outputPiecesMax || entry.bytes > LIMITS.outputPiecesBytesMax) {
        entry.bytes -= entry.pieces.shift()?.text.length ?? 0
        entry.dropped += 1
      }
      wake(entry)
    },
  }
}

function wake(entry: Entry): void {
  entry.wake.resolve()
  entry.wake = Promise.withResolvers()
}

/** What ended long ago, and the oldest of too many. */
function forgetOld(own: Map<string, Entry>, nowMs: number): void {
  const ended = [...own].filter(([, { endedMs }]) => endedMs !== undefined)
  const surplus = Math.max(0, ended.length - LIMITS.requestsEndedMax)
  for (const [index, [id, { endedMs = nowMs }]] of ended.entries())
    if (index < surplus || nowMs - endedMs > LIMITS.requestKeptMs) own.delete(id)
}

/** Resolves when `event` does, after `ms`, or when nobody waits any more. */
async function waitFor(event: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted || ms <= 0) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const over = (): void => resolve()
  const timer = setTimeout(over, ms)
  signal.addEventListener('abort', over, { once: true })
  await Promise.race([event, promise])
  clearTimeout(timer)
  signal.removeEventListener('abort', over)
}

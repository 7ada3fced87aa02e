import { ReadStream } from 'node:tty'
import { createTerminalFilter } from '../controller/terminal/filter.ts'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Secret } from '../kernel/secret.ts'
import { system } from '../kernel/system.ts'
import type { QuestionLine } from '../wire/operator.ts'
import type { Question, Tier } from '../wire/question.ts'
import { measureWith, rowsOf, type Row, type Wording } from './approve-screen.ts'
import { openView, step, type Effect, type Input, type Size, type View } from './approve-view.ts'
import type { DaemonClient } from './daemon-client.ts'
import { Keys } from './keys.ts'
import { sendAnswer } from './send-answer.ts'
import { takeTerminal } from './taken-terminal.ts'
import { isTerminal } from './terminal.ts'
import { Typed } from './typed.ts'

const BEGIN = '\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h'
const STYLES: Readonly<Record<Row['style'], string>> = {
  plain: '',
  title: '\x1b[1m',
  chosen: '\x1b[7m',
  warning: '\x1b[33m',
  faint: '\x1b[2m',
}

export type ViewParts = {
  readonly daemon: DaemonClient
  readonly wording: Wording
  /** Called before a password is asked for. @throws terminal_unsafe */
  readonly refuseUnsafe: () => void
}

/**
 * The inbox on the operator's terminal, until they leave it. The terminal is given back as it was, however this ends.
 * @throws terminal_unsafe when there is none
 */
export async function showInbox(parts: ViewParts): Promise<void> {
  const { stdin, stdout } = process
  if (!(stdin instanceof ReadStream) || !isTerminal(stdout))
    throw new SallyportError('terminal_unsafe', 'there is no terminal to show the questions on', {
      hint: 'for scripts: sallyport pending --json',
    })
  await using lifetime = new AsyncDisposableStack()
  const filter = createTerminalFilter('screen', { isUtf8: parts.wording.isUtf8 })
  lifetime.use(takeTerminal({ fd: stdout.fd, filter, keyboard: stdin }))
  const done = new AbortController()
  lifetime.defer(() => done.abort())
  const write = (text: string): boolean => stdout.write(Buffer.concat(filter.push(Buffer.from(text)).map(({ bytes }) => bytes)))
  const inbox = new Inbox(parts, sizeOf(stdout), write, () => done.abort())
  write(BEGIN)
  inbox.paint()

  const listen = (on: NodeJS.EventEmitter, name: string, work: (chunk: Buffer) => void): void => {
    on.on(name, work)
    lifetime.defer(() => void on.off(name, work))
  }
  listen(stdin, 'data', (chunk: Buffer) => inbox.typed(chunk))
  listen(stdin, 'end', () => done.abort())
  listen(stdin, 'error', () => done.abort())
  listen(stdout, 'error', () => done.abort())
  listen(stdout, 'drain', () => inbox.paint())
  listen(stdout, 'resize', () => {
    inbox.take({ kind: 'resized', size: sizeOf(stdout) })
    inbox.repaint()
  })
  // Whoever stopped this process may have used the terminal meanwhile.
  listen(process, 'SIGCONT', () => {
    stdin.setRawMode(true)
    write(BEGIN)
    inbox.repaint()
  })
  const ticks = setInterval(() => inbox.take({ kind: 'tick' }), LIMITS.viewTickMs)
  lifetime.defer(() => clearInterval(ticks))
  lifetime.defer(() => void stdin.pause())
  lifetime.defer(() => inbox.wipe())
  await follow(parts.daemon, inbox, done.signal)
}

/** Asks for the events again and again, until the operator leaves. */
async function follow(daemon: DaemonClient, inbox: Inbox, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const { available } = (await daemon.request('GET', '/v1/approver')) as { available: Tier[] }
      inbox.take({ kind: 'approver', available })
      const recent = (await daemon.request('GET', `/v1/questions?state=recent&limit=${LIMITS.viewRecentMax}`)) as Question[]
      for (const question of recent.toReversed()) inbox.take({ kind: 'line', line: { event: { kind: 'settled', question } } })
      await daemon.follow('GET', '/v1/questions/events', undefined, (line) => inbox.told(line as unknown as QuestionLine), signal)
    } catch (error) {
      // Of an older daemon, or one of another kind: no use in trying again.
      if (error instanceof SallyportError && error.code === 'usage') throw error
    }
    inbox.take({ kind: 'connection', isConnected: false })
    await pause(LIMITS.viewRetryMs, signal)
  }
}

/** What the view is now, what is typed into it, and what it asks for. */
class Inbox {
  readonly #parts: ViewParts
  readonly #write: (text: string) => boolean
  readonly #quit: () => void
  readonly #keys = new Keys()
  #view: View
  #frame = ''
  #isBehind = false
  #password: Typed | undefined
  /** What was typed, on its way to the answer. */
  #given: Secret | undefined

  constructor(parts: ViewParts, size: Size, write: (text: string) => boolean, quit: () => void) {
    this.#parts = parts
    this.#write = write
    this.#quit = quit
    this.#view = openView(size, system.now(), system.elapsed())
  }

  take(input: Input): void {
    const { view, effects } = step(this.#view, input, { now: system.now(), elapsedMs: system.elapsed() }, measureWith(this.#parts.wording))
    const wasAsked = this.#view.prompt?.kind === 'password'
    this.#view = view
    if (view.prompt?.kind !== 'password') this.wipe()
    else if (!wasAsked) this.#askPassword()
    for (const effect of effects) this.#do(effect)
    this.paint()
  }

  told(line: QuestionLine): void {
    if (!this.#view.isConnected) this.take({ kind: 'connection', isConnected: true })
    if ('pending' in line || 'event' in line) this.take({ kind: 'line', line })
  }

  typed(chunk: Buffer): void {
    if (this.#password !== undefined) return this.#typePassword(this.#password, chunk)
    const keys = this.#keys.push(chunk)
    for (const key of keys) this.take({ kind: 'key', key, isAlone: keys.length === 1 })
  }

  wipe(): void {
    this.#password?.wipe()
    this.#password = undefined
  }

  /** Writes what changed since the last time. */
  paint(): void {
    if (this.#isBehind && process.stdout.writableNeedDrain) return
    const rows = rowsOf(this.#view, this.#parts.wording).map(({ text, style }) => `${STYLES[style]}${text}\x1b[m\x1b[K`)
    const frame = `\x1b[?2026h\x1b[H${rows.join('\r\n')}\x1b[?2026l`
    if (frame === this.#frame) return
    this.#frame = frame
    this.#isBehind = !this.#write(frame)
  }

  repaint(): void {
    this.#frame = ''
    this.#write('\x1b[2J')
    this.paint()
  }

  #askPassword(): void {
    this.#password = new Typed()
    try {
      this.#parts.refuseUnsafe()
    } catch (error) {
      this.take({ kind: 'password', isGiven: false, why: error instanceof Error ? error.message : 'this terminal is not safe' })
    }
  }

  #typePassword(typed: Typed, chunk: Buffer): void {
    // At the end of what came it is the key. Were it the beginning of a mark, nothing would be answered all the same.
    const isEscape = chunk.at(-1) === 0x1b
    const state = isEscape ? ({ kind: 'refused', why: 'not answered' } as const) : typed.take(chunk)
    chunk.fill(0)
    if (state.kind === 'more') return
    if (state.kind === 'done') {
      const bytes = typed.bytes()
      this.#given = new Secret('approver password', bytes.toString('utf8'))
      bytes.fill(0)
      this.take({ kind: 'password', isGiven: true })
    } else this.take({ kind: 'password', isGiven: false, why: state.kind === 'refused' ? state.why : 'not answered' })
  }

  #do(effect: Effect): void {
    const { daemon } = this.#parts
    switch (effect.kind) {
      case 'quit':
        return this.#quit()
      case 'claim':
      case 'release': {
        const method = effect.kind === 'claim' ? 'POST' : 'DELETE'
        const body = effect.kind === 'claim' ? { digest: effect.digest } : undefined
        // The answer itself is refused with the reason where somebody else has it.
        daemon.request(method, `/v1/questions/${encodeURIComponent(effect.id)}/claim`, body).catch(() => undefined)
        return
      }
      case 'answer':
        return this.#answer(effect)
    }
  }

  #answer(effect: Effect & { kind: 'answer' }): void {
    const password = this.#given
    this.#given = undefined
    sendAnswer(this.#parts.daemon, effect, password)
      .then((question) => this.take({ kind: 'answered', question }))
      .catch((error: unknown) =>
        this.take({ kind: 'refused', id: effect.id, why: error instanceof SallyportError ? error.message : 'the answer was lost' }),
      )
  }
}

function sizeOf({ columns, rows }: NodeJS.WriteStream): Size {
  return columns > 0 && rows > 0 ? { columns, rows } : { columns: 80, rows: 24 }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  signal.addEventListener('abort', () => resolve(), { once: true })
  await promise
  clearTimeout(timer)
}

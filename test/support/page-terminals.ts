import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { WebSocket } from 'ws'
import { Logins } from '../../src/controller/operator/logins.ts'
import { openPageTerminals, type PageTerminals, type PageTerminalsParts } from '../../src/controller/operator/page-terminals.ts'
import { openWeb, type Web } from '../../src/controller/operator/web.ts'
import { createEventHub } from '../../src/controller/sessions/event-hub.ts'
import type { SessionEvent } from '../../src/controller/sessions/session-parts.ts'
import { createLog } from '../../src/kernel/log.ts'
import type { Secret } from '../../src/kernel/secret.ts'
import { encodeFrames } from '../../src/channel/channel.ts'
import { FRAME } from '../../src/wire/stream-frames.ts'
import { standingClock, type Clock } from './presence.ts'

/** A program that says what it is given, after `said`. It prints as long as somebody reads. */
export type TestProgram = { readonly kind: 'attach' | 'exec'; typed: string; printed: number; isGone: boolean; print(text: string): void }

export type TestTerminals = AsyncDisposable & {
  readonly web: Web
  readonly logins: Logins
  readonly clock: Clock
  readonly terminals: PageTerminals
  /** Programs that were connected with. */
  readonly programs: TestProgram[]
  secrets: readonly Secret[]
  emit(event: SessionEvent['event']): void
  login(): { readonly id: string; readonly token: string }
  /** The answer to a page that asks for a ticket. */
  ask(token: string, body?: unknown): Promise<{ readonly status: number; readonly body: Record<string, unknown> }>
  ticket(token?: string): Promise<string>
  /** The head of the request by which the page opens a terminal, but for what is changed, and a socket that has sent it. */
  knock(ticket: string, change?: Readonly<Record<string, string | readonly string[] | undefined>>, first?: string): Promise<Knocked>
  /** As the page does. */
  open(ticket: string): Promise<WebSocket>
}

export type Knocked = { readonly status: number; readonly answer: string; readonly socket: Socket }

export const SESSION = 's-terminal'

/** The page's listener with terminals of one session that is none. */
export async function openTestTerminals(endless = false): Promise<TestTerminals> {
  await using parts = new AsyncDisposableStack()
  const clock = standingClock()
  const log = createLog('silent')
  const logins = parts.use(new Logins(clock))
  const hub = createEventHub<SessionEvent>()
  const programs: TestProgram[] = []
  const setting = { secrets: [] as readonly Secret[] }
  const program = (kind: TestProgram['kind']) => {
    const one = { kind, typed: '', printed: 0, isGone: false, print: (text: string) => void stream.push(text) }
    programs.push(one)
    const piece = Buffer.alloc(16 * 1024, 'y\n')
    const stream = new Duplex({
      read: () => void (endless && ((one.printed += piece.length), setImmediate(() => stream.push(Buffer.from(piece))))),
      write: (chunk: Buffer, _encoding, done) => ((one.typed += chunk.toString()), done()),
      destroy: (error, done) => ((one.isGone = true), done(error)),
    })
    return { stream, resize: () => Promise.resolve(), exitCode: () => Promise.resolve(0) }
  }
  const sessions = {
    inspect: (session: string) =>
      session === SESSION ? Promise.resolve({ id: SESSION, asked: { agent: { Tty: true } } }) : Promise.reject(new Error('none')),
    attach: () => Promise.resolve(program('attach')),
    exec: () => Promise.resolve(program('exec')),
    wait: () => Promise.resolve(0),
    events: (signal: AbortSignal) => hub.listen(signal),
  } as unknown as PageTerminalsParts['sessions']
  const terminals = openPageTerminals({ sessions, secretsOf: () => setting.secrets, system: clock, log })
  const web = parts.use(await openWeb({ port: 0, logins, addRoutes: (app) => terminals.addRoutes(app), takeTerminal: terminals.take, log }))
  parts.use(terminals)
  const all = parts.move()
  const login = () => logins.redeem(logins.ticket(), 'a test')
  const own = `localhost:${web.port}`
  const ask: TestTerminals['ask'] = async (token, body = { kind: 'attach', size: { columns: 80, rows: 24 } }) => {
    const answer = await fetch(`http://${own}/v1/sessions/${SESSION}/terminal`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }
  return {
    web,
    logins,
    clock,
    terminals,
    programs,
    get secrets() {
      return setting.secrets
    },
    set secrets(next) {
      setting.secrets = next
    },
    emit: (event) => hub.emit({ at: clock.now(), session: SESSION, name: SESSION, event }),
    login,
    ask,
    async ticket(token = login().token) {
      return String((await ask(token)).body['ticket'])
    },
    async knock(ticket, change = {}, first = 'GET /v1/terminal HTTP/1.1') {
      const headers = {
        host: own,
        connection: 'Upgrade',
        upgrade: 'websocket',
        origin: `http://${own}`,
        'sec-fetch-site': 'same-origin',
        'sec-fetch-mode': 'websocket',
        'sec-fetch-dest': 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': Buffer.alloc(16, 1).toString('base64'),
        'sec-websocket-protocol': `sallyport.terminal, sallyport.ticket.${ticket}`,
        ...change,
      }
      const lines = Object.entries(headers).flatMap(([name, value]) =>
        value === undefined ? [] : [value].flat().map((one) => `${name}: ${one}`),
      )
      const socket = connect(web.port, '127.0.0.1').on('error', () => undefined)
      socket.write(`${[first, ...lines].join('\r\n')}\r\n\r\n`)
      const [chunk] = (await Promise.race([once(socket, 'data'), once(socket, 'close').then(() => [''])])) as [Buffer | string]
      const answer = chunk.toString('latin1')
      return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0), answer, socket }
    },
    async open(ticket) {
      const socket = new WebSocket(`ws://${own}/v1/terminal`, ['sallyport.terminal', `sallyport.ticket.${ticket}`], {
        origin: `http://${own}`,
      })
      await once(socket, 'open')
      return socket
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** A message that types something. */
export function typing(text: string): Buffer {
  return encodeFrames(FRAME.stdin, Buffer.from(text))
}

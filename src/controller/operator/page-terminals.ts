import type { IncomingMessage } from 'node:http'
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { WebSocketServer, type WebSocket } from 'ws'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import { TerminalWish, type TerminalTicket } from '../../wire/terminal.ts'
import { TERMINAL_PROTOCOL, TICKET_PROTOCOL } from '../../wire/terminal-protocol.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { clientOn } from '../terminal/serve-stream.ts'
import type { TakeUpgrade } from './operator.ts'
import { programsOf } from './programs.ts'
import { read } from './session-routes.ts'
import { openMessages } from './terminal-messages.ts'
import { TerminalTickets, type TerminalUse } from './terminal-tickets.ts'

export type PageTerminals = AsyncDisposable & {
  addRoutes(app: FastifyInstance): void
  /** @throws terminal_refused */
  readonly take: TakeUpgrade
}

export type PageTerminalsParts = {
  readonly sessions: Pick<Sessions, 'inspect' | 'attach' | 'exec' | 'wait' | 'events'>
  readonly secretsOf: (session: string) => readonly Secret[]
  readonly system: Pick<System, 'elapsed' | 'random'>
  readonly log: Log
}

const OVER: ReadonlySet<string> = new Set(['ended', 'failed'])
const ON_TERMINAL = { stdout: true, stderr: true } as const

/**
 * Terminals of sessions in pages: each by a ticket that a login was given for one session and one use. What is shown is redacted and
 * filtered as `attach` and `exec` have it. Each ends with its login, its session, or this.
 */
export function openPageTerminals({ sessions, secretsOf, system, log }: PageTerminalsParts): PageTerminals {
  const tickets = new TerminalTickets(system)
  const ending = new AbortController()
  const open = new Set<Duplex>()
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: LIMITS.pageTerminalMessageBytesMax,
    // The ticket is not said again.
    handleProtocols: () => TERMINAL_PROTOCOL,
  })
  // Handshakes that are not WebSocket's are answered by it.
  server.on('wsClientError', (_error, socket) => socket.destroy())

  async function serve(socket: WebSocket, { login, session, wish }: TerminalUse, seenTwice: AbortSignal): Promise<void> {
    const stream = openMessages(socket)
    open.add(stream)
    const over = new AbortController()
    const signal = AbortSignal.any([ending.signal, login.ended, seenTwice, over.signal])
    stream.once('close', () => (open.delete(stream), over.abort()))
    void endWith(session, over)
    const client = clientOn(stream)
    try {
      const programs = await programsOf(sessions as Sessions, secretsOf, session)
      const { size } = wish
      if (wish.kind === 'exec')
        return void (await programs.exec({ argv: wish.argv, tty: true, terminal: ON_TERMINAL, size }, client, signal))
      using attached = await programs.attach()
      await attached.serve({ terminal: ON_TERMINAL, size }, client, signal)
    } catch (error) {
      if (!(error instanceof SallyportError)) log.warn({ code: codeOf(error), session }, 'a terminal of the page failed')
      client.refuse(error)
    }
  }

  /** A reader that is behind has not seen the end of a program's output: its session ends it. */
  async function endWith(session: string, over: AbortController): Promise<void> {
    for await (const event of sessions.events(over.signal))
      if (event.session === session && OVER.has(event.event))
        return over.abort(new SallyportError('stream_lost', `session "${session}" has ended`))
  }

  return {
    addRoutes(app) {
      app.post<{ Params: { id: string } }>('/v1/sessions/:id/terminal', async ({ params, body, login }): Promise<TerminalTicket> => {
        const wish = read(TerminalWish, body)
        if (login === undefined) throw new SallyportError('login_required', 'a terminal is opened by a page that is logged in')
        const { session, tty } = await programsOf(sessions as Sessions, secretsOf, params.id)
        refuseTooMany(open.size)
        const ticket = tickets.make({ login, session, wish })
        return { ticket, expiresInMs: LIMITS.pageTerminalTicketMs, tty: wish.kind === 'exec' || tty }
      })
      app.get('/v1/terminal', () => {
        throw new SallyportError('usage', 'this path is for a WebSocket')
      })
    },
    take(request, socket, head) {
      const { use, seenTwice } = tickets.redeem(ticketOf(request))
      if (ending.signal.aborted) throw new SallyportError('terminal_refused', 'the terminal is not opened: the daemon ends')
      refuseTooMany(open.size)
      server.handleUpgrade(request, socket, head, (accepted) => void serve(accepted, use, seenTwice))
      return true
    },
    async [Symbol.asyncDispose]() {
      tickets[Symbol.dispose]()
      ending.abort(new SallyportError('daemon_unavailable', 'the daemon ends'))
      const closed = [...open].map((stream) => once(stream, 'close'))
      await Promise.all(closed)
    },
  }
}

/** Both subprotocols, in this order, and no other. @throws terminal_refused */
function ticketOf({ headers }: IncomingMessage): string {
  const [protocol, carrying, ...others] = (headers['sec-websocket-protocol'] ?? '').split(',').map((one) => one.trim())
  const ticket = carrying?.startsWith(TICKET_PROTOCOL) === true ? carrying.slice(TICKET_PROTOCOL.length) : ''
  if (protocol === TERMINAL_PROTOCOL && others.length === 0 && /^[\w-]{1,256}$/.test(ticket)) return ticket
  throw new SallyportError('terminal_refused', 'the terminal is not opened: it has no ticket')
}

function refuseTooMany(count: number): void {
  if (count < LIMITS.pageTerminalsMax) return
  throw new SallyportError('terminal_refused', `${count} terminals are open in pages: no more are opened`, {
    hint: 'close one that is not needed',
  })
}

import { FRAME, type FrameType } from '../../wire/frame-types.ts'
import { TERMINAL_PATH, TERMINAL_PROTOCOL, TICKET_PROTOCOL } from '../../wire/terminal-protocol.ts'
import type { TerminalTicket, TerminalWish } from '../../wire/terminal.ts'
import { call, Problem } from '../api/client.ts'
import { createFrameReader, framesOf } from './frames.ts'

export type TerminalEnd =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'detached' }
  | { readonly kind: 'failed'; readonly problem: Problem }

export type TerminalLink = {
  readonly tty: boolean
  type(text: string): void
  resize(size: TerminalWish['size']): void
  /** The program goes on. */
  detach(): void
}

/** What the page does with what arrives. `show` calls back when the bytes are shown: so many are sent ahead, and no more. */
export type TerminalEvents = {
  begun(tty: boolean): void
  show(bytes: Uint8Array, shown: () => void): void
  ended(end: TerminalEnd): void
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/**
 * Connects with a program of a session.
 * @throws Problem
 */
export async function openTerminalLink(session: string, wish: TerminalWish, events: TerminalEvents): Promise<TerminalLink> {
  const { ticket, tty } = await call<TerminalTicket>('POST', `/v1/sessions/${encodeURIComponent(session)}/terminal`, wish)
  const socket = new WebSocket(`ws://${location.host}${TERMINAL_PATH}`, [TERMINAL_PROTOCOL, `${TICKET_PROTOCOL}${ticket}`])
  socket.binaryType = 'arraybuffer'
  await opened(socket)
  events.begun(tty)
  let isOver = false
  const end = (how: TerminalEnd): void => {
    if (isOver) return
    isOver = true
    socket.close()
    events.ended(how)
  }
  const read = createFrameReader()
  const taken = (count: number): void => {
    if (socket.readyState === WebSocket.OPEN) socket.send(String(count))
  }
  socket.addEventListener('message', ({ data }: MessageEvent<ArrayBuffer>) => {
    if (isOver) return
    try {
      let rest = data.byteLength
      for (const { type, payload } of read(new Uint8Array(data))) {
        if (type === FRAME.stdout || type === FRAME.stderr) {
          rest -= payload.length
          events.show(payload, () => taken(payload.length))
        } else end(endOf(type, payload))
      }
      if (rest > 0) taken(rest)
    } catch {
      end({ kind: 'failed', problem: lost('the daemon sent what cannot be read') })
    }
  })
  socket.addEventListener('close', () => end({ kind: 'failed', problem: lost('the connection to the session broke off') }))
  const send = (type: FrameType, payload: Uint8Array): void => {
    if (!isOver) for (const frame of framesOf(type, payload)) socket.send(frame)
  }
  return {
    tty,
    type: (text) => send(FRAME.stdin, encoder.encode(text)),
    resize: (size) => send(FRAME.resize, encoder.encode(JSON.stringify(size))),
    detach() {
      send(FRAME.detached, new Uint8Array())
      end({ kind: 'detached' })
    },
  }
}

async function opened(socket: WebSocket): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.addEventListener('open', () => resolve(), { once: true })
  // A browser does not tell a page why.
  socket.addEventListener('close', () => reject(lost('the daemon did not open a terminal')), { once: true })
  await promise
}

function endOf(type: FrameType, payload: Uint8Array): TerminalEnd {
  const said = JSON.parse(decoder.decode(payload)) as Readonly<Record<string, unknown>>
  if (type === FRAME.exit) return { kind: 'exit', code: Number(said['code']) }
  const { code, detail, hint } = said
  return {
    kind: 'failed',
    problem: new Problem(0, String(code), String(detail), typeof hint === 'string' ? hint : undefined),
  }
}

function lost(why: string): Problem {
  return new Problem(0, 'stream_lost', why, 'connect again; the list of sessions says whether it runs')
}

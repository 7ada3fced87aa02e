import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { Log } from '../../kernel/log.ts'
import type { Secret } from '../../kernel/secret.ts'
import { AttachRequest, ExecRequest, FORWARD_PROTOCOL, STREAM_PROTOCOL, TTY_HEADER } from '../../wire/stream-frames.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { acceptStream } from '../terminal/serve-stream.ts'
import { refuseUpgrade, type TakeUpgrade } from './operator.ts'
import { programsOf } from './programs.ts'

const PATH = /^\/v1\/sessions\/([^/?]+)\/(?:(attach|exec)|forward\/(\d{1,5}))$/

/**
 * What becomes a stream of its own: `attach` and `exec` in frames, `forward` as bytes. What a program prints is looked through for the
 * session's secrets, and filtered where a terminal shows it.
 */
export function takeStreams(
  sessions: Sessions,
  secretsOf: (session: string) => readonly Secret[],
  signal: AbortSignal,
  log: Log,
): TakeUpgrade {
  return (request, socket, head) => {
    const [, encoded = '', verb, port] = PATH.exec(request.url ?? '') ?? []
    if (encoded === '' || request.method !== 'POST') return false
    const id = decoded(encoded)
    const take = port === undefined ? takeProgram(verb === 'exec') : takePort(Number(port))
    void take(id, request, socket, head).catch((error: unknown) => {
      if (!(error instanceof SallyportError)) log.warn({ code: codeOf(error), session: id }, 'a stream of the operator failed')
      if (socket.writable) refuseUpgrade(socket, error)
    })
    return true
  }

  function takePort(port: number) {
    return async (id: string, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
      wants(request, FORWARD_PROTOCOL)
      const remote = await sessions.forward(id, port)
      if (socket.destroyed) return void remote.destroy()
      switchTo(socket, FORWARD_PROTOCOL)
      if (head.length > 0) remote.write(head)
      remote.on('error', () => socket.destroy())
      socket.on('close', () => remote.destroy())
      socket.pipe(remote).pipe(socket)
    }
  }

  function takeProgram(isExec: boolean) {
    return async (id: string, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
      wants(request, STREAM_PROTOCOL)
      const programs = await programsOf(sessions, secretsOf, id)
      if (isExec) {
        switchTo(socket, STREAM_PROTOCOL)
        const { request: wanted, client } = await acceptStream(socket, head, ExecRequest, signal)
        await programs.exec(wanted, client, signal)
        return
      }
      using attached = await programs.attach()
      switchTo(socket, STREAM_PROTOCOL, [`${TTY_HEADER}: ${programs.tty ? 1 : 0}`])
      const { request: wanted, client } = await acceptStream(socket, head, AttachRequest, signal)
      await attached.serve(wanted, client, signal)
    }
  }
}

/** @throws usage */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw new SallyportError('usage', `"${text}" is not encoded as part of a URL`, { cause })
  }
}

function wants(request: IncomingMessage, protocol: string): void {
  if (request.headers.upgrade !== protocol) throw new SallyportError('usage', `this path is for ${protocol}`)
}

function switchTo(socket: Duplex, protocol: string, headers: readonly string[] = []): void {
  socket.write(['HTTP/1.1 101 Switching Protocols', 'connection: Upgrade', `upgrade: ${protocol}`, ...headers, '', ''].join('\r\n'))
}

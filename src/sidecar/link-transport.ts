import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import type { Duplex, Readable, Writable } from 'node:stream'
import { acceptMarked } from '../channel/channel.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'

/** By what a sidecar reaches its controller. On its standard streams the controller comes to the sidecar. */
export type Transport =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'stdio'; readonly input: Readable; readonly output: Writable }

export type Connection = {
  readonly stream: Duplex
  /** From the file beside the socket. Over standard streams the controller says it. */
  readonly lease?: string
  /** Of this connection, over standard streams: the lease is proven with it instead of shown, as an engine may log what goes out. */
  readonly nonce?: string
}

export type OpenTransport = Disposable & {
  readonly name: string
  /** It connects when it is told to, not when somebody comes. */
  readonly isDialled: boolean
  /** @throws control_unreachable */
  connect(signal: AbortSignal): Promise<Connection>
}

export function openTransport(transport: Transport): OpenTransport {
  return transport.kind === 'unix' ? unixTransport(transport.path) : standardTransport(transport)
}

function unixTransport(path: string): OpenTransport {
  return {
    name: path,
    isDialled: true,
    async connect(signal) {
      const lease = await readLease(join(dirname(path), 'lease'))
      const stream = await dial(path, signal)
      return { stream, lease }
    },
    [Symbol.dispose]: () => undefined,
  }
}

function dial(path: string, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path })
    const fail = (cause: unknown): void => {
      socket.destroy()
      reject(unreachable(path, codeOf(cause), cause))
    }
    const timer = setTimeout(() => fail('no answer'), LIMITS.connectMs)
    const abort = (): void => fail('stopped')
    signal.addEventListener('abort', abort, { once: true })
    const settle = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
    }
    socket.once('error', fail)
    socket.once('close', settle)
    socket.once('connect', () => {
      settle()
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

/** Never from the environment or arguments, which others can read. */
async function readLease(file: string): Promise<string> {
  try {
    await using handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const stats = await handle.stat()
    if (!stats.isFile() || stats.size > LIMITS.controlHelloBytesMax / 2) throw new Error('no file of a lease')
    return (await handle.readFile('utf8')).trim()
  } catch (cause) {
    throw unreachable(file, codeOf(cause), cause)
  }
}

function standardTransport({ input, output }: Extract<Transport, { kind: 'stdio' }>): OpenTransport {
  /** The youngest that nobody has taken yet. */
  let pending: Connection | undefined
  let taker: ((connection: Connection) => void) | undefined
  const accepting = acceptMarked(input, output, (stream, nonce) => {
    pending = { stream, nonce }
    taker?.(pending)
  })
  return {
    name: 'the standard streams',
    isDialled: false,
    connect(signal) {
      return new Promise((resolve, reject) => {
        const abort = (): void => reject(unreachable('the standard streams', 'stopped'))
        taker = (connection) => {
          pending = undefined
          taker = undefined
          signal.removeEventListener('abort', abort)
          resolve(connection)
        }
        if (pending && !pending.stream.destroyed) taker(pending)
        else if (signal.aborted) abort()
        else signal.addEventListener('abort', abort, { once: true })
      })
    },
    [Symbol.dispose]: () => accepting[Symbol.dispose](),
  }
}

function unreachable(where: string, why: string, cause?: unknown): SallyportError {
  return new SallyportError('control_unreachable', `the controller cannot be reached at ${where} (${why})`, { cause })
}

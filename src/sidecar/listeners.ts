import { Server as HttpServer } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { formatAuthority } from '../kernel/hostname.ts'
import type { OwnPorts } from './own-ports.ts'

export type Endpoint = { readonly host: string; readonly port: number }

/** The listening sockets of the gate, or of one of its networks. */
export type Listeners = {
  /** Opens one and gives back its bound address. Connections of clients that are not allowed are closed at once. @throws listen_failed */
  open(server: Server, endpoint: Endpoint): Promise<string>
  /** The same for one that goes with the policy: disposed it listens no more, and its connections go on. @throws listen_failed */
  openPassing(server: Server, endpoint: Endpoint): Promise<Disposable>
  /** Connections that are open now. */
  readonly connections: number
  /** Counts a server with its connections, which is open elsewhere. */
  watch(server: Server): void
  /** Stops listening, for good. Resolves when the last connection is gone. */
  close(): Promise<void>
  /** Ends connections on which no request is under way, as far as the servers know. */
  closeIdleConnections(): void
  /** Ends all connections, also those that became tunnels and WebSockets. */
  closeConnections(): void
}

/** @param within all of the gate, of which these are a part: they count there too, and end without the others */
export function createListeners(
  allowsClient: ((address: string) => boolean) | undefined,
  ownPorts: OwnPorts,
  within?: Pick<Listeners, 'watch'>,
): Listeners {
  const servers = new Set<Server>()
  const open = new Set<Socket>()
  let closed: Promise<unknown> | undefined
  function watch(server: Server): void {
    servers.add(server)
    server.once('close', () => servers.delete(server))
    server.on('connection', (socket: Socket) => {
      open.add(socket)
      socket.once('close', () => open.delete(socket))
    })
    within?.watch(server)
  }
  async function listen(server: Server, endpoint: Endpoint): Promise<AddressInfo> {
    if (allowsClient)
      server.prependListener('connection', (socket: Socket) => void (allowsClient(socket.remoteAddress ?? '') || socket.destroy()))
    const bound = await bind(server, endpoint)
    watch(server)
    // It was on its way when all others were closed.
    if (closed) server.close()
    return bound
  }
  return {
    watch,
    get connections() {
      return open.size
    },
    async open(server, endpoint) {
      const { address, port } = await listen(server, endpoint)
      ownPorts.add(port)
      return formatAuthority(address, port)
    },
    async openPassing(server, endpoint) {
      const { address, port } = await listen(server, endpoint)
      const claim = ownPorts.addAt(address, port)
      return {
        [Symbol.dispose]() {
          claim[Symbol.dispose]()
          server.close()
        },
      }
    },
    async close() {
      closed ??= Promise.all([...servers].map((server) => new Promise<void>((resolve) => server.close(() => resolve()))))
      await closed
    },
    closeIdleConnections() {
      for (const server of servers) if (server instanceof HttpServer) server.closeIdleConnections()
    },
    closeConnections() {
      for (const socket of open) socket.destroy()
    },
  }
}

/** Stops listening and ends all that came by these. Resolves when the last connection is gone. */
export async function endListeners(listeners: Listeners, front: { destroy(): void }): Promise<void> {
  const closed = listeners.close()
  front.destroy()
  listeners.closeConnections()
  await closed
}

async function bind(server: Server, endpoint: Endpoint): Promise<AddressInfo> {
  const where = formatAuthority(endpoint.host, endpoint.port)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new SallyportError('listen_failed', `cannot listen on ${where} (${codeOf(cause)})`, {
          hint: 'choose a free port of an address that this machine has',
          cause,
        }),
      ),
    )
    server.listen({ host: endpoint.host, port: endpoint.port, backlog: 4096 }, resolve)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new SallyportError('listen_failed', `cannot listen on ${where}`)
  return address
}

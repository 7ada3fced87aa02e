import { Server as HttpServer } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { formatAuthority } from '../kernel/hostname.ts'

export type Endpoint = { readonly host: string; readonly port: number }

/** The listening sockets of the gate. */
export type Listeners = {
  /** Opens one and gives back its bound address. Connections of clients that are not allowed are closed at once. @throws listen_failed */
  open(server: Server, endpoint: Endpoint): Promise<string>
  /** Ports that are listened on. */
  readonly ports: ReadonlySet<number>
  /** Counts the port of a listener that is open already among `ports`, as the resolver's is. */
  claim(port: number): void
  /** Connections that are open now. */
  readonly connections: number
  /** Stops listening. Resolves when the last connection is gone. */
  close(): Promise<void>
  /** Ends connections on which no request is under way, as far as the servers know. */
  closeIdleConnections(): void
  /** Ends all connections, also those that became tunnels and WebSockets. */
  closeConnections(): void
}

export function createListeners(allowsClient: ((address: string) => boolean) | undefined): Listeners {
  const servers: Server[] = []
  const ports = new Set<number>()
  const open = new Set<Socket>()
  let closed: Promise<unknown> | undefined
  return {
    ports,
    claim: (port) => void ports.add(port),
    get connections() {
      return open.size
    },
    async open(server, endpoint) {
      server.on('connection', (socket: Socket) => {
        open.add(socket)
        socket.once('close', () => open.delete(socket))
      })
      if (allowsClient)
        server.prependListener('connection', (socket: Socket) => void (allowsClient(socket.remoteAddress ?? '') || socket.destroy()))
      const { address, port } = await bind(server, endpoint)
      servers.push(server)
      ports.add(port)
      return formatAuthority(address, port)
    },
    async close() {
      closed ??= Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))))
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

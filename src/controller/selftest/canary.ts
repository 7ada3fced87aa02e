import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { LIMITS } from '../../kernel/limits.ts'

/** A service of this machine on all its addresses that no container of a session may reach. */
export type Canary = AsyncDisposable & {
  /** Of TCP and UDP. */
  readonly port: number
  /** Who connected, by address. */
  connections(): readonly string[]
  /** Who sent a datagram, by address. Resolved when what was sent before has arrived. @throws AbortError when nothing arrives any more */
  datagrams(): Promise<readonly string[]>
}

/** Ports are tried until one is free for both: the engine's own and everybody else's services take some. */
const TRIES_MAX = 20

/** Listens, on all of the machine's addresses, IPv6 too where it has that. What comes is counted and answered with nothing. */
export async function openCanary(): Promise<Canary> {
  for (let tries = 1; ; tries += 1) {
    const server = await listen()
    const { port } = server.address() as AddressInfo
    try {
      return canaryOf(server, await bind(port), port)
    } catch (error) {
      await closed(server)
      if (tries === TRIES_MAX) throw error
    }
  }
}

/** Every IPv4 address that this machine has, loopback aside. Those of the engine's bridges are among them. */
export function hostAddresses(): string[] {
  return interfacesOf('IPv4').map(({ address }) => address)
}

/** The link-local IPv6 addresses that this machine has on a bridge. */
export function linkLocalAddresses(bridge: string): string[] {
  return interfacesOf('IPv6').flatMap(({ name, address }) => (name === bridge && address.startsWith('fe80:') ? [address] : []))
}

function interfacesOf(wanted: 'IPv4' | 'IPv6'): { name: string; address: string }[] {
  return Object.entries(networkInterfaces()).flatMap(([name, list = []]) =>
    list.filter(({ family, internal }) => family === wanted && !internal).map(({ address }) => ({ name, address })),
  )
}

function canaryOf(server: Server, socket: Socket, port: number): Canary {
  const connections: string[] = []
  const datagrams: string[] = []
  server.on('connection', (peer) => {
    connections.push(peer.remoteAddress ?? 'somebody')
    peer.on('error', () => undefined)
    peer.destroy()
  })
  socket.on('error', () => undefined)
  const own = `own ${port}`
  socket.on('message', (message, { address }) => {
    if (message.toString() === own) socket.emit('own')
    else datagrams.push(address)
  })
  return {
    port,
    connections: () => connections,
    datagrams: async () => {
      // A datagram of our own, behind those that came: the kernel keeps their order.
      const arrived = once(socket, 'own', { signal: AbortSignal.timeout(LIMITS.probeAttemptMs) })
      socket.send(own, port, '127.0.0.1')
      await arrived
      return datagrams
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([closed(server), closed(socket)])
    },
  }
}

async function listen(): Promise<Server> {
  const server = createServer()
  const hasIpv6 = Object.values(networkInterfaces()).some((list = []) => list.some(({ family }) => family === 'IPv6'))
  server.listen({ port: 0, host: hasIpv6 ? '::' : '0.0.0.0', ipv6Only: false })
  await once(server, 'listening')
  return server
}

async function bind(port: number): Promise<Socket> {
  const socket = createSocket('udp4')
  try {
    socket.bind(port, '0.0.0.0')
    await once(socket, 'listening')
    return socket
  } catch (error) {
    socket.close()
    throw error
  }
}

function closed(part: Server | Socket): Promise<void> {
  return new Promise((resolve) => void part.close(() => resolve()))
}

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'

/** A service of this machine on all its addresses, IPv4 and IPv6, that counts who reaches it. */
export type HostListener = AsyncDisposable & { readonly port: number; connections(): number }

export async function listenOnHost(): Promise<HostListener> {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.destroy()
  })
  server.listen({ port: 0, host: '::', ipv6Only: false })
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    [Symbol.asyncDispose]: async () => {
      server.close()
      await once(server, 'close')
    },
  }
}

/** A UDP service of this machine. `next` resolves with the texts that came before and with the one that is waited for. */
export async function listenUdpOnHost(): Promise<AsyncDisposable & { readonly port: number; until(text: string): Promise<string[]> }> {
  const socket = createSocket('udp4')
  const seen: string[] = []
  socket.on('message', (message) => seen.push(message.toString()))
  socket.bind(0, '0.0.0.0')
  await once(socket, 'listening')
  return {
    port: socket.address().port,
    until: async (text) => {
      while (!seen.includes(text)) await once(socket, 'message')
      return seen
    },
    [Symbol.asyncDispose]: async () => {
      socket.close()
      await once(socket, 'close')
    },
  }
}

/** Every IPv4 address that this machine has, loopback aside: bridges of the engine included. */
export function hostAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list = []) =>
    list.filter(({ family, internal }) => family === 'IPv4' && !internal).map(({ address }) => address),
  )
}

/** Tries a TCP connection from this machine: `connected`, or the error's code. */
export function connectFromHost(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 5_000 })
    socket.on('connect', () => resolve('connected'))
    socket.on('timeout', () => resolve('ETIMEDOUT'))
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'error'))
    socket.on('close', () => socket.destroy())
  })
}

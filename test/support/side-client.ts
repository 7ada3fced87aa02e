import { once } from 'node:events'
import { createSocket } from 'node:dgram'
import { connect, type Socket } from 'node:net'
import { queryFor, readAnswer } from './dns.ts'
import { readToEnd } from './raw-client.ts'

/** A program in some network: it comes from this address. */
export type SideClient = {
  dial(host: string, port: number): Promise<Socket>
  /** All that comes back until the other side ends it. */
  exchange(host: string, port: number, bytes: string | Buffer): Promise<string>
  /** What a name is, asked at that resolver: `undefined` where there is no such name. */
  resolve(host: string, port: number, name: string): Promise<unknown>
}

export function clientAt(localAddress: string): SideClient {
  const dial = async (host: string, port: number): Promise<Socket> => {
    const socket = connect({ host, port, localAddress })
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }
  return {
    dial,
    async exchange(host, port, bytes) {
      const socket = await dial(host, port)
      socket.write(bytes)
      return readToEnd(socket)
    },
    async resolve(host, port, name) {
      const socket = createSocket('udp4')
      socket.bind({ port: 0, address: localAddress })
      await once(socket, 'listening')
      try {
        const answered = once(socket, 'message') as Promise<[Buffer]>
        socket.send(queryFor(name), port, host)
        return readAnswer((await answered)[0]).data[0]
      } finally {
        socket.close()
      }
    },
  }
}

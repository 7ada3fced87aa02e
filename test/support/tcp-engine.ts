import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** The machine's engine as one that is reached by TCP: then no socket of this machine can be mounted, for all that a program knows. */
export type TcpEngine = AsyncDisposable & {
  /** For DOCKER_HOST. */
  readonly url: string
  readonly address: { readonly host: string; readonly port: number; readonly protocol: 'http' }
  /** Ends every connection that is open, as a network does that is gone for a moment. */
  cut(): void
}

export async function openTcpEngine(): Promise<TcpEngine> {
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const engine = connect({ path: '/var/run/docker.sock', allowHalfOpen: true })
    for (const [from, to] of [
      [client, engine],
      [engine, client],
    ] as const) {
      open.add(from)
      from.on('error', () => undefined)
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const cut = (): void => {
    for (const socket of open) socket.destroy()
  }
  return {
    url: `tcp://127.0.0.1:${port}`,
    address: { host: '127.0.0.1', port, protocol: 'http' },
    cut,
    async [Symbol.asyncDispose]() {
      server.close()
      cut()
      await once(server, 'close')
    },
  }
}

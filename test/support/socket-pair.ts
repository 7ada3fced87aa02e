import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** Both ends of a real connection on loopback. Each end may be half closed, like the sockets of a server here. */
export type SocketPair = AsyncDisposable & { readonly client: Socket; readonly server: Socket }

export async function openSocketPair(options: { allowHalfOpen?: boolean } = {}): Promise<SocketPair> {
  const allowHalfOpen = options.allowHalfOpen ?? true
  const listener = createServer({ allowHalfOpen })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const client = connect({ port: (listener.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen })
  client.on('error', () => {})
  const [server] = (await once(listener, 'connection')) as [Socket]
  server.on('error', () => {})
  if (client.connecting) await once(client, 'connect')
  return {
    client,
    server,
    async [Symbol.asyncDispose]() {
      client.destroy()
      server.destroy()
      listener.close()
      await once(listener, 'close')
    },
  }
}

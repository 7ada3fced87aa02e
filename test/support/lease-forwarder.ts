import { once } from 'node:events'
import { createServer, request as requestOf } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A door on loopback for clients that cannot be told a lease: it passes all on as it came, with the lease added. */
export async function openLeaseForwarder(gateway: URL, lease: string): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((incoming, response) => {
    const headers = [...incoming.rawHeaders, 'authorization', `Bearer ${lease}`]
    const { hostname, port } = gateway
    const onward = requestOf({ hostname, port, method: incoming.method, path: incoming.url, headers, setHost: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    incoming.pipe(onward)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${gateway.pathname}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

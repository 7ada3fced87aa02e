import { createServer as createHttpServer, type IncomingMessage } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { WebSocketServer, type WebSocket } from 'ws'
import { listenAsUpstream, type Place, type Recorded, type Upstream } from './upstream.ts'

/**
 * A WebSocket server on loopback that sends back what it gets, text as text and bytes as bytes. `close 4321 why` has it close
 * with that code and reason. Of the subprotocols `chat.v1` and `chat.v2` it takes the first that is offered; `/refused` is
 * answered 403. Handshakes are recorded as requests.
 */
export async function openWebSocketUpstream(tls?: { cert: string; key: string }, place?: Place): Promise<Upstream> {
  const requests: Recorded[] = []
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: 64 * 1024 * 1024,
    perMessageDeflate: true,
    handleProtocols: (offered) => ['chat.v1', 'chat.v2'].find((name) => offered.has(name)) ?? false,
  })
  const server = tls ? createHttpsServer(tls) : createHttpServer()
  server.on('upgrade', (request: IncomingMessage, socket, head) => {
    requests.push({
      method: request.method ?? '',
      url: request.url ?? '',
      rawHeaders: request.rawHeaders,
      body: Buffer.alloc(0),
      remotePort: request.socket.remotePort ?? 0,
    })
    if (request.url === '/refused') {
      socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\nConnection: close\r\n\r\nnot you\n')
      return
    }
    sockets.handleUpgrade(request, socket, head, echo)
  })
  return listenAsUpstream(server, requests, place)
}

function echo(socket: WebSocket): void {
  socket.on('error', () => {})
  socket.on('message', (data, isBinary) => {
    const asked = isBinary || !(data instanceof Buffer) ? undefined : /^close (\d+) (.*)$/.exec(data.toString())
    if (asked) socket.close(Number(asked[1]), asked[2])
    else socket.send(data, { binary: isBinary })
  })
}

import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { pino } from 'pino'
import type { Refusal } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system } from '../../src/kernel/system.ts'
import type { Agent } from '../../src/sidecar/egress/agent.ts'
import type { Exchange, Exchanges, Where } from '../../src/sidecar/egress/exchange.ts'
import { createHttp1, type Http1 } from '../../src/sidecar/inbound/http1.ts'

/** What agents' connections are read by, with a story of the test's own behind it. */
export type Http1Agents = AsyncDisposable & {
  readonly port: number
  readonly http1: Http1
  /** Ends of the connections at the gate, as they came. */
  readonly sockets: Socket[]
  /** Codes of what never became a request. */
  readonly refused: string[]
  /** Targets of CONNECTs. */
  readonly connects: string[]
}

/** @param onSocket sees each connection before it is served */
export async function openHttp1Agents(
  handle: (agent: Agent) => Promise<void>,
  onSocket: (socket: Socket) => void = () => {},
): Promise<Http1Agents> {
  const refused: string[] = []
  const connects: string[] = []
  const sockets: Socket[] = []
  const exchange = {
    requestId: 'q1',
    deny: async (_where: Where, { code }: Refusal) => void refused.push(code),
    finish: async () => {},
  }
  const exchanges = { run: (_lane: unknown, story: (exchange: Exchange) => Promise<void>) => story(exchange as unknown as Exchange) }
  const http1 = createHttp1({ exchanges: exchanges as unknown as Exchanges, handle, log: pino({ level: 'silent' }), system }, (request) => {
    connects.push(request.request.url)
    request.take().end(`HTTP/1.1 200 OK\r\n\r\n${request.behind.toString('latin1')}`)
  })
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.push(socket)
    onSocket(socket)
    http1.serve(socket, 'proxy')
  })
  const port = await listen(server)
  return {
    port,
    http1,
    sockets,
    refused,
    connects,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A request as it was told: all that can be read of it in more than one way. */
export type ReadRequest = { readonly head: readonly unknown[]; readonly body: string; readonly trailers: readonly string[] }

/** Reads a request to its end and answers it. */
export async function readAndAnswer(agent: Agent, requests: ReadRequest[]): Promise<void> {
  const { method, url, rawHeaders, isUpgrade } = agent.head
  const chunks: Buffer[] = []
  if (agent.body) for await (const chunk of agent.body as AsyncIterable<Buffer>) chunks.push(chunk)
  requests.push({
    head: [method, url, agent.isModern, isUpgrade === true, ...rawHeaders],
    body: Buffer.concat(chunks).toString('latin1'),
    trailers: agent.trailers(),
  })
  if (agent.isGone) return
  agent.start(200, 'OK', ['Date', 'today', 'Content-Length', '2'])
  agent.write(Buffer.from('ok'))
  agent.end([])
}

/** Node's own server, as strict as it is by itself, with the same story. */
export async function openNodeServer(
  onRequest: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<AsyncDisposable & { readonly port: number; readonly server: HttpServer }> {
  const server = createHttpServer({
    insecureHTTPParser: false,
    requireHostHeader: false,
    maxHeaderSize: LIMITS.headBytesMax,
    keepAliveTimeout: LIMITS.keepAliveMs,
    shouldUpgradeCallback: ({ headers, httpVersion }) => httpVersion === '1.1' && headers.upgrade?.toLowerCase() === 'websocket',
  })
  server.maxHeadersCount = 0
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, onRequest)
  const port = await listen(server)
  return {
    port,
    server,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** A connection that is there. */
export async function dialLocal(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.setNoDelay(true)
  await once(socket, 'connect')
  return socket
}

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseHostname, type Hostname } from '../../src/kernel/hostname.ts'
import { system, type System } from '../../src/kernel/system.ts'
import { createAuthority, type Authority } from '../../src/pki/pki.ts'

export type Recorded = { method: string; url: string; rawHeaders: string[]; body: Buffer; remotePort: number }

export type Upstream<R extends Recorded = Recorded> = AsyncDisposable & {
  readonly port: number
  /** Every request that arrived, whole. An upstream that recorded nothing was not harmed. */
  readonly requests: R[]
  /** Connections that were made, also those without a request. */
  readonly connections: number
  /** Connections that are open now. */
  readonly open: number
}

/** The authority that the test's upstreams are certified by, and its PEM file for the gate. */
export async function createUpstreamCa(
  at: Pick<System, 'now' | 'random'> = system,
): Promise<{ authority: Authority; file: string } & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-upstream-ca-'))
  const authority = createAuthority('upstream', at)
  const file = join(folder, 'upstream-ca.crt')
  await writeFile(file, authority.certificatePem)
  return { authority, file, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
}

export function leafFor(authority: Authority, host: string): { cert: string; key: string } {
  const leaf = authority.leafFor(parseHostname(host) as Hostname)
  return { cert: leaf.certPem, key: leaf.keyPem }
}

const answerOk = (_request: Recorded, response: ServerResponse): void => void response.end('ok')

/** An HTTP upstream on loopback that records what arrives. With `tls` it is HTTPS. */
export async function openUpstream(
  answer: (request: Recorded, response: ServerResponse) => void = answerOk,
  tls?: { cert: string; key: string },
  place?: Place,
): Promise<Upstream> {
  return openServer(
    (request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => answer(record(request, Buffer.concat(chunks)), response))
    },
    tls,
    place,
  )

  function record(request: IncomingMessage, body: Buffer): Recorded {
    return {
      method: request.method ?? '',
      url: request.url ?? '',
      rawHeaders: request.rawHeaders,
      body,
      remotePort: request.socket.remotePort ?? 0,
    }
  }
}

/** The same with the request as a stream, for bodies that are not to be collected. */
export async function openServer(listener: RequestListener, tls?: { cert: string; key: string }, place?: Place): Promise<Upstream> {
  const requests: Recorded[] = []
  const recording: RequestListener = (request, response) => {
    const entry: Recorded = {
      method: request.method ?? '',
      url: request.url ?? '',
      rawHeaders: request.rawHeaders,
      body: Buffer.alloc(0),
      remotePort: request.socket.remotePort ?? 0,
    }
    requests.push(entry)
    request.on('error', () => {}) // a request that breaks off is a case of many tests
    request.on('data', (chunk: Buffer) => {
      if (entry.body.length < 1_000_000) entry.body = Buffer.concat([entry.body, chunk])
    })
    listener(request, response)
  }
  return listenAsUpstream(tls ? createHttpsServer(tls, recording) : createHttpServer(recording), requests, place)
}

/** A server of bare sockets, for answers that no HTTP server would give. */
export function openRawUpstream(onSocket: (socket: Socket) => void, place?: Place, allowHalfOpen = false): Promise<Upstream> {
  return listenAsUpstream(createTcpServer({ allowHalfOpen }, onSocket), [], place)
}

export type Place = { readonly host: string; readonly port: number }

/** Has a server listen on loopback, and counts who comes. The server itself fills `requests`. */
export async function listenAsUpstream<R extends Recorded>(
  server: Server,
  requests: R[],
  place: Place = { host: '127.0.0.1', port: 0 },
): Promise<Upstream<R>> {
  const sockets = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => {})
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen({ ...place }, resolve))
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    get connections() {
      return connections
    },
    get open() {
      return sockets.size
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

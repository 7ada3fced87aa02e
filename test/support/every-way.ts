import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import ipaddr from 'ipaddr.js'
import { ALL_WAYS, openTestGate, type TestGate, type TestGateOptions } from './gate.ts'
import { openTunnel } from './raw-client.ts'
import { CANARY } from './setting.ts'
import { createUpstreamCa, leafFor, type Place } from './upstream.ts'

/** The ways into the gate. At the first and the last the request itself says where it goes; the others carry a connection. */
export const EVERY_WAY = ['absolute form', 'CONNECT', 'SOCKS5', 'SOCKS5 by our address', 'transparent', 'route'] as const
export type Way = (typeof EVERY_WAY)[number]
export type Carrying = Exclude<Way, 'absolute form' | 'route'>
export const CARRYING: readonly Carrying[] = ['CONNECT', 'SOCKS5', 'SOCKS5 by our address', 'transparent']
export type Scheme = 'http' | 'https'

/** The lane that the audit has for each. */
export const LANE: Readonly<Record<Way, string>> = {
  'absolute form': 'http',
  CONNECT: 'connect',
  SOCKS5: 'socks',
  'SOCKS5 by our address': 'socks',
  transparent: 'transparent',
  route: 'route',
}

/** What a way says instead of carrying a connection: `HTTP 403`, `SOCKS 2`, `alert 49`, or `closed`. */
export class NotCarried extends Error {
  readonly said: string
  /** Body of an HTTP answer. */
  readonly body: string

  constructor(said: string, body = '') {
    super(`the way was refused: ${said}`)
    this.said = said
    this.body = body
  }
}

/** A gate in this process with all its ways in. Each host has a loopback address of its own, on which all ports are free. */
export type EveryWay = AsyncDisposable & {
  readonly gate: TestGate
  readonly ca: string
  readonly at: (host: string, port: number) => Place
  readonly tls: (host: string) => { cert: string; key: string }
  /** A connection to the host as the way carries it, before anything is said on it. @throws NotCarried */
  dial(way: Carrying, host: string, port: number): Promise<Socket>
  /** The same with TLS on it. @throws NotCarried */
  dialTls(way: Carrying, host: string, port?: number, options?: ConnectionOptions): Promise<TLSSocket>
  /** A connection on which requests are written as HTTP/1.1, and how the target of one is written. @throws NotCarried */
  open(way: Way, scheme: Scheme, host: string): Promise<Opened>
}

export type Opened = { readonly socket: Socket; readonly target: (path: string) => string; readonly authority: string }

/** @param policy has a route for each host and scheme that is asked for by a route, with the name that `routeTo` gives */
export async function openEveryWay(policy: string, hosts: readonly string[], options: Partial<TestGateOptions> = {}): Promise<EveryWay> {
  await using parts = new AsyncDisposableStack()
  const upstreamCa = parts.use(await createUpstreamCa())
  const network = `127.${randomInt(16, 255)}.${randomInt(0, 255)}`
  const addressOf = (host: string): string => `${network}.${hosts.indexOf(host) + 1}`
  const gate = parts.use(
    await openTestGate({
      policy,
      env: { API_TOKEN: CANARY },
      hosts: Object.fromEntries(hosts.map((host) => [host, [addressOf(host)]])),
      ...options,
      upstreamCa: [upstreamCa.file, ...(options.upstreamCa ?? [])],
      config: { ...ALL_WAYS, ...options.config },
    }),
  )
  const ca = await gate.caPem()
  const dial = (way: Carrying, host: string, port: number): Promise<Socket> => dialBy(gate, way, host, port)
  const dialTls: EveryWay['dialTls'] = async (way, host, port = 443, more = {}) =>
    startTls(await dial(way, host, port), { servername: host, ca, ...more })
  const all = parts.move()
  return {
    gate,
    ca,
    at: (host, port) => ({ host: addressOf(host), port }),
    tls: (host) => leafFor(upstreamCa.authority, host),
    dial,
    dialTls,
    async open(way, scheme, host) {
      if (way === 'absolute form')
        return { socket: await dialPort(gate.port), target: (path) => `${scheme}://${host}${path}`, authority: host }
      if (way === 'route') {
        const target = (path: string): string => `/route/${routeTo(scheme, host)}${path}`
        return { socket: await dialPort(gate.ports.gateway), target, authority: `127.0.0.1:${gate.ports.gateway}` }
      }
      const socket = scheme === 'https' ? await dialTls(way, host) : await dial(way, host, 80)
      return { socket, target: (path) => path, authority: host }
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** Name of the route to a host. */
export function routeTo(scheme: Scheme, host: string): string {
  return `${scheme}-${host.split('.')[0] ?? ''}`
}

/** TLS on a connection. @throws NotCarried with the alert that ended the handshake */
export async function startTls(socket: Socket, options: ConnectionOptions): Promise<TLSSocket> {
  const secure = connectTls({ socket, ...options })
  await new Promise<void>((resolve, reject) => {
    secure.once('secureConnect', resolve)
    secure.on('error', (error) =>
      reject(new NotCarried(/SSL alert number (\d+)/.exec(error.message)?.[0]?.replace('SSL alert number', 'alert') ?? 'closed')),
    )
    secure.once('close', () => reject(new NotCarried('closed')))
  })
  return secure
}

export async function dialPort(port: number, allowHalfOpen = false): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

async function dialBy(gate: TestGate, way: Carrying, host: string, port: number): Promise<Socket> {
  switch (way) {
    case 'CONNECT': {
      const { status, head, socket } = await openTunnel(gate.port, `${host}:${port}`)
      if (status === 200) return socket
      const [, body = ''] = head.split('\r\n\r\n')
      socket.destroy()
      throw new NotCarried(`HTTP ${status}`, body)
    }
    case 'SOCKS5':
      return dialSocks(gate.ports.socks, socksName(host), port)
    // What a client asks for that has resolved the name by our DNS.
    case 'SOCKS5 by our address':
      return dialSocks(gate.ports.socks, Buffer.of(1, 127, 0, 0, 1), port)
    case 'transparent':
      return dialPort(port === 80 ? gate.ports.plain : gate.ports.secure)
  }
}

/** A name as SOCKS5 has it: address type, length, bytes. */
export function socksName(host: string): Buffer {
  return Buffer.concat([Buffer.of(3, host.length), Buffer.from(host, 'latin1')])
}

/** An address as SOCKS5 has it: address type, four or sixteen bytes. */
export function socksAddress(address: string): Buffer {
  const bytes = ipaddr.parse(address).toByteArray()
  return Buffer.of(bytes.length === 4 ? 1 : 4, ...bytes)
}

/** Connects by SOCKS5. @throws NotCarried with the reply */
export async function dialSocks(socksPort: number, address: Buffer, port: number, allowHalfOpen = false): Promise<Socket> {
  const socket = await dialPort(socksPort, allowHalfOpen)
  socket.write(Buffer.of(5, 1, 0))
  await readBytes(socket, 2)
  socket.write(Buffer.concat([Buffer.of(5, 1, 0), address, Buffer.of(port >> 8, port & 255)]))
  const reply = await readBytes(socket, 10)
  if (reply[1] === 0) return socket
  socket.destroy()
  throw new NotCarried(reply.length < 2 ? 'closed' : `SOCKS ${reply[1]}`)
}

/** So many bytes, or fewer where the connection ends before. What follows stays on the socket. */
export async function readBytes(socket: Socket, count: number): Promise<Buffer> {
  let bytes: Buffer = Buffer.alloc(0)
  while (bytes.length < count && !socket.readableEnded && !socket.destroyed) {
    const chunk: unknown = socket.read(Math.min(count - bytes.length, Math.max(socket.readableLength, 1)))
    if (Buffer.isBuffer(chunk)) bytes = Buffer.concat([bytes, chunk])
    else if (!socket.readableEnded)
      await new Promise<void>((resolve) => {
        const done = (): void => {
          for (const event of ['readable', 'end', 'close']) socket.off(event, done)
          resolve()
        }
        for (const event of ['readable', 'end', 'close']) socket.on(event, done)
      })
  }
  return bytes
}

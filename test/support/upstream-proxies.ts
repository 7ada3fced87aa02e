import { once } from 'node:events'
import { createServer as createHttpServer, request as httpRequest, type IncomingMessage } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

export type TestProxy = AsyncDisposable & {
  readonly port: number
  /** What it was asked for: `CONNECT host:port`, `GET http://…`, `SOCKS host:port`. */
  readonly asked: string[]
  /** What it was shown as a login: the value of Proxy-Authorization, `user:password` of SOCKS, '' for none. */
  readonly logins: string[]
}

export type ProxyOptions = {
  /** The only login that it takes. */
  readonly login?: string
  readonly tls?: { cert: string; key: string }
  /** It refuses everything with this status, or SOCKS reply. */
  readonly refuse?: number
  /** HTTP only: every CONNECT leads to this port of loopback, whatever host and port it names. */
  readonly leadsTo?: number
  /** SOCKS only: its answer waits for what the server says first, and comes in one piece with it. */
  readonly isServerFirst?: boolean
}

/** An HTTP proxy: requests in absolute form, and CONNECT, all of them led to loopback. */
export async function openHttpProxy(options: ProxyOptions = {}): Promise<TestProxy> {
  const asked: string[] = []
  const logins: string[] = []
  function problemOf(request: IncomingMessage): number | undefined {
    asked.push(`${request.method} ${request.url}`)
    const login = request.headers['proxy-authorization'] ?? ''
    logins.push(login)
    const expected = options.login === undefined ? undefined : `Basic ${Buffer.from(options.login).toString('base64')}`
    return options.refuse ?? (expected !== undefined && login !== expected ? 407 : undefined)
  }
  const server = options.tls ? createHttpsServer(options.tls) : createHttpServer()
  server.on('request', (request: IncomingMessage, response) => {
    const status = problemOf(request)
    if (status !== undefined) return void response.writeHead(status, { 'proxy-authenticate': 'Basic' }).end()
    const url = new URL(request.url ?? '')
    const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !name.startsWith('proxy-')))
    const onward = httpRequest({ host: '127.0.0.1', port: url.port, path: url.pathname + url.search, method: request.method, headers })
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(response)
    })
    request.pipe(onward)
  })
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    socket.on('error', () => {})
    const status = problemOf(request)
    if (status !== undefined) return void socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: 2\r\n\r\nno`)
    const onward = connect(options.leadsTo ?? Number(request.url?.split(':').at(-1)), '127.0.0.1')
    onward.on('error', () => socket.destroy())
    socket.once('close', () => onward.destroy())
    onward.on('connect', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      socket.pipe(onward).pipe(socket)
    })
  })
  return listen(server, asked, logins)
}

const IPV4 = 1
const NAME = 3
const IPV6 = 4

/** A SOCKS5 proxy (RFC 1928, 1929) that leads everything to loopback. `refuse` is the reply code. */
export async function openSocksProxy(options: ProxyOptions = {}): Promise<TestProxy> {
  const asked: string[] = []
  const logins: string[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    void serve(socket).catch(() => socket.destroy())
  })
  async function serve(socket: Socket): Promise<void> {
    const take = reader(socket)
    const [, count = 0] = await take(2)
    const methods = await take(count)
    const method = options.login === undefined ? 0 : 2
    if (!methods.includes(method)) return void socket.end(Buffer.from([5, 0xff]))
    socket.write(Buffer.from([5, method]))
    if (method === 2) {
      await take(1)
      const user = await take((await take(1))[0] ?? 0)
      const login = `${String(user)}:${String(await take((await take(1))[0] ?? 0))}`
      logins.push(login)
      if (login !== options.login) return void socket.end(Buffer.from([1, 1]))
      socket.write(Buffer.from([1, 0]))
    } else logins.push('')
    const [, , , kind] = await take(4)
    const host = await readHost(take, kind ?? 0)
    const port = (await take(2)).readUInt16BE()
    asked.push(`SOCKS ${host}:${port}`)
    if (options.refuse !== undefined) return void socket.end(Buffer.from([5, options.refuse, 0, IPV4, 0, 0, 0, 0, 0, 0]))
    const onward = connect(port, '127.0.0.1')
    onward.on('error', () => socket.destroy())
    socket.once('close', () => onward.destroy())
    await once(onward, 'connect')
    if (options.isServerFirst === true) {
      const [first] = (await once(onward, 'data')) as [Buffer]
      socket.write(Buffer.concat([GRANTED, first]))
    } else socket.write(GRANTED)
    onward.pipe(socket).pipe(onward)
  }
  return listen(server, asked, logins)
}

const GRANTED = Buffer.from([5, 0, 0, IPV4, 127, 0, 0, 1, 0, 1])

type Take = (bytes: number) => Promise<Buffer>

function reader(socket: Socket): Take {
  return async (bytes) => {
    for (;;) {
      const read = bytes === 0 ? Buffer.alloc(0) : (socket.read(bytes) as Buffer | null)
      if (read) return read
      await once(socket, 'readable')
      if (socket.readableEnded) throw new Error('ended')
    }
  }
}

async function readHost(take: Take, kind: number): Promise<string> {
  if (kind === IPV4) return [...(await take(4))].join('.')
  if (kind === IPV6) return (await take(16)).toString('hex')
  if (kind === NAME) return String(await take((await take(1))[0] ?? 0))
  throw new Error(`address type ${kind}`)
}

async function listen(server: Server, asked: string[], logins: string[]): Promise<TestProxy> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => {})
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    asked,
    logins,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

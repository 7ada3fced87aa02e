import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'

/** Sends bytes as they are and gives all that comes back until the other side ends the connection. */
export async function exchangeRaw(port: number, bytes: string | Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return exchangeOn(socket, bytes)
}

/** The same on a connection that is there. */
export async function exchangeOn(socket: Socket, bytes: string | Buffer): Promise<string> {
  socket.write(bytes)
  return readToEnd(socket)
}

export async function readToEnd(socket: Socket): Promise<string> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.on('error', () => {})
  // Not events.once: it rejects on 'error', and a connection that is reset after its answer has still given it.
  if (!socket.destroyed) await new Promise((resolve) => socket.once('close', resolve))
  return Buffer.concat(chunks).toString('latin1')
}

/** Opens a tunnel and gives its socket, or the refusal's head and body. */
export async function openTunnel(port: number, authority: string): Promise<{ status: number; head: string; socket: Socket }> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  let head = ''
  while (!head.includes('\r\n\r\n') && !socket.destroyed) {
    const chunk = socket.read() as Buffer | null
    if (chunk) head += chunk.toString('latin1')
    else await Promise.race([once(socket, 'readable'), once(socket, 'close')])
  }
  const status = Number(head.split(' ')[1])
  const end = head.indexOf('\r\n\r\n') + 4
  // A server that speaks first may have spoken already.
  if (status === 200 && head.length > end && !socket.destroyed) socket.unshift(Buffer.from(head.slice(end), 'latin1'))
  return { status, head: status === 200 ? head.slice(0, end) : head, socket }
}

/** TLS inside a tunnel, with the session's authority trusted. */
export async function openTlsTunnel(
  port: number,
  host: string,
  targetPort: number,
  ca: string,
  options: ConnectionOptions = {},
): Promise<TLSSocket> {
  const tunnel = await openTunnel(port, `${host}:${targetPort}`)
  if (tunnel.status !== 200) throw new Error(`CONNECT was answered ${tunnel.status}: ${tunnel.head}`)
  const secure = connectTls({ socket: tunnel.socket, servername: host, ca, ...options })
  await new Promise<void>((resolve, reject) => {
    secure.once('secureConnect', resolve)
    secure.once('error', reject)
    secure.once('close', () => reject(new Error('closed during the handshake')))
  })
  return secure
}

/** One HTTP/1.1 request inside TLS inside a tunnel; the bytes of the answer, to the end of the connection. */
export async function exchangeTls(port: number, host: string, targetPort: number, ca: string, bytes: string): Promise<string> {
  const secure = await openTlsTunnel(port, host, targetPort, ca)
  secure.write(bytes)
  return readToEnd(secure)
}

export function bodyOf(answer: string): string {
  return answer.slice(answer.indexOf('\r\n\r\n') + 4)
}

export function statusOf(answer: string): number {
  return Number(answer.split(' ')[1])
}

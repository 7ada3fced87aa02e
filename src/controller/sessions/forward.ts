import { connect, type ClientHttp2Session } from 'node:http2'
import type { Duplex } from 'node:stream'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Engine } from './engine.ts'

/** Connections into an agent's network, by the gate's container: the host itself has no address there. */
export type Relay = AsyncDisposable & {
  /** A stream of bytes to a port of the agent. @throws forward_refused */
  open(port: number): Promise<Duplex>
}

/**
 * The other end, in the gate's container: HTTP/2 over its stdin and stdout, a CONNECT (RFC 9113 §8.5) for each connection, to the one
 * address that it is started with.
 */
const PROGRAM = `
const { createServer } = require('node:http2'), net = require('node:net'), { Duplex } = require('node:stream')
const host = process.argv[1]
const server = createServer({ settings: { enableConnectProtocol: false } })
server.on('stream', (stream, headers) => {
  stream.on('error', () => {})
  const port = Number(String(headers[':authority']).split(':').pop())
  if (headers[':method'] !== 'CONNECT' || !(port > 0 && port < 65536)) return stream.respond({ ':status': 400 }, { endStream: true })
  const socket = net.connect({ host, port, allowHalfOpen: true, noDelay: true })
  socket.once('connect', () => {
    stream.respond({ ':status': 200 })
    socket.pipe(stream).pipe(socket)
  })
  socket.on('error', (error) => {
    if (stream.headersSent) stream.close(2)
    else if (!stream.destroyed) stream.respond({ ':status': 502, 'x-reason': error.code }, { endStream: true })
  })
  stream.on('close', () => socket.destroy())
})
server.on('sessionError', () => process.exit(1))
server.emit('connection', Duplex.from({ readable: process.stdin, writable: process.stdout }))
process.stdin.on('end', () => process.exit(0))
`

/** Starts the relay in the gate's container `sidecar` towards the agent's address. `onEnd`: it is gone, and another is needed. */
export async function openRelay(engine: Engine, sidecar: string, user: string, address: string, onEnd: () => void): Promise<Relay> {
  const process = await engine.exec(sidecar, { argv: ['node', '-e', PROGRAM, address], user, folder: '/', environment: {}, tty: false })
  process.stderr?.resume()
  const session = connect('http://relay', { createConnection: () => process.stream })
  session.on('error', () => session.destroy())
  session.on('close', () => {
    process.stream.destroy()
    onEnd()
  })
  let open = 0
  return {
    async open(port) {
      if (open >= LIMITS.forwardConnectionsMax)
        throw new SallyportError('forward_refused', `${open} connections to the agent are open already`, { hint: 'close some' })
      open += 1
      try {
        const stream = await tunnel(session, address, port)
        stream.once('close', () => (open -= 1))
        return stream
      } catch (error) {
        open -= 1
        throw error
      }
    },
    async [Symbol.asyncDispose]() {
      session.destroy()
      process.stream.destroy()
    },
  }
}

function tunnel(session: ClientHttp2Session, address: string, port: number): Promise<Duplex> {
  const refused = (reason: string): SallyportError =>
    new SallyportError('forward_refused', `port ${port} of the agent takes no connection: ${reason}`, {
      hint: 'does a server run there, and does it listen on 0.0.0.0? One on 127.0.0.1 is reached from inside the agent only',
    })
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'CONNECT', ':authority': `${address}:${port}` }, { endStream: false })
    const timer = setTimeout(() => {
      stream.close()
      reject(refused('no answer in time'))
    }, LIMITS.forwardConnectMs)
    stream.on('error', (error) => {
      clearTimeout(timer)
      reject(refused(error.message))
    })
    stream.once('close', () => {
      clearTimeout(timer)
      reject(refused('the gate is gone'))
    })
    stream.once('response', (headers) => {
      clearTimeout(timer)
      if (headers[':status'] === 200) return resolve(stream)
      stream.close()
      reject(refused(String(headers['x-reason'] ?? headers[':status'])))
    })
  })
}

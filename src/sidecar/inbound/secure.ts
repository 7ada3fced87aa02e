import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { codeOf } from '../../kernel/errors.ts'
import type { Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { Contexts } from './contexts.ts'

/** In the order in which they are chosen from what the client offers (RFC 7301), as they stand on the wire: each after its length. */
const ALPN_PROTOCOLS = Buffer.from(['h2', 'http/1.1', 'http/1.0'].map((id) => String.fromCharCode(id.length) + id).join(''), 'latin1')

/** Our own TLS on a connection of the agent, with a certificate for `host`. `serve` gets it when the handshake is done. */
export function secure(socket: Socket, host: Hostname, contexts: Contexts, log: Log, serve: (secured: TLSSocket) => void): void {
  const secured = new TLSSocket(socket, { isServer: true, secureContext: contexts.for(host), ALPNProtocols: ALPN_PROTOCOLS })
  const timer = setTimeout(() => secured.destroy(), LIMITS.tlsHandshakeMs)
  secured.on('error', (error) => {
    const code = codeOf(error)
    if (code === 'ECONNRESET' || code === 'EPIPE') return
    const isDistrust = /alert (unknown ca|bad certificate|certificate unknown)/.test(error.message)
    const hint = isDistrust ? 'the client does not trust the CA of this session: see /ca.crt and the CA variables' : undefined
    log.warn({ host, code, hint }, 'TLS with the agent failed')
  })
  // Node's own TLS server listens to this. Without it what is no TLS, after the handshake, leaves the connection as it is.
  secured.on('_tlsError', (error: Error) => void secured.destroy(error))
  secured.once('close', () => {
    clearTimeout(timer)
    socket.destroy()
  })
  // An agent that ends its side in the middle of the handshake is gone: the socket would stay half open until the time is up.
  const onEnd = (): void => void secured.destroy()
  secured.once('end', onEnd)
  secured.once('secure', () => {
    clearTimeout(timer)
    secured.off('end', onEnd)
    // Node's own TLS server says so too; without it an HTTP/2 session waits for the end of the handshake for ever.
    Object.assign(secured, { secureConnecting: false })
    serve(secured)
  })
}

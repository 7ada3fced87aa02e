import { connect as connectTcp, isIP, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls'
import type { Hostname } from '../../kernel/hostname.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Sessions } from './sessions.ts'

/** Where to connect. The addresses were judged; nothing is resolved again. Without any the upstream proxy resolves the name. */
export type Target = { readonly host: Hostname; readonly port: number; readonly addresses: readonly string[] | undefined }

/** Protocols by their ALPN ids (RFC 7301), the preferred one first. */
export type Alpn = 'h2' | 'http/1.1'

/**
 * Connects, for requests and tunnels: straight, or by the upstream proxy. The socket may be paused. A straight one reads as
 * `onread` says, where it is given, and not before it is resumed.
 *
 * @throws upstream_unreachable, upstream_timeout, upstream_proxy_failed
 */
export type Dial = (target: Target, onread?: OnReadOpts) => Promise<Socket>

/** Connects to the first address that answers. @throws upstream_unreachable, upstream_timeout */
export async function dialTcp(target: Target, onread?: OnReadOpts): Promise<Socket> {
  let failure: unknown
  for (const address of target.addresses ?? []) {
    try {
      // An upstream may end its side first and still read: a tunnel carries that, connections for requests end with it.
      const socket = connectTcp({ host: address, port: target.port, noDelay: true, allowHalfOpen: true, ...(onread && { onread }) })
      if (onread) socket.pause()
      return await connected(socket, 'connect', LIMITS.connectMs)
    } catch (error) {
      failure = error
    }
  }
  const code = codeOf(failure)
  const where = `${target.host}:${target.port}`
  if (code === 'ETIMEDOUT') throw new SallyportError('upstream_timeout', `no connection to ${where} in time`, { cause: failure })
  throw new SallyportError('upstream_unreachable', `no connection to ${where} (${code})`, { cause: failure })
}

/** Whom TLS is spoken with: its certificate must name this host. `port` is for errors. */
export type TlsPeer = { readonly host: Hostname; readonly port: number }

/**
 * TLS over a connection that is there, verified: the certificate must lead to a trusted root and name the host, or nothing is
 * sent. I6 `trust` holds the roots; one context serves all connections, as loading the roots anew costs milliseconds. Resumes
 * one of `sessions`, which are of the same peer.
 *
 * @throws upstream_tls_failed, upstream_timeout
 */
export async function secure(
  socket: Socket,
  peer: TlsPeer,
  trust: SecureContext,
  protocols: readonly Alpn[],
  sessions?: Sessions,
): Promise<TLSSocket> {
  const session = sessions?.take()
  const isAddress = isIP(peer.host) !== 0
  const secured = connectTls({
    socket,
    secureContext: trust,
    // RFC 6066 §3 forbids addresses as server name; `host` is then what the certificate is checked against.
    ...(isAddress ? { host: peer.host } : { servername: peer.host }),
    ALPNProtocols: [...protocols],
    rejectUnauthorized: true,
    ...(session && { session: session.bytes }),
  })
  sessions?.watch(secured, session)
  try {
    await connected(secured, 'secureConnect', LIMITS.tlsHandshakeMs)
    sessions?.settle(secured, session)
    return secured
  } catch (error) {
    if (session) sessions?.clear()
    const where = `${peer.host}:${peer.port}`
    if (codeOf(error) === 'ETIMEDOUT')
      throw new SallyportError('upstream_timeout', `no TLS handshake with ${where} in time`, { cause: error })
    throw new SallyportError('upstream_tls_failed', `the TLS connection to ${where} is refused (${codeOf(error)})`, {
      hint:
        codeOf(error) === 'ERR_TLS_CERT_ALTNAME_INVALID'
          ? `its certificate is for other names than ${peer.host}: use the name that it is for`
          : 'an authority that the system does not know is named by the operator: --upstream-ca, in containers SALLYPORT_EXTRA_CA',
      cause: error,
    })
  }
}

function connected<S extends Socket>(socket: S, event: 'connect' | 'secureConnect', timeoutMs: number): Promise<S> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => fail(Object.assign(new Error('timed out'), { code: 'ETIMEDOUT' })), timeoutMs)
    function fail(error: Error): void {
      clearTimeout(timer)
      socket.destroy()
      reject(error)
    }
    function closed(): void {
      fail(Object.assign(new Error('closed'), { code: 'ECONNRESET' }))
    }
    socket.once('error', fail)
    socket.once('close', closed)
    socket.once(event, () => {
      clearTimeout(timer)
      socket.off('error', fail)
      socket.off('close', closed)
      resolve(socket)
    })
  })
}

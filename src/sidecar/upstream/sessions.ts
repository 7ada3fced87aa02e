import type { TLSSocket } from 'node:tls'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'

/** What a TLS connection can be resumed by. `until`: what was verified when it was made in full holds so long, in milliseconds since 1970. */
export type Session = { readonly bytes: Buffer; readonly until: number }

/**
 * TLS sessions of one origin. Resuming one verifies neither the chain nor the name anew, so each comes from a connection to the
 * same origin that was verified, and is of use for `LIMITS.upstreamSessionMs` after that, or until a certificate of its chain
 * expires: then a handshake in full is due. I6
 */
export class Sessions {
  readonly #system: Pick<System, 'now'>
  readonly #kept: Session[] = []

  constructor(system: Pick<System, 'now'>) {
    this.#system = system
  }

  /** The newest, for one connection: it is not offered again, so that nobody can tie two connections together by it (RFC 8446 §C.4). */
  take(): Session | undefined {
    const now = this.#system.now()
    for (let session = this.#kept.pop(); session; session = this.#kept.pop()) if (session.until > now) return session
    return undefined
  }

  /** Keeps what the upstream gives for later. `offered` is what the connection itself was to be resumed by. Before the handshake. */
  watch(socket: TLSSocket, offered: Session | undefined): void {
    let until: number | undefined
    socket.on('session', (bytes) => {
      // What it resumed was verified then and not now: nobody puts a handshake in full off for ever.
      until ??= socket.isSessionReused() && offered ? offered.until : this.#untilOf(socket)
      this.#keep({ bytes, until })
    })
  }

  /** After the handshake: a session of TLS 1.2 is used again, as its server gives no other. */
  settle(socket: TLSSocket, offered: Session | undefined): void {
    if (offered && socket.isSessionReused() && socket.getProtocol() === 'TLSv1.2') this.#keep(offered)
  }

  /** After a handshake that failed: an upstream that chokes on what it is offered must not be out of reach for as long as there is more. */
  clear(): void {
    this.#kept.length = 0
  }

  #keep(session: Session): void {
    if (session.until <= this.#system.now()) return
    this.#kept.push(session)
    if (this.#kept.length > LIMITS.upstreamSessionsMax) this.#kept.shift()
  }

  #untilOf(socket: TLSSocket): number {
    let until = this.#system.now() + LIMITS.upstreamSessionMs
    for (let cert = socket.getPeerX509Certificate(); cert; cert = cert.issuerCertificate) until = Math.min(until, Date.parse(cert.validTo))
    return until
  }
}

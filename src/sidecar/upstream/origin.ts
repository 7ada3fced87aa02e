import type { SecureContext, TLSSocket } from 'node:tls'
import { formatAuthority } from '../../kernel/hostname.ts'
import { dialTcp, dialTls, type Alpn, type Target } from './dial.ts'
import { openHttp1Origin } from './http1-origin.ts'
import { NegotiatedOrigin } from './negotiated-origin.ts'
import type { Origin } from './upstream.ts'

export type OriginKey = Target & { readonly scheme: 'http' | 'https' }

/** Connections to one origin. Each of them goes to one of the addresses of `key` and nowhere else. I4 */
export function openOrigin(key: OriginKey, trust: SecureContext): Origin {
  const url = `${key.scheme}://${formatAuthority(key.host, key.port)}`
  if (key.scheme === 'http') return openHttp1Origin(url, () => dialTcp(key))
  // Resumption stays within the origin: a session shared wider would tie two credentials together. I7
  let ticket: Buffer | undefined
  async function connect(protocols: readonly Alpn[]): Promise<TLSSocket> {
    const socket = await dialTls(key, trust, protocols, ticket)
    return socket.on('session', (session) => (ticket = session))
  }
  const http1 = openHttp1Origin(url, () => connect(['http/1.1']))
  return new NegotiatedOrigin(formatAuthority(key.host, key.port, 443), connect, http1)
}

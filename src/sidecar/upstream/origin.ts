import type { SecureContext, TLSSocket } from 'node:tls'
import { formatAuthority } from '../../kernel/hostname.ts'
import type { System } from '../../kernel/system.ts'
import { dialTcp, secure, type Alpn, type Dial, type Target } from './dial.ts'
import { forwardedOrigin } from './forwarded-origin.ts'
import { Http1Origin } from './http1-origin.ts'
import { NegotiatedOrigin } from './negotiated-origin.ts'
import { dialProxy, proxyAuthorization, proxyDial, takesRequests, type UpstreamProxy } from './proxy.ts'
import { Sessions } from './sessions.ts'
import type { Origin } from './upstream.ts'

export type OriginKey = Target & { readonly scheme: 'http' | 'https' }

/** How connections are made. */
export type Ways = {
  readonly dial: Dial
  /** Connections to one origin. Each of them goes to one of the addresses of `key` and nowhere else. I4 */
  openOrigin(key: OriginKey): Origin
}

/** `trust` holds the roots that upstreams, and a proxy that speaks TLS, are verified against. */
export function createWays(trust: SecureContext, proxy: UpstreamProxy | undefined, system: Pick<System, 'now'>): Ways {
  const dial = proxy ? proxyDial(proxy, trust) : dialTcp
  function openPlain(key: OriginKey): Origin {
    const tunnelled = new Http1Origin(whereOf(key), () => dial(key))
    if (!proxy || !takesRequests(proxy, key)) return tunnelled
    const asked = new Http1Origin(whereOf(key), () => dialProxy(proxy, trust))
    return forwardedOrigin(key, asked, tunnelled, proxyAuthorization(proxy))
  }
  function openSecure(key: OriginKey): Origin {
    // Resumption stays within the origin: a session shared wider would tie two credentials together. I7
    const sessions = new Sessions(system)
    const connect = async (protocols: readonly Alpn[]): Promise<TLSSocket> => secure(await dial(key), key, trust, protocols, sessions)
    const http1 = new Http1Origin(whereOf(key), () => connect(['http/1.1']))
    return new NegotiatedOrigin(whereOf(key), connect, http1)
  }
  return { dial, openOrigin: (key) => (key.scheme === 'http' ? openPlain(key) : openSecure(key)) }
}

function whereOf({ scheme, host, port }: OriginKey): string {
  return formatAuthority(host, port, scheme === 'https' ? 443 : 80)
}

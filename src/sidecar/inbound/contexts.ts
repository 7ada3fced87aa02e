import { constants } from 'node:crypto'
import { createSecureContext, DEFAULT_CIPHERS, type SecureContext } from 'node:tls'
import type { Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { Authority } from '../../pki/pki.ts'

/** What costs least first, with SHA-256 rather than SHA-384 in every handshake: who is near has the strength of any of them. */
const CHEAPEST = 'TLS_AES_128_GCM_SHA256'
const CIPHERS = [CHEAPEST, ...DEFAULT_CIPHERS.split(':').filter((name) => name !== CHEAPEST)].join(':')

/**
 * TLS contexts with a certificate for each host, kept: making one costs more than signing its leaf. The keys of a context's
 * session tickets are its own, random and in memory alone: what was issued for one host resumes at no other. I2
 */
export type Contexts = { for(host: Hostname): SecureContext }

export function createContexts(authority: Authority, system: Pick<System, 'now'>): Contexts {
  const cache = new Map<Hostname, { context: SecureContext; renewAt: number }>()
  return {
    for(host) {
      const cached = cache.get(host)
      if (cached && cached.renewAt > system.now()) {
        cache.delete(host)
        cache.set(host, cached)
        return cached.context
      }
      const { certPem, keyPem, renewAt } = authority.leafFor(host)
      const context = createSecureContext({
        cert: certPem,
        key: keyPem,
        minVersion: 'TLSv1.2',
        ecdhCurve: 'X25519:P-256',
        ciphers: CIPHERS,
        honorCipherOrder: true,
        // Each is a handshake in full, which nobody counts (TLS 1.2; CVE-2011-1473).
        secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
      })
      if (cache.size >= LIMITS.leafCacheMax) cache.delete(cache.keys().next().value ?? host)
      cache.set(host, { context, renewAt })
      return context
    },
  }
}

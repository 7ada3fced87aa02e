import { createPublicKey, generateKeyPairSync, X509Certificate, type KeyObject } from 'node:crypto'
import { SallyportError } from '../kernel/errors.ts'
import type { Hostname } from '../kernel/hostname.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'
import { commonName, distinguishedName, keyIdOf, makeAuthorityCertificate, makeLeafCertificate, type Issuer } from './certificate.ts'
import { pem } from './der.ts'

export type Leaf = {
  /** The chain, leaf first, without the root. */
  readonly certPem: string
  /** PKCS#8. One key for all leaves of an authority: a new one for each would cost more than the certificate. */
  readonly keyPem: string
  /** Milliseconds since 1970 from which `leafFor` makes another. */
  readonly renewAt: number
}

/** The certificate authority of one session: signs what the gate shows to the agent in the place of upstreams. */
export type Authority = {
  readonly certificatePem: string
  /** SHA-256 of the certificate, hex. */
  readonly fingerprint: string
  /**
   * A certificate for exactly this name or address, from the cache while it has not lived half its life.
   *
   * @throws ca_invalid when the authority itself has expired.
   */
  leafFor(host: Hostname): Leaf
}

/** An authority with its key, as it is kept on disk. */
export type AuthorityParts = { readonly certificate: X509Certificate; readonly issuer: Issuer }

/** An authority in memory only: its key is in no file. */
export function createAuthority(session: string, system: Pick<System, 'now' | 'random'>): Authority {
  return authorityOf(makeAuthority(session, system), system)
}

/** A new key and its certificate, valid from an hour ago for `LIMITS.caLifeMs`. */
export function makeAuthority(session: string, system: Pick<System, 'now' | 'random'>): AuthorityParts {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const spki = spkiOf(publicKey)
  const keyId = keyIdOf(spki)
  // The same name with another key breaks caches of issuers (NSS): the session is in the name, and what tells its keys apart.
  const name = distinguishedName({
    organisation: 'Sallyport',
    unit: keyId.toString('hex'),
    commonName: commonName(`Sallyport CA ${session}`.trim()),
  })
  const issuer = { key: privateKey, name, keyId }
  const now = system.now()
  const validity = { notBeforeMs: now - LIMITS.clockSkewMs, notAfterMs: now + LIMITS.caLifeMs }
  return { issuer, certificate: new X509Certificate(makeAuthorityCertificate(issuer, spki, validity, system)) }
}

/** The working authority over its parts: the leaf key, the cache of leaves. */
export function authorityOf({ certificate, issuer }: AuthorityParts, system: Pick<System, 'now' | 'random'>): Authority {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const keyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const spki = spkiOf(publicKey)
  const caFromMs = Date.parse(certificate.validFrom)
  const caUntilMs = Date.parse(certificate.validTo)
  /** In the order of last use: the first is the one to drop. */
  const leaves = new Map<Hostname, Leaf>()

  function mint(host: Hostname, now: number): Leaf {
    if (now >= caUntilMs) {
      throw new SallyportError('ca_invalid', `the certificate authority expired at ${new Date(caUntilMs).toISOString()}`, {
        hint: 'restart the sidecar for a new one (with --ca-persist: remove ca.key and ca.crt first)',
      })
    }
    // Never longer than the authority: some verifiers want the periods nested.
    const validity = {
      notBeforeMs: Math.max(caFromMs, now - LIMITS.clockSkewMs),
      notAfterMs: Math.min(caUntilMs, now + LIMITS.leafLifeMs),
    }
    const certPem = pem('CERTIFICATE', makeLeafCertificate(issuer, host, spki, validity, system))
    return { certPem, keyPem, renewAt: now + Math.floor((validity.notAfterMs - now) / 2) }
  }

  return {
    certificatePem: pem('CERTIFICATE', certificate.raw),
    fingerprint: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
    leafFor(host) {
      const now = system.now()
      const kept = leaves.get(host)
      const leaf = kept !== undefined && now < kept.renewAt ? kept : mint(host, now)
      leaves.delete(host)
      leaves.set(host, leaf)
      const oldest = leaves.keys().next().value
      if (leaves.size > LIMITS.leafCacheMax && oldest !== undefined) leaves.delete(oldest)
      return leaf
    },
  }
}

/** DER of a public key, or of the public half of a private one. */
export function spkiOf(key: KeyObject): Buffer {
  return (key.type === 'private' ? createPublicKey(key) : key).export({ type: 'spki', format: 'der' })
}

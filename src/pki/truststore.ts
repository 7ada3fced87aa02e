import { createHmac, hash } from 'node:crypto'
import type { System } from '../kernel/system.ts'
import { bmpString, explicit, integer, nothing, octetString, oid, sequence, setOf } from './der.ts'

const DATA = oid('1.2.840.113549.1.7.1')
const CERT_BAG = oid('1.2.840.113549.1.12.10.1.3')
const X509_CERTIFICATE = oid('1.2.840.113549.1.9.22.1')
const FRIENDLY_NAME = oid('1.2.840.113549.1.9.20')
/** Java takes a certificate without a key for trusted only where this attribute says for what: anything. */
const JAVA_TRUSTED_KEY_USAGE = sequence(oid('2.16.840.1.113894.746875.1.1'), setOf(oid('2.5.29.37.0')))
const SHA256 = sequence(oid('2.16.840.1.101.3.4.2.1'), nothing())

/** They would make it harder to guess a password that everybody knows, and each start would wait for them. */
const MAC_ITERATIONS = 100
const MAC_SALT_BYTES = 20
/** Purpose of derived bytes (RFC 7292 §B.3): integrity. */
const PURPOSE_MAC = 3
const SHA256_BLOCK_BYTES = 64

const PEM_BLOCK = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/g

/**
 * A PKCS#12 file (RFC 7292) with certificates that a JVM trusts: `javax.net.ssl.trustStore`, JDK 8u301 and later. The
 * first certificate has the alias `sallyport`, the others `public-1`… Each is in it once. Nothing in it is secret, so
 * nothing is encrypted; the password only keys the checksum that Java insists on.
 *
 * @param certificatesPem texts with one or more PEM certificates each
 */
export function javaTruststore(certificatesPem: readonly string[], password: string, system: Pick<System, 'random'>): Buffer {
  const certificates = new Map<string, Buffer>()
  for (const text of certificatesPem) {
    for (const [, base64 = ''] of text.matchAll(PEM_BLOCK)) {
      const raw = Buffer.from(base64, 'base64')
      certificates.set(hash('sha256', raw, 'hex'), raw)
    }
  }
  const bags = [...certificates.values()].map((raw, n) => certificateBag(n === 0 ? 'sallyport' : `public-${n}`, raw))
  const safe = sequence(contentInfo(sequence(...bags)))
  const salt = system.random(MAC_SALT_BYTES)
  const mac = createHmac('sha256', macKey(password, salt)).update(safe).digest()
  const macData = sequence(sequence(SHA256, octetString(mac)), octetString(salt), integer(MAC_ITERATIONS))
  return sequence(integer(3), contentInfo(safe), macData)
}

function certificateBag(alias: string, raw: Buffer): Buffer {
  const bag = sequence(X509_CERTIFICATE, explicit(0, octetString(raw)))
  const attributes = setOf(sequence(FRIENDLY_NAME, setOf(bmpString(alias))), JAVA_TRUSTED_KEY_USAGE)
  return sequence(CERT_BAG, explicit(0, bag), attributes)
}

function contentInfo(content: Buffer): Buffer {
  return sequence(DATA, explicit(0, octetString(content)))
}

/** RFC 7292 §B.2 for one block of SHA-256: `D`, then salt and password each repeated to whole blocks. */
function macKey(password: string, salt: Buffer): Buffer {
  const diversifier = Buffer.alloc(SHA256_BLOCK_BYTES, PURPOSE_MAC)
  const secret = Buffer.from(`${password}\0`, 'utf16le').swap16()
  let key = hash('sha256', Buffer.concat([diversifier, repeated(salt), repeated(secret)]), 'buffer')
  for (let n = 1; n < MAC_ITERATIONS; n += 1) key = hash('sha256', key, 'buffer')
  return key
}

function repeated(bytes: Buffer): Buffer {
  return Buffer.alloc(Math.ceil(bytes.length / SHA256_BLOCK_BYTES) * SHA256_BLOCK_BYTES, bytes)
}

import { hash, sign, type KeyObject } from 'node:crypto'
import ipaddr from 'ipaddr.js'
import { isAddress, type Hostname } from '../kernel/hostname.ts'
import type { System } from '../kernel/system.ts'
import { bitString, boolean, explicit, implicit, integer, octetString, oid, sequence, setOf, time, unsigned, utf8String } from './der.ts'

// The shape of both kinds follows what strict verifiers ask for (RFC 5280; OpenSSL -x509_strict, Python 3.13, Go, Java).

const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'))
const KEY_USAGE_CA = extension('2.5.29.15', bitString(Buffer.of(0b0000_0110), 1), true)
const KEY_USAGE_LEAF = extension('2.5.29.15', bitString(Buffer.of(0b1000_0000), 7), true)
// pathLen 0: nothing that this authority signs can sign in turn.
const CONSTRAINTS_CA = extension('2.5.29.19', sequence(boolean(true), integer(0)), true)
const CONSTRAINTS_LEAF = extension('2.5.29.19', sequence(), true)
const SERVER_AUTH = extension('2.5.29.37', sequence(oid('1.3.6.1.5.5.7.3.1')))

/** Upper bound of X.520 for a common name. */
const COMMON_NAME_BYTES = 64

/** What a leaf takes over from the authority that signs it. */
export type Issuer = {
  readonly key: KeyObject
  /** DER of the subject, byte for byte. */
  readonly name: Buffer
  readonly keyId: Buffer
}

export type Validity = { readonly notBeforeMs: number; readonly notAfterMs: number }

/** DER of a self-signed authority. `spki` is the DER of its public key. */
export function makeAuthorityCertificate(
  issuer: Issuer,
  spki: Buffer,
  { notBeforeMs, notAfterMs }: Validity,
  system: Pick<System, 'random'>,
): Buffer {
  return signed(issuer.key, [
    explicit(0, integer(2)),
    serial(system),
    ECDSA_WITH_SHA256,
    issuer.name,
    sequence(time(notBeforeMs), time(notAfterMs)),
    issuer.name,
    spki,
    explicit(3, sequence(CONSTRAINTS_CA, KEY_USAGE_CA, subjectKeyId(issuer.keyId))),
  ])
}

/** DER of a server certificate for exactly one name or address. */
export function makeLeafCertificate(
  issuer: Issuer,
  host: Hostname,
  spki: Buffer,
  { notBeforeMs, notAfterMs }: Validity,
  system: Pick<System, 'random'>,
): Buffer {
  const subject = host.length <= COMMON_NAME_BYTES ? distinguishedName({ commonName: host }) : sequence()
  const isNameless = host.length > COMMON_NAME_BYTES
  const extensions = [
    CONSTRAINTS_LEAF,
    KEY_USAGE_LEAF,
    SERVER_AUTH,
    extension('2.5.29.17', sequence(generalName(host)), isNameless),
    subjectKeyId(keyIdOf(spki)),
    extension('2.5.29.35', sequence(implicit(0, issuer.keyId))),
  ]
  return signed(issuer.key, [
    explicit(0, integer(2)),
    serial(system),
    ECDSA_WITH_SHA256,
    issuer.name,
    sequence(time(notBeforeMs), time(notAfterMs)),
    subject,
    spki,
    explicit(3, sequence(...extensions)),
  ])
}

/** DER of a name. Parts that are not given are left out. */
export function distinguishedName(parts: { organisation?: string; unit?: string; commonName: string }): Buffer {
  return sequence(
    ...nameAttribute('2.5.4.10', parts.organisation),
    ...nameAttribute('2.5.4.11', parts.unit),
    ...nameAttribute('2.5.4.3', parts.commonName),
  )
}

/** RFC 7093 §2 method 1: 160 bits of SHA-256 over the DER of a public key. Verifiers compare, they don't recompute. */
export function keyIdOf(spki: Buffer): Buffer {
  return hash('sha256', spki, 'buffer').subarray(0, 20)
}

/** Cuts text to 64 bytes; a hash at the end keeps what was cut apart. */
export function commonName(text: string): string {
  if (Buffer.byteLength(text) <= COMMON_NAME_BYTES) return text
  const head = Buffer.from(text)
    .toString('utf8', 0, COMMON_NAME_BYTES - 17)
    .replace(/\ufffd+$/, '')
  return `${head}-${hash('sha256', text, 'hex').slice(0, 16)}`
}

/**
 * 16 bytes that begin with 01: positive and minimal without a byte in front. A random serial with a leading zero or a
 * high bit makes one certificate in some hundred invalid DER.
 */
function serial(system: Pick<System, 'random'>): Buffer {
  const bytes = Buffer.from(system.random(16))
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40
  return unsigned(bytes)
}

function signed(key: KeyObject, fields: readonly Buffer[]): Buffer {
  const body = sequence(...fields)
  return sequence(body, ECDSA_WITH_SHA256, bitString(sign('sha256', body, key)))
}

function nameAttribute(id: string, text: string | undefined): Buffer[] {
  return text === undefined ? [] : [setOf(sequence(oid(id), utf8String(text)))]
}

function generalName(host: Hostname): Buffer {
  return isAddress(host) ? implicit(7, Buffer.from(ipaddr.parse(host).toByteArray())) : implicit(2, Buffer.from(host, 'latin1'))
}

function subjectKeyId(keyId: Buffer): Buffer {
  return extension('2.5.29.14', octetString(keyId))
}

/** `critical` is left out where it is false: DER never spells a default. */
function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(oid(id), ...(isCritical ? [boolean(true)] : []), octetString(value))
}

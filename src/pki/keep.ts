import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto'
import { link, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import type { System } from '../kernel/system.ts'
import { authorityOf, makeAuthority, spkiOf, type Authority, type AuthorityParts } from './authority.ts'
import { pem, readValues } from './der.ts'
import { ownFolder, readOwnFile, replaceFile, sweepTemporaries, syncFolder, writeTemporary } from './files.ts'

const KEY_USAGE = Buffer.from('0603551d0f', 'hex')
const SUBJECT_KEY_ID = Buffer.from('0603551d0e', 'hex')
const EXTENSIONS = 0xa3
/** Bit 5 of keyUsage, behind the count of unused bits. */
const KEY_CERT_SIGN = 0x04
const NOTHING = Buffer.alloc(0)

/**
 * The authority that is kept in `dir`: `ca.key` (mode 0600) and `ca.crt`. Made there when neither exists, else loaded,
 * an authority of the operator's own (EC P-256, self-signed) too. Two that start at once get the same one.
 *
 * What we make is whole in `ca.key`, key and certificate in one file that appears at once; `ca.crt` is a copy for
 * others. So a crash in between leaves nothing, or a `ca.key` from which the next start writes `ca.crt`.
 *
 * @throws ca_invalid for anything odd (I11): it is never replaced by a new one, agents out there trust the old one.
 */
export async function openAuthority(dir: string, session: string, system: Pick<System, 'now' | 'random'>): Promise<Authority> {
  await named(dir, () => ownFolder(dir))
  const parts = (await load(dir, system)) ?? (await named(dir, () => make(dir, session, system)))
  checkPeriod(join(dir, 'ca.crt'), parts.certificate, system.now())
  // Also those of another that starts right now: its link(2) finds ca.key taken, or nothing to link, and it loads ours.
  await named(dir, () => sweepTemporaries(dir))
  return authorityOf(parts, system)
}

/**
 * The authority of PEM texts that came from elsewhere, in memory only. Its key is in no file. I11
 * @throws ca_invalid
 */
export function authorityFrom(
  pems: { readonly certificatePem: string; readonly keyPem: string },
  system: Pick<System, 'now' | 'random'>,
): Authority {
  const parts = partsOf('the key of the authority', pems.keyPem, 'the authority', pems.certificatePem)
  checkPeriod('the authority', parts.certificate, system.now())
  return authorityOf(parts, system)
}

async function load(dir: string, system: Pick<System, 'random'>): Promise<AuthorityParts | undefined> {
  const [keyPath, certificatePath] = [join(dir, 'ca.key'), join(dir, 'ca.crt')]
  // ca.crt first: whoever makes the two makes ca.key first, so a ca.crt without one is never just a moment in between.
  const certificateText = await named(certificatePath, () => readOwnFile(certificatePath, 0o022))
  const keyText = await named(keyPath, () => readOwnFile(keyPath, 0o077))
  if (keyText === undefined) {
    if (certificateText === undefined) return undefined
    throw invalid(keyPath, 'it is missing, and there is a ca.crt', { hint: 'bring ca.key back, or move ca.crt away for a new authority' })
  }
  const text = certificateText ?? (keyText.includes('-----BEGIN CERTIFICATE-----') ? keyText : undefined)
  if (text === undefined) {
    throw invalid(certificatePath, 'it is missing, and there is a ca.key', {
      hint: 'bring ca.crt back, or move ca.key away for a new authority',
    })
  }
  const parts = await named(dir, () => partsOf(keyPath, keyText, certificatePath, text))
  if (certificateText === undefined) {
    await named(certificatePath, () => replaceFile(dir, 'ca.crt', pem('CERTIFICATE', parts.certificate.raw), system))
  }
  return parts
}

async function make(dir: string, session: string, system: Pick<System, 'now' | 'random'>): Promise<AuthorityParts> {
  const { issuer, certificate } = makeAuthority(session, system)
  const both = `${issuer.key.export({ type: 'pkcs8', format: 'pem' }).toString()}${pem('CERTIFICATE', certificate.raw)}`
  const temporary = await writeTemporary(dir, 'ca.key', both, 0o600, system)
  try {
    // link(2) never replaces: of two that start at once the first wins, and both load what it made.
    await link(temporary, join(dir, 'ca.key'))
    await syncFolder(dir)
  } catch (error) {
    if (!['EEXIST', 'ENOENT'].includes(codeOf(error))) throw error
  } finally {
    await unlink(temporary).catch(() => undefined)
  }
  const parts = await load(dir, system)
  if (parts === undefined) throw new Error('ca.key went away while it was made')
  return parts
}

function partsOf(keyPath: string, keyText: string, certificatePath: string, certificateText: string): AuthorityParts {
  const key = parsed(keyPath, 'it is not a PEM private key without a passphrase', () => createPrivateKey(keyText))
  const certificate = parsed(certificatePath, 'it is not a PEM certificate', () => new X509Certificate(certificateText))
  if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') throw invalid(keyPath, 'the key is not EC P-256')
  if (!certificate.checkPrivateKey(key)) throw invalid(certificatePath, 'it does not belong to ca.key')
  if (!certificate.ca) throw invalid(certificatePath, 'it is not the certificate of an authority')
  if (!certificate.checkIssued(certificate) || !certificate.verify(certificate.publicKey))
    throw invalid(certificatePath, 'it is not self-signed')
  return { certificate, issuer: { key, ...readIssuer(certificatePath, certificate, key) } }
}

function checkPeriod(path: string, certificate: X509Certificate, now: number): void {
  if (now < Date.parse(certificate.validFrom)) throw invalid(path, `it is not valid before ${certificate.validFrom}`)
  if (now >= Date.parse(certificate.validTo)) {
    throw invalid(path, `it expired at ${certificate.validTo}`, { hint: 'move ca.key and ca.crt away for a new authority' })
  }
}

/** Name and key id as they stand in the certificate: leaves repeat them byte for byte. */
function readIssuer(path: string, certificate: X509Certificate, key: KeyObject): { name: Buffer; keyId: Buffer } {
  // TBSCertificate (RFC 5280 §4.1): [0] version, serial, algorithm, issuer, validity, subject, key, … [3] extensions.
  const fields = readValues(inside(inside(certificate.raw))) ?? []
  const [name, spki] = [fields[5]?.whole, fields[6]?.whole]
  if (name === undefined || spki === undefined || !spkiOf(key).equals(spki)) throw invalid(path, 'its form is unknown')
  const extensions = readValues(inside(fields.find(({ tag }) => tag === EXTENSIONS)?.contents ?? NOTHING)) ?? []
  const extension = (id: Buffer): Buffer => {
    const found = extensions.find(({ contents }) => contents.subarray(0, id.length).equals(id))
    return inside(readValues(found?.contents ?? NOTHING)?.at(-1)?.contents ?? NOTHING)
  }
  const keyId = extension(SUBJECT_KEY_ID)
  if (keyId.length === 0) throw invalid(path, 'it has no subject key identifier, which strict clients ask for')
  if (((extension(KEY_USAGE)[1] ?? 0) & KEY_CERT_SIGN) === 0) throw invalid(path, 'its key usage does not allow signing certificates')
  return { name, keyId }
}

/** Contents of the first value in `bytes`. */
function inside(bytes: Buffer): Buffer {
  return readValues(bytes)?.[0]?.contents ?? NOTHING
}

function parsed<T>(path: string, problem: string, parse: () => T): T {
  try {
    return parse()
  } catch {
    // Without the cause: a parser's message must never carry a piece of the key.
    throw invalid(path, problem)
  }
}

/** Runs a step; what it throws becomes `ca_invalid` with the path it is about. */
async function named<T>(path: string, step: () => T | Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (cause) {
    if (cause instanceof SallyportError) throw cause
    const code = codeOf(cause)
    throw invalid(path, code === 'Error' && cause instanceof Error ? cause.message : `it cannot be read or written (${code})`, { cause })
  }
}

function invalid(path: string, problem: string, options: { hint?: string; cause?: unknown } = {}): SallyportError {
  return new SallyportError('ca_invalid', `${path}: ${problem}`, options)
}

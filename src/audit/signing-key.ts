import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, sign, verify, type KeyObject } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { createPrivateFile, readPrivateFile } from '../kernel/private-file.ts'
import type { System } from '../kernel/system.ts'

/** The key that signs checkpoints: Ed25519 (RFC 8032). */
export type SigningKey = {
  /** Its thumbprint (RFC 7638). */
  readonly id: string
  /** SubjectPublicKeyInfo, PEM. */
  readonly publicPem: string
  /** Base64url, 86 characters. */
  sign(text: string): string
}

/** The public half, which is enough to verify. */
export type VerifyingKey = { readonly id: string; isSignature(text: string, signature: string): boolean }

/**
 * The key in `file` (0600), made there at the first start; its public half is written to `publicFile`.
 * @throws audit_key_invalid for anything odd: another key in its place would make the signatures that are kept worthless
 */
export async function openSigningKey(file: string, publicFile: string, system: Pick<System, 'random'>): Promise<SigningKey> {
  const kept = await read(publicFile)
  let pem = await read(file)
  if (pem === undefined) {
    if (kept !== undefined) throw invalid(file, `it is gone, and ${publicFile} says that there was one`)
    await named(file, () => createPrivateFile(file, makeKey(), system))
    // Also where another made it in this moment: what is on the disk counts.
    pem = await read(file)
  }
  const key = privateKeyOf(file, pem ?? '')
  if (kept === undefined) await named(publicFile, () => createPrivateFile(publicFile, key.publicPem, system))
  else if (parseVerifyingKey(publicFile, kept).id !== key.id) throw invalid(publicFile, `it is not the public half of ${file}`)
  return key
}

/** The public key of a PEM file. @throws audit_key_invalid */
export async function readVerifyingKey(file: string): Promise<VerifyingKey | undefined> {
  const pem = await read(file, readPublic)
  return pem === undefined ? undefined : parseVerifyingKey(file, pem)
}

/** @throws audit_key_invalid */
export function parseVerifyingKey(file: string, pem: string): VerifyingKey {
  let key: KeyObject
  try {
    // Of a private key it would make the public half: that one has no place where audits are verified.
    if (!pem.startsWith('-----BEGIN PUBLIC KEY-----')) throw new Error('no public key')
    key = createPublicKey(pem)
    if (key.asymmetricKeyType !== 'ed25519') throw new Error('another kind of key')
  } catch (cause) {
    throw invalid(file, 'it is no public key of Ed25519 in PEM', cause)
  }
  return {
    id: thumbprint(key),
    isSignature(text, signature) {
      const bytes = Buffer.from(signature, 'base64url')
      // One spelling only.
      return bytes.length === 64 && bytes.toString('base64url') === signature && verify(null, Buffer.from(text, 'latin1'), key, bytes)
    },
  }
}

function privateKeyOf(file: string, pem: string): SigningKey {
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'ed25519') throw new Error('another kind of key')
    const shown = createPublicKey(key)
    return {
      id: thumbprint(shown),
      publicPem: String(shown.export({ type: 'spki', format: 'pem' })),
      sign: (text) => sign(null, Buffer.from(text, 'latin1'), key).toString('base64url'),
    }
  } catch {
    // Without the cause: a parser's message must never carry a piece of the key. I1
    throw invalid(file, 'it is no private key of Ed25519 in PEM')
  }
}

function makeKey(): string {
  return String(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }))
}

/** RFC 7638 §3 with the members of RFC 8037 §2. */
function thumbprint(key: KeyObject): string {
  const { x } = key.export({ format: 'jwk' })
  return hash('sha256', `{"crv":"Ed25519","kty":"OKP","x":"${x}"}`, 'base64url')
}

async function readPublic(file: string): Promise<string | undefined> {
  try {
    const found = await stat(file)
    if (!found.isFile() || found.size > LIMITS.keyFileBytesMax) throw new Error('it is no file of a key')
    return await readFile(file, 'latin1')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function read(file: string, how: (file: string) => Promise<string | undefined> = (path) => readPrivateFile(path, LIMITS.keyFileBytesMax)) {
  return named(file, () => how(file))
}

async function named<T>(file: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (cause) {
    const code = codeOf(cause)
    throw invalid(file, code === 'Error' && cause instanceof Error ? cause.message : `it cannot be read or written (${code})`, cause)
  }
}

function invalid(file: string, problem: string, cause?: unknown): SallyportError {
  return new SallyportError('audit_key_invalid', `${file}: ${problem}`, {
    hint: 'bring the file back as it was; or move the key and the whole audit folder away: the next start makes a new key and a new audit',
    cause,
  })
}

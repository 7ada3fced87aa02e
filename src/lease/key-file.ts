import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK } from 'jose'
import * as z from 'zod'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { createPrivateFile, readPrivateFile, replacePrivateFile } from '../kernel/private-file.ts'
import type { System } from '../kernel/system.ts'

/** The key that signs, and the public halves of those before it. Ids are thumbprints (RFC 7638): a key has one name only. */
export type KeyRing = {
  readonly current: { readonly kid: string; readonly key: KeyObject }
  /** All that verify, the current one first, by id. */
  readonly verifying: ReadonlyMap<string, KeyObject>
}

const BASE64URL_32 = /^[A-Za-z0-9_-]{43}$/
/** RFC 8037 §2: Ed25519 as JWK. `d` is the private half. */
const PublicJwk = z.strictObject({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string().regex(BASE64URL_32) })
const PrivateJwk = PublicJwk.extend({ d: z.string().regex(BASE64URL_32) })
const KeyFile = z.strictObject({
  version: z.literal(1),
  current: PrivateJwk,
  former: z.array(PublicJwk).max(LIMITS.leaseFormerKeysMax),
})
type KeyFileShape = z.infer<typeof KeyFile>

/**
 * The keys of `path`, made there at the first start: mode 0600, opened without following links. Two that start at once get the same.
 * @throws lease_key_invalid for anything odd: a damaged or open key is never replaced silently, live sessions hold leases of it
 */
export async function openKeyRing(path: string, system: Pick<System, 'random'>): Promise<KeyRing> {
  const found = await read(path)
  if (found !== undefined) return ringOf(path, found)
  const made: KeyFileShape = { version: 1, current: await makeKey(), former: [] }
  await named(path, () => createPrivateFile(path, format(made), system))
  // Also where another made it in this moment: what is on the disk counts.
  const kept = await read(path)
  if (kept === undefined) throw invalid(path, 'it went away while it was made')
  return ringOf(path, kept)
}

/**
 * A new key in the place of the current one. The public half of that one still verifies, unless `forget`: then no key but the new one does.
 * @throws lease_key_invalid
 */
export async function rotateKeyRing(path: string, system: Pick<System, 'random'>, forget: boolean): Promise<KeyRing> {
  const found = await read(path)
  if (found === undefined) throw invalid(path, 'it is gone')
  await ringOf(path, found)
  const { d: _private, ...last } = found.current
  const next: KeyFileShape = {
    version: 1,
    current: await makeKey(),
    former: forget ? [] : [last, ...found.former].slice(0, LIMITS.leaseFormerKeysMax),
  }
  await named(path, () => replacePrivateFile(path, format(next), system))
  return ringOf(path, next)
}

async function makeKey(): Promise<KeyFileShape['current']> {
  return PrivateJwk.parse(await exportJWK(generateKeyPairSync('ed25519').privateKey))
}

async function read(path: string): Promise<KeyFileShape | undefined> {
  const text = await named(path, () => readPrivateFile(path, LIMITS.leaseKeyFileBytesMax))
  if (text === undefined) return undefined
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch {
    // Without the cause: a parser's message must never carry a piece of the key. I1
    throw invalid(path, 'it is not JSON')
  }
  const parsed = KeyFile.safeParse(data)
  if (!parsed.success) throw invalid(path, 'its form is not that of a lease key')
  return parsed.data
}

async function ringOf(path: string, { current, former }: KeyFileShape): Promise<KeyRing> {
  try {
    const key = createPrivateKey({ key: current, format: 'jwk' })
    const { d: _private, ...shown } = current
    // A public half that is not that of the private one would sign what nothing verifies.
    if (createPublicKey(key).export({ format: 'jwk' })['x'] !== current.x) throw new Error('the halves differ')
    const entries = await Promise.all(
      [shown, ...former].map(async (jwk) => [await calculateJwkThumbprint(jwk), createPublicKey({ key: jwk, format: 'jwk' })] as const),
    )
    const [first] = entries
    if (first === undefined || new Set(entries.map(([kid]) => kid)).size !== entries.length) throw new Error('a key stands there twice')
    return { current: { kid: first[0], key }, verifying: new Map(entries) }
  } catch {
    throw invalid(path, 'its keys are damaged')
  }
}

function format(file: KeyFileShape): string {
  return `${JSON.stringify(file, null, 2)}\n`
}

async function named<T>(path: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (cause) {
    const code = codeOf(cause)
    throw invalid(path, code === 'Error' && cause instanceof Error ? cause.message : `it cannot be read or written (${code})`, cause)
  }
}

function invalid(path: string, problem: string, cause?: unknown): SallyportError {
  return new SallyportError('lease_key_invalid', `${path}: ${problem}`, {
    hint: 'bring the file back as it was; or end all sessions and move it away: the next start makes a new key, and no lease of the old one is valid',
    cause,
  })
}

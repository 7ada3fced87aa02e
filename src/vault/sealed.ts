import { CompactEncrypt, compactDecrypt } from 'jose'
import * as z from 'zod'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import { passphraseText } from '../kernel/stretch.ts'

const TYPE = 'sallyport-secrets+jwe'
/** PBKDF2 with SHA-512: OWASP asks for 210,000. */
const ROUNDS = 600_000

const Exported = z.strictObject({
  key: z.string(),
  name: z.string(),
  value: z.string(),
  scope: z.string(),
  tags: z.array(z.string()),
  version: z.int().min(1),
  createdAt: z.int().min(0),
  updatedAt: z.int().min(0),
})
const Payload = z.strictObject({ version: z.literal(1), secrets: z.array(Exported).max(LIMITS.vaultSecretsMax) })

/** A secret on its way between vaults, with its value. */
export type ExportedSecret = z.infer<typeof Exported>

/** One line: a JWE in compact form (RFC 7516), PBES2-HS512+A256KW (RFC 7518 §4.8) and A256GCM. The header is authenticated too. */
export async function sealSecrets(secrets: readonly ExportedSecret[], passphrase: Secret, system: Pick<System, 'random'>): Promise<string> {
  const payload = Buffer.from(JSON.stringify({ version: 1, secrets }))
  const password = Buffer.from(passphraseText(passphrase))
  try {
    const text = await new CompactEncrypt(payload)
      .setProtectedHeader({ alg: 'PBES2-HS512+A256KW', enc: 'A256GCM', typ: TYPE, cty: 'application/json' })
      .setKeyManagementParameters({ p2c: ROUNDS, p2s: system.random(16) })
      .encrypt(password)
    if (text.length < LIMITS.sealedBytesMax) return `${text}\n`
    throw new SallyportError(
      'vault_full',
      `the exported file would have ${text.length} bytes, ${LIMITS.sealedBytesMax} at most are read again`,
    )
  } finally {
    payload.fill(0)
    password.fill(0)
  }
}

/** What `sealSecrets` sealed, all of it. @throws sealed_invalid, which does not say what it held */
export async function openSecrets(text: string, passphrase: Secret): Promise<readonly ExportedSecret[]> {
  if (text.length > LIMITS.sealedBytesMax) throw invalid(`it has ${text.length} bytes, ${LIMITS.sealedBytesMax} at most are read`)
  const password = Buffer.from(passphraseText(passphrase))
  const opened = await compactDecrypt(text.trim(), password, {
    keyManagementAlgorithms: ['PBES2-HS512+A256KW'],
    contentEncryptionAlgorithms: ['A256GCM'],
    maxPBES2Count: LIMITS.pbkdf2RoundsMax,
    maxDecompressedLength: 0,
  })
    // Without the cause, and one answer for all: what can't be opened tells nothing of what it held.
    .catch(() => {
      throw invalid('it is not an exported file, its passphrase is another one, or it was altered')
    })
    .finally(() => password.fill(0))
  try {
    if (opened.protectedHeader.typ !== TYPE) throw invalid('it is sealed, but no export of a vault')
    const parsed = Payload.safeParse(parseJson(opened.plaintext))
    if (parsed.success) return parsed.data.secrets
    throw invalid('what is sealed in it has another form than this version of Sallyport knows')
  } finally {
    opened.plaintext.fill(0)
  }
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8'))
  } catch {
    return undefined
  }
}

function invalid(problem: string): SallyportError {
  return new SallyportError('sealed_invalid', `the exported file cannot be used: ${problem}`, {
    hint: 'nothing was imported; type the passphrase that it was exported with',
  })
}

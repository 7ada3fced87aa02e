import { isIPv4 } from 'node:net'
import { isAbsolute } from 'node:path'
import * as z from 'zod'
import { LIMITS } from '../../kernel/limits.ts'
import { parseSource } from '../../policy/policy.ts'
import type { SecretSource } from '../../wire/secret-source.ts'
import { parseSettings, readSettingsFile } from '../settings-file.ts'

/** How HashiCorp Vault is reached. */
export type HashicorpSettings = {
  /** `https://host[:port]` without a slash at its end; `http://` to this machine only. */
  readonly address: string
  /** Where the token is, or with `isWrapped` the wrapping token. Read for each request, so that it may change. */
  readonly token: SecretSource
  readonly isWrapped: boolean
  /** Of Vault Enterprise. */
  readonly namespace?: string
  /** Authorities in PEM that are trusted for it, in place of those of the system. */
  readonly caFile?: string
}

export type ProviderSettings = { readonly hashicorp?: HashicorpSettings }

const File = z.strictObject({
  version: z.literal(1),
  'vault-http': z
    .strictObject({
      address: z.string().superRefine(complain(addressProblem)),
      token: z.string().superRefine(complain(tokenProblem)),
      wrapped: z.boolean().optional(),
      namespace: z
        .string()
        .regex(/^[A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+)*\/?$/, 'must be a name, or names joined by "/"')
        .optional(),
      ca: z.string().refine(isAbsolute, 'must be an absolute path').optional(),
    })
    .optional(),
})

/**
 * The operator's settings of providers, `providers.yaml` in the folder of the daemon's state; none where there is no such file.
 * @throws config_invalid with file and line of every error
 */
export function readProviderSettings(file: string): ProviderSettings {
  return settingsOf(readSettingsFile(file, File, READING))
}

/** The same of a text that is in no file yet. @throws config_invalid */
export function parseProviderSettings(text: string, file: string): ProviderSettings {
  return settingsOf(parseSettings(text, file, File, READING))
}

const READING = { bytesMax: LIMITS.policyFileBytesMax, hint: 'docs/PROVIDERS.md shows the file' }

function settingsOf(settings: z.infer<typeof File> | undefined): ProviderSettings {
  const vault = settings?.['vault-http']
  if (vault === undefined) return {}
  const { address, token, wrapped = false, namespace, ca } = vault
  return {
    hashicorp: {
      address,
      token: parseSource(token) as SecretSource, // checked above
      isWrapped: wrapped,
      ...(namespace !== undefined && { namespace }),
      ...(ca !== undefined && { caFile: ca }),
    },
  }
}

/** What is wrong with the address of a server, or nothing. */
export function addressProblem(address: string): string | undefined {
  const url = URL.parse(address)
  // What stands before an "@" may be a password.
  if (url === null || address.includes('@')) return 'must be a URL like "https://vault.example.com:8200", without a user'
  if (url.origin !== address) return `is not canonical: write "${url.origin}"`
  if (url.protocol === 'https:') return undefined
  const isHere = url.hostname === 'localhost' || url.hostname === '[::1]' || (isIPv4(url.hostname) && url.hostname.startsWith('127.'))
  return url.protocol === 'http:' && isHere ? undefined : `must begin with https://: the token would go in clear to ${url.host}`
}

function tokenProblem(text: string): string | undefined {
  const source = parseSource(text)
  if (typeof source === 'string') return source
  return source.kind === 'vault-http' ? 'the token for Vault cannot be in that Vault' : undefined
}

function complain(problem: (value: string) => string | undefined) {
  return (value: string, context: z.RefinementCtx): void => {
    const message = problem(value)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  }
}

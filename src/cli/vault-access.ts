import { join } from 'node:path'
import { makeVault } from '../controller/make-vault.ts'
import { SallyportError } from '../kernel/errors.ts'
import type { Secret } from '../kernel/secret.ts'
import { system } from '../kernel/system.ts'
import {
  defaultKeyFile,
  nameOf,
  openKeyring,
  openVault,
  readPassphraseFile,
  UNLOCK_METHODS,
  type Unlock,
  type UnlockMethod,
  type Vault,
  type VaultOptions,
} from '../vault/vault.ts'
import { homeOf, type Io } from './command.ts'
import { askNewPassphrase, askPassphrase } from './secret-input.ts'

export type VaultAccess = { readonly file: string; readonly unlock: Unlock }

/** What `--unlock` and `--to` say. @throws usage */
export function parseMethod(flag: string, value: string | undefined): UnlockMethod | undefined {
  const method = UNLOCK_METHODS.find((known) => known === value)
  if (method !== undefined || value === undefined) return method
  throw new SallyportError('usage', `${flag} ${value}: there is no such way`, { hint: `it is one of ${UNLOCK_METHODS.join(', ')}` })
}

/**
 * The vault of this home, and where its key is to be had: the passphrase from `SALLYPORT_VAULT_PASSPHRASE_FILE` or the terminal, the key
 * file from `SALLYPORT_VAULT_KEY_FILE` or beside the vault. For commands and the daemon alike.
 * @param options `method` is what `--unlock` asks for, `newPassphraseFile` has the passphrase of a new lock
 */
export function vaultAccess(
  env: Io['env'],
  options: { readonly method?: UnlockMethod; readonly newPassphraseFile?: string } = {},
): VaultAccess {
  const file = join(homeOf(env), 'vault.db')
  const passphraseFile = env['SALLYPORT_VAULT_PASSPHRASE_FILE'] || undefined
  let isOpenedByFile = false
  const passphrase = async (purpose: 'open' | 'new'): Promise<Secret> => {
    if (purpose === 'open') {
      isOpenedByFile = passphraseFile !== undefined
      return passphraseFile === undefined ? askPassphrase('Passphrase of the vault') : readPassphraseFile(passphraseFile)
    }
    // The file that the vault was opened with has the old one.
    const from = options.newPassphraseFile ?? (isOpenedByFile ? undefined : passphraseFile)
    return from === undefined ? askNewPassphrase('New passphrase of the vault') : readPassphraseFile(from)
  }
  return {
    file,
    unlock: {
      ...(options.method !== undefined && { method: options.method }),
      keyFile: env['SALLYPORT_VAULT_KEY_FILE'] || defaultKeyFile(file),
      passphrase,
      keyring: () => openKeyring(),
    },
  }
}

/** The vault; where there is none a new one, which the operator is told. */
export async function openOrMakeVault({ file, unlock }: VaultAccess, io: Io, options: VaultOptions = {}): Promise<Vault> {
  try {
    return await openVault(file, unlock, system, options)
  } catch (error) {
    if (!(error instanceof SallyportError) || error.code !== 'vault_missing') throw error
  }
  try {
    return await madeVault(file, unlock, io, options)
  } catch (error) {
    // Another command made it at the same moment.
    if (error instanceof SallyportError && error.code === 'vault_exists') return openVault(file, unlock, system, options)
    throw error
  }
}

async function madeVault(file: string, unlock: Unlock, io: Io, options: VaultOptions): Promise<Vault> {
  const { vault, isFallback } = await makeVault(file, unlock, options)
  const isKeyFile = vault.method === 'key-file'
  const where = isKeyFile ? `the key file ${unlock.keyFile}` : nameOf(vault.method)
  io.err(`A vault was made: ${file}, locked with ${where}${isFallback ? ' (no keyring of the system can be used here)' : ''}.\n`)
  if (isKeyFile)
    io.err(`Whoever reads that file can open the vault; without it nobody can. "sallyport secret rotate-key --to passphrase" changes it.\n`)
  return vault
}

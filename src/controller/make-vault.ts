import { codeOf, SallyportError } from '../kernel/errors.ts'
import { system } from '../kernel/system.ts'
import { createVault, type Unlock, type Vault, type VaultOptions } from '../vault/vault.ts'

/** A vault that was just made. `isFallback`: no keyring of the system could be used, so that a key file locks it. */
export type MadeVault = { readonly vault: Vault; readonly isFallback: boolean }

/**
 * Makes a vault, locked as `unlock.method` says, else with the keyring of the system, or where none works with a key file.
 * @throws vault_exists, vault_unsafe, vault_write_failed, keyring_unavailable for one that was asked for
 */
export async function makeVault(file: string, unlock: Unlock, options: VaultOptions = {}): Promise<MadeVault> {
  const { method } = unlock
  if (method !== undefined) return { vault: await createVault(file, method, unlock, system, options), isFallback: false }
  try {
    return { vault: await createVault(file, 'keyring', unlock, system, options), isFallback: false }
  } catch (error) {
    if (!(error instanceof SallyportError) || codeOf(error) !== 'keyring_unavailable') throw error
    return { vault: await createVault(file, 'key-file', unlock, system, options), isFallback: true }
  }
}

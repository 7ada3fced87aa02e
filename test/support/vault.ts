import { chmod, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { LIMITS } from '../../src/kernel/limits.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { system } from '../../src/kernel/system.ts'
import {
  createVault,
  openVault,
  type Keyring,
  type Unlock,
  type UnlockMethod,
  type Vault,
  type VaultOptions,
} from '../../src/vault/vault.ts'
import { temporaryFolder } from './audit.ts'

/** What a passphrase costs where nothing lowers it. */
export const REAL_COST = LIMITS.scryptBytes
Object.assign(LIMITS, { scryptBytes: 16 * 1024 * 1024 })

export const PASSPHRASE = 'five words by sheer chance'

export type VaultHome = AsyncDisposable & {
  readonly path: string
  readonly file: string
  readonly unlock: Unlock
  create(method?: UnlockMethod, options?: VaultOptions): Promise<Vault>
  open(options?: VaultOptions & { readonly unlock?: Partial<Unlock> }): Promise<Vault>
  /** The database itself, past the vault. */
  raw<T>(work: (db: DatabaseSync) => T): T
  /** All bytes of all files, by name. */
  bytes(): Promise<Map<string, Buffer>>
}

/** A folder for a vault, with a key file and a passphrase of its own, and a keyring in memory. */
export async function vaultHome(clock: { now: () => number } = system): Promise<VaultHome> {
  const folder = await temporaryFolder()
  await chmod(folder.path, 0o700)
  const file = join(folder.path, 'vault.db')
  const unlock = unlockWith(join(folder.path, 'vault.key'))
  const outside = { now: () => clock.now(), random: (bytes: number) => system.random(bytes) }
  return {
    path: folder.path,
    file,
    unlock,
    create: (method = 'key-file', options = {}) => createVault(file, method, unlock, outside, options),
    open: ({ unlock: other = {}, ...options } = {}) => openVault(file, { ...unlock, ...other }, outside, options),
    raw(work) {
      const db = new DatabaseSync(file)
      try {
        return work(db)
      } finally {
        db.close()
      }
    },
    async bytes() {
      const found = new Map<string, Buffer>()
      for (const name of (await readdir(folder.path)).toSorted()) found.set(name, await readFile(join(folder.path, name)))
      return found
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** Ways to unlock that ask nobody. */
export function unlockWith(keyFile: string, passphrase = PASSPHRASE, keyring: Keyring = memoryKeyring()): Unlock {
  return {
    keyFile,
    passphrase: () => Promise.resolve(new Secret('passphrase', passphrase)),
    keyring: () => Promise.resolve(keyring),
  }
}

/** A keyring that lives as long as the test, and what it holds. */
export function memoryKeyring(): Keyring & { readonly held: Map<string, Buffer> } {
  const held = new Map<string, Buffer>()
  return {
    held,
    get: (account) => Promise.resolve(held.has(account) ? Buffer.from(held.get(account) ?? '') : undefined),
    set: (account, key) => Promise.resolve(void held.set(account, Buffer.from(key))),
    delete: (account) => Promise.resolve(void held.delete(account)),
  }
}

export const secret = (value: string): Secret => new Secret('value', value)

/** Every value of a vault, by key. */
export function valuesOf(vault: Vault): Record<string, string> {
  return Object.fromEntries(vault.list().map(({ key }) => [key, vault.get(key).reveal()]))
}

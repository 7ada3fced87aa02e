import { dirname } from 'node:path'
import type { Secret } from '../kernel/secret.ts'
import type { SecretHolder } from '../wire/secret-holder.ts'
import type { System } from '../kernel/system.ts'
import { makeDatabase, openDatabase, refuseExisting } from './database.ts'
import type { VaultEvent } from './events.ts'
import { createKeys, makeRecord, readLock, wrap } from './keys.ts'
import { EMPTY, sealManifest } from './manifest.ts'
import { makeOwnFolder } from './own-files.ts'
import { reading, type VaultParts } from './parts.ts'
import { changeLock, rotateDataKey } from './rekey.ts'
import { readRows, type Problem, type SecretRow } from './rows.ts'
import { KEY_BYTES } from './seal.ts'
import { describeSecret, getSecret, hasSecret, removeSecret, setSecret, type SetOptions } from './secrets.ts'
import { exportSecrets, importSecrets, openExport, type OpenedExport } from './transfer.ts'
import { dropLock, makeLock, openLock, type Lock, type Unlock, type UnlockMethod } from './unlock.ts'

export type { VaultEvent } from './events.ts'
export { openKeyring, type Keyring } from './keyring.ts'
export { defaultKeyFile, placeFile, readPassphraseFile } from './own-files.ts'
export { KEY, type Problem, type SecretRow } from './rows.ts'
export { scopeOfFolder, scopeOfWorkspace } from './scope.ts'
export { openExport } from './transfer.ts'
export { checkSecret, type SetOptions } from './secrets.ts'
export { nameOf, UNLOCK_METHODS, type Unlock, type UnlockMethod } from './unlock.ts'

export type VaultOptions = {
  /** Told before a change is final: what it throws undoes the change. */
  readonly onChange?: (event: VaultEvent) => void
}

/**
 * An open vault. Each call sees what other processes stored before it, and is done, on the disk, when it returns.
 * All of them throw vault_busy, vault_corrupt, vault_write_failed, and vault_locked once another process changed the lock.
 */
export type Vault = AsyncDisposable & {
  readonly method: UnlockMethod
  /** Goes up with every change of the vault. */
  readonly version: number
  /** Sorted by key, without those that have a problem. */
  list(): SecretRow[]
  /**
   * Secrets that were altered, damaged, put back or removed past the vault. `set` and `remove` settle one. A damaged value shows
   * when it is read: by `get`, an export or a new key.
   */
  problems(): Problem[]
  /**
   * Without a holder it is the operator who asks.
   * @throws secret_missing; vault_corrupt for one that has a problem; secret_not_permitted where its scope leaves the holder out
   */
  get(key: string, holder?: SecretHolder): Secret
  /** Whether a holder could have it, without reading it. `kept`: it is there, for others. */
  has(key: string, holder: SecretHolder): 'there' | 'absent' | 'kept'
  /** What the options leave out stays as it is. @throws secret_invalid, config_invalid, vault_full */
  set(key: string, value: Secret, options?: SetOptions): SecretRow
  /** @throws secret_missing */
  remove(key: string): void
  /** Replaces the tags. @throws secret_missing, config_invalid */
  tag(key: string, tags: readonly string[]): SecretRow
  /** Another name, scope or tags for the same value. @throws secret_missing, config_invalid */
  describe(key: string, options: SetOptions): SecretRow
  /** A new data key: every value is sealed anew, in one transaction. With `to` the lock is a new one too. */
  rotateKey(to?: UnlockMethod): Promise<void>
  /** Another lock for the same data key. Whoever had the old one, and a copy of the file, is shut out by `rotateKey` only. */
  rewrap(to: UnlockMethod): Promise<void>
  /** @throws config_invalid for a passphrase that is too short */
  exportSealed(passphrase: Secret): Promise<string>
  /** All of it or nothing; gives how many were stored. @throws sealed_invalid, import_conflict unless `replace`, vault_full */
  importSealed(text: string, passphrase: Secret, options?: { readonly replace?: boolean }): Promise<number>
  /** The same with a file that `openExport` opened. @throws import_conflict unless `replace`, vault_full */
  importOpened(secrets: OpenedExport, options?: { readonly replace?: boolean }): number
}

type Outside = Pick<System, 'now' | 'random'>

/** @throws vault_missing, vault_locked, vault_key_wrong, vault_unsafe, vault_corrupt, vault_newer, vault_busy, keyring_unavailable */
export function openVault(file: string, unlock: Unlock, system: Outside, options: VaultOptions = {}): Promise<Vault> {
  return attach(file, unlock, system, options, (lock) => openLock(file, lock, unlock))
}

/**
 * Makes a vault, its folder (0700) and what it is locked with, and opens it.
 * @throws vault_exists, vault_unsafe, vault_write_failed, vault_locked, keyring_unavailable, config_invalid
 */
export async function createVault(
  file: string,
  method: UnlockMethod,
  unlock: Unlock,
  system: Outside,
  options: VaultOptions = {},
): Promise<Vault> {
  await makeOwnFolder(dirname(file))
  // Before anything is made to lock it: a new key file would stand where the one of this vault is missing.
  await refuseExisting(file)
  const origin = { vaultId: system.random(16).toString('hex'), keyId: system.random(8).toString('hex') }
  const { lock, key } = await makeLock(method, origin.vaultId, unlock, system)
  const dataKey = system.random(KEY_BYTES)
  try {
    const lockText = JSON.stringify(lock)
    const record = {
      ...origin,
      lock: lockText,
      dataKey: wrap(key, origin, lockText, dataKey, system),
      manifest: sealManifest(EMPTY, origin, dataKey, system),
    }
    await makeDatabase(file, system, (db) => makeRecord(db, record))
  } catch (error) {
    key.fill(0)
    await dropLock(lock, unlock)
    throw error
  } finally {
    dataKey.fill(0)
  }
  return attach(file, unlock, system, options, () => Promise.resolve(key))
}

/** What a vault is locked with, told without opening it. @throws vault_missing, vault_unsafe, vault_corrupt, vault_newer, vault_busy */
export async function lockMethodOf(file: string, system: Outside): Promise<UnlockMethod> {
  const database = await openDatabase(file, system)
  try {
    return database.read((db) => readLock(db, file)).lock.method
  } finally {
    database.close()
  }
}

async function attach(
  file: string,
  unlock: Unlock,
  system: Outside,
  options: VaultOptions,
  keyOf: (lock: Lock) => Promise<Buffer>,
): Promise<Vault> {
  using opening = new DisposableStack()
  const database = opening.adopt(await openDatabase(file, system), (opened) => opened.close())
  const locked = database.read((db) => readLock(db, file))
  const keys = opening.adopt(createKeys(file, locked, await keyOf(locked.lock)), (held) => held.wipe())
  database.read((db) => keys.open(db))
  const held = opening.move()
  return vaultOf({ database, keys, unlock, system, onChange: options.onChange ?? (() => undefined) }, () => held.dispose())
}

function vaultOf(parts: VaultParts, close: () => void): Vault {
  return {
    get method() {
      return parts.keys.lock.method
    },
    get version() {
      return reading(parts, ({ manifest }) => manifest.version)
    },
    list: () => reading(parts, (opened) => readRows(opened).rows),
    problems: () => reading(parts, (opened) => readRows(opened).problems),
    get: (key, holder) => getSecret(parts, key, holder),
    has: (key, holder) => hasSecret(parts, key, holder),
    set: (key, value, options = {}) => setSecret(parts, key, value, options),
    remove: (key) => removeSecret(parts, key),
    tag: (key, tags) => describeSecret(parts, key, { tags }),
    describe: (key, options) => describeSecret(parts, key, options),
    rotateKey: (to) => rotateDataKey(parts, to),
    rewrap: (to) => changeLock(parts, to),
    exportSealed: (passphrase) => exportSecrets(parts, passphrase),
    importSealed: async (text, passphrase, { replace = false } = {}) => importSecrets(parts, await openExport(text, passphrase), replace),
    importOpened: (secrets, { replace = false } = {}) => importSecrets(parts, secrets, replace),
    [Symbol.asyncDispose]: () => Promise.resolve(close()),
  }
}

import type { DatabaseSync } from 'node:sqlite'
import { SallyportError } from '../kernel/errors.ts'
import type { System } from '../kernel/system.ts'
import { corrupt } from './database.ts'
import { openManifest, type Manifest, type Origin } from './manifest.ts'
import { contextOf, seal, unseal } from './seal.ts'
import { Lock } from './unlock.ts'

/** The one row that says what the vault is, and how its data key is locked. */
export type VaultRecord = Origin & {
  /** JSON of a `Lock`, as it is bound to the wrapped data key. */
  readonly lock: string
  readonly dataKey: Uint8Array
  readonly manifest: Uint8Array
}

/** A vault in one transaction: its data key is valid until the transaction ends. */
export type Opened = { readonly db: DatabaseSync; readonly origin: Origin; readonly dataKey: Buffer; readonly manifest: Manifest }

/** The keys of an open vault. Another process may have changed the data key since: it is unwrapped anew then. */
export type Keys = {
  readonly vaultId: string
  readonly lock: Lock
  readonly lockText: string
  /** What the data key is wrapped with. */
  readonly key: Buffer
  /** @throws vault_key_wrong the first time, vault_locked, vault_corrupt */
  open(db: DatabaseSync): Opened
  replaceLock(lock: Lock, key: Buffer): void
  wipe(): void
}

export function createKeys(
  file: string,
  { vaultId, lock, lockText }: { vaultId: string; lock: Lock; lockText: string },
  key: Buffer,
): Keys {
  const current = { lock, lockText, key }
  let held: { keyId: string; dataKey: Buffer } | undefined

  function unwrap({ keyId, dataKey }: VaultRecord): Buffer {
    if (held?.keyId === keyId) return held.dataKey
    const isFirst = held === undefined
    held?.dataKey.fill(0)
    held = undefined
    try {
      held = { keyId, dataKey: unseal(current.key, contextOf('data key', vaultId, keyId, current.lockText), dataKey) }
      return held.dataKey
    } catch {
      throw isFirst ? wrongKey(file, current.lock) : corrupt(file, 'its data key was altered or damaged')
    }
  }

  return {
    vaultId,
    get lock() {
      return current.lock
    },
    get lockText() {
      return current.lockText
    },
    get key() {
      return current.key
    },
    open(db) {
      const record = readRecord(db, file)
      if (record.vaultId !== vaultId || record.lock !== current.lockText) {
        throw new SallyportError('vault_locked', `${file} was locked anew by another process`, {
          hint: 'open it anew: a daemon by its page, or start this one again',
        })
      }
      const dataKey = unwrap(record)
      const origin = { vaultId, keyId: record.keyId }
      try {
        return { db, origin, dataKey, manifest: openManifest(record.manifest, origin, dataKey) }
      } catch (cause) {
        throw corrupt(file, 'its list of secrets was altered or damaged', { cause })
      }
    },
    replaceLock(next, nextKey) {
      current.key.fill(0)
      Object.assign(current, { lock: next, lockText: JSON.stringify(next), key: nextKey })
    },
    wipe() {
      current.key.fill(0)
      held?.dataKey.fill(0)
      held = undefined
    },
  }
}

/** The data key, for the vault's record. Bound to the lock: its parameters can't be exchanged. */
export function wrap(key: Buffer, { vaultId, keyId }: Origin, lockText: string, dataKey: Buffer, system: Pick<System, 'random'>): Buffer {
  return seal(key, contextOf('data key', vaultId, keyId, lockText), dataKey, system)
}

/** @throws vault_corrupt */
export function readRecord(db: DatabaseSync, file: string): VaultRecord {
  const found = db.prepare('SELECT id, key_id, lock, data_key, manifest FROM vault WHERE only = 1').get()
  if (found === undefined) throw corrupt(file, 'the record of its key is gone')
  return {
    vaultId: found['id'] as string,
    keyId: found['key_id'] as string,
    lock: found['lock'] as string,
    dataKey: found['data_key'] as Uint8Array,
    manifest: found['manifest'] as Uint8Array,
  }
}

/** How the vault is locked. @throws vault_corrupt for anything but one of ours, within its bounds */
export function readLock(db: DatabaseSync, file: string): { vaultId: string; lock: Lock; lockText: string } {
  const { vaultId, lock: lockText } = readRecord(db, file)
  try {
    return { vaultId, lock: Lock.parse(JSON.parse(lockText)), lockText }
  } catch {
    throw corrupt(file, 'the record of how it is locked was altered or damaged')
  }
}

export function makeRecord(db: DatabaseSync, { vaultId, keyId, lock, dataKey, manifest }: VaultRecord): void {
  db.prepare('INSERT INTO vault (only, id, key_id, lock, data_key, manifest) VALUES (1, ?, ?, ?, ?, ?)').run(
    vaultId,
    keyId,
    lock,
    dataKey,
    manifest,
  )
}

export function storeManifest(db: DatabaseSync, manifest: Uint8Array): void {
  db.prepare('UPDATE vault SET manifest = ? WHERE only = 1').run(manifest)
}

export function storeRecord(db: DatabaseSync, { keyId, lock, dataKey, manifest }: Omit<VaultRecord, 'vaultId'>): void {
  db.prepare('UPDATE vault SET key_id = ?, lock = ?, data_key = ?, manifest = ? WHERE only = 1').run(keyId, lock, dataKey, manifest)
}

function wrongKey(file: string, { method }: Lock): SallyportError {
  const what = { passphrase: 'the passphrase', keyring: 'the key in the keyring', 'key-file': 'the key file' }[method]
  return new SallyportError('vault_key_wrong', `${what} does not open ${file}`, {
    hint: method === 'passphrase' ? 'type it again' : 'it belongs to another vault, or the record of the key was altered',
  })
}

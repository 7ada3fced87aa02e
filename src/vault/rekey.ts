import { storeRecord, wrap, type Opened } from './keys.ts'
import { sealManifest, type Entry, type Origin } from './manifest.ts'
import { brokenIn, missing, type VaultParts } from './parts.ts'
import { readRow, readRows, writeRow } from './rows.ts'
import { KEY_BYTES } from './seal.ts'
import { dropLock, makeLock, type UnlockMethod } from './unlock.ts'

/** A new data key, and with `to` a new lock: every value is sealed anew. */
export async function rotateDataKey(parts: VaultParts, to: UnlockMethod | undefined): Promise<void> {
  await withLock(parts, to, (next) =>
    parts.database.write((db) => {
      const opened = parts.keys.open(db)
      const origin = { vaultId: opened.origin.vaultId, keyId: parts.system.random(8).toString('hex') }
      const dataKey = parts.system.random(KEY_BYTES)
      try {
        store(parts, opened, next, { origin, dataKey, entries: resealed(parts, opened, origin, dataKey), kind: 'key_rotated' })
      } finally {
        dataKey.fill(0)
      }
    }),
  )
}

/** Another lock around the same data key. */
export async function changeLock(parts: VaultParts, to: UnlockMethod): Promise<void> {
  await withLock(parts, to, (next) =>
    parts.database.write((db) => {
      const opened = parts.keys.open(db)
      store(parts, opened, next, { ...opened, entries: opened.manifest.entries, kind: 'locked_anew' })
    }),
  )
}

type NextLock = { readonly lockText: string; readonly key: Buffer; readonly method: UnlockMethod }

/**
 * Makes the new lock before, and drops the old one after `change` is on the disk: whenever this is interrupted, what opens the vault is
 * there (I33).
 */
async function withLock({ database, keys, unlock, system }: VaultParts, to: UnlockMethod | undefined, change: (next: NextLock) => void) {
  const before = keys.lock
  if (to === undefined) {
    change({ lockText: keys.lockText, key: keys.key, method: before.method })
    // The old key, wrapped, is not left beside the new one in the log.
    database.forget()
    return
  }
  const { lock, key } = await makeLock(to, keys.vaultId, unlock, system)
  try {
    change({ lockText: JSON.stringify(lock), key, method: to })
  } catch (error) {
    key.fill(0)
    await dropLock(lock, unlock)
    throw error
  }
  keys.replaceLock(lock, key)
  database.forget()
  await dropLock(before, unlock)
}

/** I33: all rows of one transaction, or none: there is no vault with two data keys. */
function resealed(parts: VaultParts, opened: Opened, origin: Origin, dataKey: Buffer): Map<string, Entry> {
  const broken = brokenIn(parts)
  const { rows, problems } = readRows(opened)
  const [problem] = problems
  if (problem !== undefined) throw broken(problem)
  const entries = new Map<string, Entry>()
  for (const { key } of rows) {
    const found = readRow(opened, key, broken)
    if (found === undefined) throw missing(key, opened.manifest)
    try {
      entries.set(found.row.id, writeRow(opened.db, found.row, found.value, { origin, dataKey }, parts.system))
    } finally {
      found.value.fill(0)
    }
  }
  return entries
}

type NextKey = {
  readonly origin: Origin
  readonly dataKey: Buffer
  readonly entries: ReadonlyMap<string, Entry>
  readonly kind: 'key_rotated' | 'locked_anew'
}

function store({ system, onChange }: VaultParts, opened: Opened, lock: NextLock, { origin, dataKey, entries, kind }: NextKey): void {
  const version = opened.manifest.version + 1
  storeRecord(opened.db, {
    keyId: origin.keyId,
    lock: lock.lockText,
    dataKey: wrap(lock.key, origin, lock.lockText, dataKey, system),
    manifest: sealManifest({ version, entries }, origin, dataKey, system),
  })
  onChange({ kind, method: lock.method, version })
}

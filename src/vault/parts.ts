import { SallyportError } from '../kernel/errors.ts'
import { nearest } from '../kernel/nearest.ts'
import type { System } from '../kernel/system.ts'
import { corrupt, type Database } from './database.ts'
import type { VaultEvent } from './events.ts'
import { storeManifest, type Keys, type Opened } from './keys.ts'
import { sealManifest, type Manifest } from './manifest.ts'
import type { Problem } from './rows.ts'
import type { Unlock } from './unlock.ts'

/** What an open vault is made of. */
export type VaultParts = {
  readonly database: Database
  readonly keys: Keys
  readonly unlock: Unlock
  readonly system: Pick<System, 'now' | 'random'>
  readonly onChange: (event: VaultEvent) => void
}

/** One snapshot, unlocked. */
export function reading<T>({ database, keys }: VaultParts, work: (opened: Opened) => T): T {
  return database.read((db) => work(keys.open(db)))
}

/** One change: its rows, the manifest that it leaves and the word about it, all or nothing. */
export function changing<T>(
  parts: VaultParts,
  work: (opened: Opened) => { manifest: Manifest; event: VaultEvent | undefined; result: T },
): T {
  const { database, keys, system, onChange } = parts
  return database.write((db) => {
    const opened = keys.open(db)
    const { manifest, event, result } = work(opened)
    if (event === undefined) return result
    storeManifest(db, sealManifest(manifest, opened.origin, opened.dataKey, system))
    onChange(event)
    return result
  })
}

export function missing(key: string, { entries }: Manifest): SallyportError {
  const near = nearest(
    key,
    [...entries.values()].map((entry) => entry.key),
  )
  return new SallyportError('secret_missing', `the vault has no secret ${key}`, {
    hint: near === undefined ? 'sallyport secret ls lists them' : `did you mean ${near}?`,
  })
}

/** Makes the error for a secret that has a problem. */
export function brokenIn({ database: { file } }: VaultParts): (problem: Problem) => SallyportError {
  return ({ key, problem }) =>
    corrupt(file, `secret ${key}: ${problem}`, { hint: `set ${key} anew, or remove it; the other secrets are not concerned` })
}

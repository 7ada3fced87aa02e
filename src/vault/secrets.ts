import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Secret } from '../kernel/secret.ts'
import type { Opened } from './keys.ts'
import { changed, type Entry, type Manifest } from './manifest.ts'
import { brokenIn, changing, missing, reading, type VaultParts } from './parts.ts'
import type { SecretHolder } from '../wire/secret-holder.ts'
import { bytesOf, checkFields, dropRow, readRow, readRows, writeRow, type SecretRow } from './rows.ts'
import { checkScope, isInScope, outOfScope } from './scope.ts'

export type SetOptions = { readonly name?: string; readonly scope?: string; readonly tags?: readonly string[] }

/** What `set` of a vault would refuse, before there is a vault. @throws secret_invalid, config_invalid */
export function checkSecret(key: string, secret: Secret, { name = key, scope = 'global', tags = [] }: SetOptions): void {
  bytesOf(key, secret).fill(0)
  checkFields({ key, name, scope, tags })
  checkScope(scope)
}

/** For a holder only what is in its scope; without one it is the operator who asks. */
export function getSecret(parts: VaultParts, key: string, holder: SecretHolder | undefined): Secret {
  return reading(parts, (opened) => {
    const found = readRow(opened, key, brokenIn(parts))
    if (found === undefined) throw missing(key, opened.manifest)
    try {
      if (holder !== undefined && !isInScope(found.row.scope, holder)) throw outOfScope(key, found.row.scope)
      return new Secret(key, found.value.toString('utf8'))
    } finally {
      found.value.fill(0)
    }
  })
}

/** No value is opened for it. */
export function hasSecret(parts: VaultParts, key: string, holder: SecretHolder): 'there' | 'absent' | 'kept' {
  return reading(parts, (opened) => {
    const row = readRows(opened).rows.find((one) => one.key === key)
    if (row === undefined) return 'absent'
    return isInScope(row.scope, holder) ? 'there' : 'kept'
  })
}

export function setSecret(parts: VaultParts, key: string, secret: Secret, options: SetOptions): SecretRow {
  if (options.scope !== undefined) checkScope(options.scope)
  const value = bytesOf(key, secret)
  try {
    return changing(parts, (opened) => {
      const row = rowFor(parts, opened, key, options)
      const manifest = place(parts, opened, opened.manifest, row, value)
      return { manifest, event: { kind: 'set', key, secretVersion: row.version, version: manifest.version }, result: row }
    })
  } finally {
    value.fill(0)
  }
}

/** All but the value. What the options leave out stays as it is. */
export function describeSecret(parts: VaultParts, key: string, options: SetOptions): SecretRow {
  if (options.scope !== undefined) checkScope(options.scope)
  const kind = options.name === undefined && options.scope === undefined ? 'tagged' : 'described'
  return changing(parts, (opened) => {
    const found = readRow(opened, key, brokenIn(parts))
    if (found === undefined) throw missing(key, opened.manifest)
    try {
      const row = rowFor(parts, opened, key, options)
      const manifest = place(parts, opened, opened.manifest, row, found.value)
      return { manifest, event: { kind, key, secretVersion: row.version, version: manifest.version }, result: row }
    } finally {
      found.value.fill(0)
    }
  })
}

export function removeSecret(parts: VaultParts, key: string): void {
  changing(parts, (opened) => {
    const [id, entry] = entryOf(opened.manifest, key) ?? []
    const { problems } = readRows(opened)
    if (id === undefined && !problems.some((problem) => problem.key === key)) throw missing(key, opened.manifest)
    dropRow(opened.db, id, key)
    const manifest = changed(opened.manifest, (entries) => void (id !== undefined && entries.delete(id)))
    return { manifest, event: { kind: 'removed', key, secretVersion: entry?.version ?? 0, version: manifest.version }, result: undefined }
  })
}

/** Seals a row in place of any of its key, and gives the manifest that knows it. */
export function place({ system }: VaultParts, opened: Opened, manifest: Manifest, row: SecretRow, value: Buffer): Manifest {
  const entry = writeRow(opened.db, row, value, opened, system)
  const [before] = entryOf(manifest, row.key) ?? []
  return changed(manifest, (entries) => {
    if (before !== undefined) entries.delete(before)
    entries.set(row.id, entry)
  })
}

export function entryOf({ entries }: Manifest, key: string): readonly [string, Entry] | undefined {
  return [...entries].find(([, entry]) => entry.key === key)
}

/** @throws vault_full */
export function checkRoom(file: string, { entries }: Manifest): void {
  if (entries.size < LIMITS.vaultSecretsMax) return
  throw new SallyportError('vault_full', `${file} has ${entries.size} secrets, which is its limit`, { hint: 'remove some first' })
}

function rowFor({ system, database }: VaultParts, opened: Opened, key: string, { name, scope, tags }: SetOptions): SecretRow {
  const before = readRows(opened).rows.find((row) => row.key === key)
  const [, entry] = entryOf(opened.manifest, key) ?? []
  // A clock that was put back must not make a value look older than the one it replaces.
  const now = Math.max(system.now(), before?.updatedAt ?? 0)
  const row = {
    id: before?.id ?? system.random(8).toString('hex'),
    name: name ?? before?.name ?? key,
    key,
    scope: scope ?? before?.scope ?? 'global',
    tags: [...new Set(tags ?? before?.tags)].toSorted(),
    version: (entry?.version ?? 0) + 1,
    createdAt: before?.createdAt ?? now,
    updatedAt: now,
  }
  checkFields(row)
  if (entry === undefined) checkRoom(database.file, opened.manifest)
  return row
}

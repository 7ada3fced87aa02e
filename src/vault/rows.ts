import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import type { Opened } from './keys.ts'
import { digestOf, type Entry, type Origin } from './manifest.ts'
import { contextOf, seal, SEAL_BYTES, unseal } from './seal.ts'

/** A secret without its value. */
export type SecretRow = {
  readonly id: string
  /** For people. The key unless it was named otherwise. */
  readonly name: string
  /** What a policy calls it: `vault:KEY`. */
  readonly key: string
  readonly scope: string
  /** Sorted, each once. */
  readonly tags: readonly string[]
  /** Goes up with every change of the row. */
  readonly version: number
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly updatedAt: number
}

/** As it lies in the file. `head` is nonce and tag, which stand for the value. */
type Stored = Omit<SecretRow, 'tags'> & { readonly tagsText: string; readonly head: Uint8Array }

/** A secret that is not what was stored last. */
export type Problem = { readonly key: string; readonly problem: string }

export const KEY = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/
const SCOPE = /^[a-z0-9][a-z0-9:._-]{0,63}$/
const TAG = /^[A-Za-z0-9][A-Za-z0-9:._/-]{0,63}$/
/** One line of visible text, also outside ASCII. */
const NAME = /^[^\p{C}\p{Zl}\p{Zp}]{1,200}$/u
const COLUMNS = `id, name, key, scope, tags, version, created_at, updated_at, substr(value, 1, ${SEAL_BYTES}) AS head`

/** @throws config_invalid with the value, unless it is one that may be a secret in a wrong place (`key`) */
export function checkFields({ key, name, scope, tags }: Pick<SecretRow, 'key' | 'name' | 'scope' | 'tags'>): void {
  if (!KEY.test(key))
    refuse('the name of a secret has letters, digits, "_", "." and "-" only, 128 at most, and begins with a letter or "_"')
  if (!NAME.test(name)) refuse('the name for people is one line of at most 200 characters')
  if (!SCOPE.test(scope)) refuse(`scope "${scope.slice(0, 64)}" may have lower-case letters, digits, ":", ".", "_" and "-", 64 at most`)
  for (const tag of tags)
    if (!TAG.test(tag)) refuse(`tag "${tag.slice(0, 64)}" may have letters, digits, ":", ".", "_", "/" and "-", 64 at most`)
  if (tags.length > LIMITS.secretTagsMax) refuse(`${tags.length} tags: ${LIMITS.secretTagsMax} at most`)
}

function refuse(message: string): never {
  throw new SallyportError('config_invalid', message, { hint: 'letters, digits, "_", "." and "-" are always right' })
}

/** The value as bytes, for the caller to wipe. @throws secret_invalid when it is empty, too long, or no text */
export function bytesOf(key: string, value: Secret): Buffer {
  const text = value.reveal()
  const problem = text === '' ? 'it is empty' : text.isWellFormed() ? undefined : 'it is not Unicode text'
  const bytes = Buffer.from(text)
  if (problem === undefined && bytes.length <= LIMITS.secretBytesMax) return bytes
  bytes.fill(0)
  throw new SallyportError(
    'secret_invalid',
    `${key}: ${problem ?? `it has ${bytes.length} bytes, ${LIMITS.secretBytesMax} at most are kept`}`,
    {
      hint: 'store just the value, as the service gave it',
    },
  )
}

/** Writes a row with its value, in place of any of that key. Gives back its entry of the manifest. */
export function writeRow(
  db: DatabaseSync,
  row: SecretRow,
  value: Buffer,
  { origin, dataKey }: Pick<Opened, 'origin' | 'dataKey'>,
  system: Pick<System, 'random'>,
): Entry {
  const tagsText = JSON.stringify(row.tags)
  const context = contextOfRow({ ...row, tagsText }, origin)
  const sealed = seal(dataKey, context, value, system)
  dropRow(db, row.id, row.key)
  db.prepare(
    'INSERT INTO secrets (id, name, key, value, scope, tags, created_at, updated_at, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  ).run(row.id, row.name, row.key, sealed, row.scope, tagsText, row.createdAt, row.updatedAt, row.version)
  return { key: row.key, version: row.version, digest: digestOf(context, sealed.subarray(0, SEAL_BYTES)) }
}

export function dropRow(db: DatabaseSync, id: string | undefined, key: string): void {
  db.prepare('DELETE FROM secrets WHERE id = ? OR key = ?').run(id ?? '', key)
}

/** Rows that are what was stored last, by key, and what is wrong with the others. */
export function readRows({ db, manifest, origin }: Opened): { rows: SecretRow[]; problems: Problem[] } {
  const stored = db.prepare(`SELECT ${COLUMNS} FROM secrets ORDER BY key`).all().map(storedOf)
  const rows: SecretRow[] = []
  const problems: Problem[] = []
  const missing = new Map(manifest.entries)
  for (const row of stored) {
    const entry = manifest.entries.get(row.id)
    missing.delete(row.id)
    const problem = problemOf(row, entry, origin)
    if (problem === undefined) rows.push(rowOf(row))
    else problems.push({ key: entry?.key ?? row.key, problem })
  }
  // A row under another id is told above, by its key.
  for (const { key } of missing.values()) {
    if (!problems.some((problem) => problem.key === key)) problems.push({ key, problem: 'its row is gone' })
  }
  return { rows, problems }
}

/** One row with its value, in bytes that the caller wipes. `undefined` when there is none. @throws the problem as vault_corrupt, made by `broken` */
export function readRow(
  { db, manifest, origin, dataKey }: Opened,
  key: string,
  broken: (problem: Problem) => Error,
): { row: SecretRow; value: Buffer } | undefined {
  const found = db.prepare(`SELECT ${COLUMNS}, value FROM secrets WHERE key = ?`).get(key)
  if (found === undefined) {
    if ([...manifest.entries.values()].some((entry) => entry.key === key)) throw broken({ key, problem: 'its row is gone' })
    return undefined
  }
  const stored = storedOf(found)
  const problem = problemOf(stored, manifest.entries.get(stored.id), origin)
  if (problem !== undefined) throw broken({ key, problem })
  try {
    return { row: rowOf(stored), value: unseal(dataKey, contextOfRow(stored, origin), found['value'] as Uint8Array) }
  } catch {
    throw broken({ key, problem: 'its value was altered or damaged' })
  }
}

/** I32: a row is bound to its vault, data key, id, key and everything else in it, so that none can stand for another. */
function contextOfRow(row: Omit<Stored, 'head'>, { vaultId, keyId }: Origin): string {
  const { id, key, name, scope, tagsText, version, createdAt, updatedAt } = row
  return contextOf('value', vaultId, keyId, id, key, name, scope, tagsText, version, createdAt, updatedAt)
}

function problemOf(row: Stored, entry: Entry | undefined, origin: Origin): string | undefined {
  if (entry === undefined) return 'it was not stored by this vault'
  if (entry.digest === digestOf(contextOfRow(row, origin), row.head)) return undefined
  return row.version < entry.version ? `version ${row.version} was put back in place of ${entry.version}` : 'it was altered or damaged'
}

function storedOf(found: Record<string, SQLOutputValue>): Stored {
  return {
    id: found['id'] as string,
    name: found['name'] as string,
    key: found['key'] as string,
    scope: found['scope'] as string,
    tagsText: found['tags'] as string,
    version: found['version'] as number,
    createdAt: found['created_at'] as number,
    updatedAt: found['updated_at'] as number,
    head: found['head'] as Uint8Array,
  }
}

/** Only of a row whose digest holds: its tags are ours. */
function rowOf({ tagsText, head: _head, ...row }: Stored): SecretRow {
  return { ...row, tags: JSON.parse(tagsText) as string[] }
}

import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'

/** One step from a version of the schema to the next. */
export type Migration = { readonly sql: string }

/** The first makes a new vault; each further one brings a vault of the version before it up. */
export const SCHEMA: readonly Migration[] = [
  {
    sql: `
CREATE TABLE vault (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  lock TEXT NOT NULL,
  data_key BLOB NOT NULL,
  manifest BLOB NOT NULL
) STRICT;
CREATE TABLE secrets (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  key TEXT NOT NULL UNIQUE,
  value BLOB NOT NULL,
  scope TEXT NOT NULL,
  tags TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  version INTEGER NOT NULL
) STRICT;`,
  },
]

/**
 * Brings the schema to the newest version, in one transaction. Before that a copy of the whole is on the disk, as `FILE.before-vN`.
 * @throws vault_newer, vault_corrupt; what SQLite and the file system complain about as it comes
 */
export function migrate(db: DatabaseSync, file: string, migrations: readonly Migration[], system: Pick<System, 'random'>): void {
  if (versionOf(db, file, migrations) === migrations.length) return
  // Nobody writes from here on: the copy is what is migrated.
  db.exec('BEGIN IMMEDIATE')
  try {
    const from = versionOf(db, file, migrations)
    if (from < migrations.length) {
      copy(file, `${file}.before-v${migrations.length}`, system)
      for (const { sql } of migrations.slice(from)) db.exec(sql)
      db.exec(`PRAGMA user_version = ${migrations.length}`)
    }
    db.exec('COMMIT')
  } finally {
    if (db.isTransaction) db.exec('ROLLBACK')
  }
}

function versionOf(db: DatabaseSync, file: string, migrations: readonly Migration[]): number {
  const version = Object.values(db.prepare('PRAGMA user_version').get() ?? {})[0]
  if (typeof version !== 'number' || version < 1) throw new SallyportError('vault_corrupt', `${file}: its version is ${String(version)}`)
  if (version <= migrations.length) return version
  throw new SallyportError('vault_newer', `${file} has schema ${version}, and this version of Sallyport knows ${migrations.length}`, {
    hint: 'use the newer Sallyport, or export the secrets with it',
  })
}

/** As another connection sees it, with what only the log has so far. In one go: whoever waits for the lock in this process blocks it. */
function copy(file: string, target: string, system: Pick<System, 'random'>): void {
  const temporary = `${target}.${system.random(8).toString('hex')}.tmp`
  const descriptor = openSync(temporary, 'wx', 0o600)
  try {
    const reader = new DatabaseSync(file, { readOnly: true, timeout: LIMITS.vaultBusyMs })
    try {
      reader.prepare('VACUUM INTO ?').run(temporary)
    } finally {
      reader.close()
    }
    fsyncSync(descriptor)
    renameSync(temporary, target)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  } finally {
    closeSync(descriptor)
  }
  const folder = openSync(dirname(target), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

import { rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'
import { checkOwnFile, placeFile, removeFile, syncFolder } from './own-files.ts'

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
 * @throws vault_newer, vault_corrupt and what SQLite complains about
 */
export async function migrate(
  db: DatabaseSync,
  file: string,
  migrations: readonly Migration[],
  system: Pick<System, 'random'>,
  guard: <T>(work: () => T) => T,
): Promise<void> {
  if (guard(() => versionOf(db, file, migrations)) === migrations.length) return
  // Nobody writes from here on: the copy is what is migrated.
  guard(() => db.exec('BEGIN IMMEDIATE'))
  try {
    const from = guard(() => versionOf(db, file, migrations))
    if (from < migrations.length) {
      await copy(file, `${file}.before-v${migrations.length}`, system, guard)
      guard(() => {
        for (const { sql } of migrations.slice(from)) db.exec(sql)
        db.exec(`PRAGMA user_version = ${migrations.length}`)
      })
    }
    guard(() => db.exec('COMMIT'))
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

/** As another connection sees it, without the pages that only the log has been given so far being left out. */
async function copy(file: string, target: string, system: Pick<System, 'random'>, guard: <T>(work: () => T) => T): Promise<void> {
  const fresh = `${target}.new`
  await removeFile(fresh)
  await placeFile(fresh, system, (temporary) =>
    guard(() => {
      const reader = new DatabaseSync(file, { readOnly: true, timeout: LIMITS.vaultBusyMs })
      try {
        reader.prepare('VACUUM INTO ?').run(temporary)
      } finally {
        reader.close()
      }
    }),
  )
  checkOwnFile(fresh)
  await rename(fresh, target)
  await syncFolder(dirname(target))
}

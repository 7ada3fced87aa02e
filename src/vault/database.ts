import { lstatSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'
import { migrate, SCHEMA, type Migration } from './migrations.ts'
import { checkOwnFile, checkOwnFolder, placeFile, unsafe } from './own-files.ts'

/** The file behind a vault: whole transactions are on the disk when they return, or nothing of them (I33). */
export type Database = {
  readonly file: string
  /** One snapshot for all that `work` reads. */
  read<T>(work: (db: DatabaseSync) => T): T
  /** Nobody else writes meanwhile. What `work` throws undoes all of it. @throws vault_busy, vault_write_failed */
  write<T>(work: (db: DatabaseSync) => T): T
  /** What was overwritten is not left in the log beside the file, where no other process is reading from it. */
  forget(): void
  close(): void
}

/** 'SPVT': tells our file from another program's. */
const APPLICATION_ID = 0x53505654

/** SQLite's primary result codes (sqlite.org/rescode.html). */
const FAULTS: Readonly<Record<number, 'vault_busy' | 'vault_corrupt' | 'vault_write_failed'>> = {
  // The statements are ours and fixed: what is not right about one of them is the schema in the file.
  1: 'vault_corrupt',
  5: 'vault_busy',
  6: 'vault_busy',
  8: 'vault_write_failed',
  10: 'vault_write_failed',
  11: 'vault_corrupt',
  13: 'vault_write_failed',
  14: 'vault_write_failed',
  26: 'vault_corrupt',
}

/**
 * Opens an existing vault's file, brings it to this version's schema, and checks its form.
 * @throws vault_missing, vault_unsafe, vault_corrupt, vault_newer, vault_busy, vault_write_failed
 */
export async function openDatabase(
  file: string,
  system: Pick<System, 'random'>,
  migrations: readonly Migration[] = SCHEMA,
): Promise<Database> {
  const before = await checkPlace(file)
  if (before === undefined)
    throw new SallyportError('vault_missing', `${file} does not exist`, { hint: 'sallyport secret set NAME makes a vault' })
  if (before.size === 0) throw corrupt(file, 'it is empty')
  const db = guarded(file, () => new DatabaseSync(file, { timeout: LIMITS.vaultBusyMs, defensive: true, allowExtension: false }))
  try {
    // SQLite opens by name: what it opened must be what was looked at.
    const opened = lstatSync(file)
    if (opened.dev !== before.dev || opened.ino !== before.ino) throw unsafe(file, 'another file took its name just now')
    guarded(file, () => checkForm(db, file))
    guarded(file, () => migrate(db, file, migrations, system))
    guarded(file, () => settle(db))
    return databaseOf(file, db)
  } catch (error) {
    db.close()
    throw error
  }
}

/** @throws vault_exists, vault_unsafe */
export async function refuseExisting(file: string): Promise<void> {
  if ((await checkPlace(file)) !== undefined) throw exists(file)
}

/** Makes the file with `fill`'s content, whole or not at all. @throws vault_exists, vault_unsafe, vault_write_failed */
export async function makeDatabase(file: string, system: Pick<System, 'random'>, fill: (db: DatabaseSync) => void): Promise<void> {
  const isPlaced = await placeFile(file, system, (temporary) =>
    guarded(file, () => {
      const db = new DatabaseSync(temporary, { defensive: true })
      try {
        // In the header of the file, so that no opener has to change it while another one reads.
        db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
        db.exec('BEGIN IMMEDIATE')
        for (const { sql } of SCHEMA) db.exec(sql)
        db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA.length}`)
        fill(db)
        db.exec('COMMIT')
      } finally {
        db.close()
      }
    }),
  ).catch((error: unknown) => Promise.reject(faultOf(file, error)))
  if (!isPlaced) throw exists(file)
}

/** Reads as `work` does; what SQLite or the disk complains about becomes a coded error. */
export function guarded<T>(file: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw faultOf(file, error)
  }
}

export function corrupt(file: string, problem: string, options: { hint?: string; cause?: unknown } = {}): SallyportError {
  return new SallyportError('vault_corrupt', `${file}: ${problem}`, {
    hint: 'nothing was changed; move it away with its -wal and bring back a copy, or import an exported file',
    ...options,
  })
}

function faultOf(file: string, error: unknown): unknown {
  if (error instanceof SallyportError || !(error instanceof Error)) return error
  const code = codeOf(error)
  if (code === 'ERR_OUT_OF_RANGE') return corrupt(file, 'a number in it is out of range', { cause: error })
  if (/^E[A-Z]+$/.test(code)) return failed(file, 'vault_write_failed', code, error)
  if (code !== 'ERR_SQLITE_ERROR' || !('errcode' in error) || typeof error.errcode !== 'number') return error
  const fault = FAULTS[error.errcode & 0xff]
  return fault === 'vault_corrupt'
    ? corrupt(file, error.message, { cause: error })
    : fault
      ? failed(file, fault, error.message, error)
      : error
}

function failed(file: string, code: 'vault_busy' | 'vault_write_failed', problem: string, cause: Error): SallyportError {
  const hint =
    code === 'vault_busy'
      ? 'look which other sallyport is at work, and try again'
      : 'see that the disk has space and the folder is writable, and try again: nothing was lost'
  return new SallyportError(code, `${file}: ${problem}`, { hint, cause })
}

async function checkPlace(file: string): Promise<ReturnType<typeof checkOwnFile>> {
  if (!(await checkOwnFolder(dirname(file)))) return undefined
  // SQLite itself opens its log without following links; others must not be able to read it either.
  for (const beside of ['-wal', '-shm']) checkOwnFile(`${file}${beside}`)
  return checkOwnFile(file)
}

function exists(file: string): SallyportError {
  return new SallyportError('vault_exists', `${file} exists already`, { hint: 'it is used as it is; move it away for a new one' })
}

function checkForm(db: DatabaseSync, file: string): void {
  if (numberOf(db, 'PRAGMA application_id') !== APPLICATION_ID) throw corrupt(file, 'it is no vault, but the file of another program')
  const found = db.prepare('PRAGMA quick_check(1)').get()
  const problem = Object.values(found ?? {})[0]
  if (problem !== 'ok') throw corrupt(file, `its pages are damaged (${String(problem)})`)
}

function settle(db: DatabaseSync): void {
  // FULL: a transaction is on the disk before COMMIT returns. secure_delete: what is deleted is overwritten in the file.
  db.exec('PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF')
}

function databaseOf(file: string, db: DatabaseSync): Database {
  const transaction = <T>(begin: string, work: (db: DatabaseSync) => T): T =>
    guarded(file, () => {
      db.exec(begin)
      try {
        const result = work(db)
        db.exec('COMMIT')
        return result
      } catch (error) {
        // Some faults (a full disk) end the transaction by themselves.
        if (db.isTransaction) db.exec('ROLLBACK')
        throw error
      }
    })
  return {
    file,
    read: (work) => transaction('BEGIN', work),
    write: (work) => transaction('BEGIN IMMEDIATE', work),
    forget() {
      // What was changed is on the disk already: that this can't be done now must not look as if it were not.
      try {
        db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
      } catch {}
    },
    close: () => db.close(),
  }
}

export function numberOf(db: DatabaseSync, sql: string): number {
  const value = Object.values(db.prepare(sql).get() ?? {})[0]
  return typeof value === 'number' ? value : Number.NaN
}

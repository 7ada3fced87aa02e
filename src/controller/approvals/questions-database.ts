import { closeSync, fsyncSync, linkSync, lstatSync, openSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'

/** 'SPQU': tells our file from another program's. */
const APPLICATION_ID = 0x53505155
const VERSION = 1

const SCHEMA = `
CREATE TABLE questions (
  id TEXT PRIMARY KEY, session TEXT NOT NULL, digest TEXT NOT NULL, state TEXT NOT NULL, record TEXT NOT NULL, answer TEXT, note TEXT,
  created_at INTEGER NOT NULL, settled_at INTEGER, consumed_at INTEGER, finished_at INTEGER, result TEXT
) STRICT;
CREATE INDEX questions_settled ON questions (settled_at);
CREATE TABLE remembered (
  id TEXT PRIMARY KEY, workspace TEXT NOT NULL, kind TEXT NOT NULL, rule TEXT NOT NULL, question TEXT NOT NULL,
  created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX remembered_of ON remembered (workspace);`

/** SQLite's primary result codes (sqlite.org/rescode.html) that say that the file is no good: CORRUPT, NOTADB. */
const DAMAGED = new Set([11, 26])

/**
 * The file of the questions, made with mode 0600 where there is none: a transaction is on the disk when it returns.
 * @throws approvals_invalid when it is damaged, empty, a link, another's, open to others or of a newer version; approvals_write_failed
 */
export function openQuestionsDatabase(file: string, system: Pick<System, 'random'>): DatabaseSync {
  return guarded(file, () => {
    if (!isThere(file)) make(file, system)
    for (const beside of ['-wal', '-shm']) isThere(`${file}${beside}`)
    // SQLite takes an empty file for a new database: what was in it would be gone in silence.
    if (lstatSync(file).size === 0) throw invalid(file, 'it is empty')
    const db = new DatabaseSync(file, { timeout: LIMITS.questionsBusyMs, defensive: true, allowExtension: false })
    try {
      check(db, file)
      // FULL: what is consumed stays so when the machine loses its power a moment later.
      db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF')
      return db
    } catch (error) {
      db.close()
      throw error
    }
  })
}

/** Does `work`; what SQLite or the disk complains about becomes a coded error. @throws approvals_invalid, approvals_write_failed */
export function guarded<T>(file: string, work: () => T): T {
  try {
    return work()
  } catch (cause) {
    if (cause instanceof SallyportError || !(cause instanceof Error)) throw cause
    if (codeOf(cause) === 'ERR_INVALID_STATE') throw new SallyportError('controller_unavailable', 'the controller ends', { cause })
    if (cause instanceof SyntaxError) throw invalid(file, 'a row of it is not as it was written', cause)
    const number = 'errcode' in cause && typeof cause.errcode === 'number' ? cause.errcode & 0xff : undefined
    if (number !== undefined && DAMAGED.has(number)) throw invalid(file, cause.message, cause)
    if (number === undefined && !/^E[A-Z]+$/.test(codeOf(cause))) throw cause
    throw new SallyportError('approvals_write_failed', `${file}: ${number === undefined ? codeOf(cause) : cause.message}`, {
      hint: 'see that the disk has space and the folder is writable, and ask again: nothing ran by it',
      cause,
    })
  }
}

function make(file: string, system: Pick<System, 'random'>): void {
  const temporary = `${file}.${system.random(8).toString('hex')}.tmp`
  const descriptor = openSync(temporary, 'wx', 0o600)
  try {
    const db = new DatabaseSync(temporary, { defensive: true })
    try {
      db.exec(`BEGIN; ${SCHEMA} PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${VERSION}; COMMIT`)
    } finally {
      db.close()
    }
    fsyncSync(descriptor)
    linkSync(temporary, file)
    const folder = openSync(dirname(file), 'r')
    try {
      fsyncSync(folder)
    } finally {
      closeSync(folder)
    }
  } finally {
    closeSync(descriptor)
    rmSync(temporary, { force: true })
  }
}

function check(db: DatabaseSync, file: string): void {
  if (pragma(db, 'application_id') !== APPLICATION_ID) throw invalid(file, 'it is the file of another program')
  const version = pragma(db, 'user_version')
  if (version !== VERSION)
    throw invalid(file, `it is of version ${String(version)}, and this Sallyport knows ${VERSION}`, undefined, 'use the newer Sallyport')
  const found = pragma(db, 'quick_check(1)')
  if (found !== 'ok') throw invalid(file, `its pages are damaged (${String(found)})`)
}

function pragma(db: DatabaseSync, name: string): unknown {
  return Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0]
}

/** False when there is nothing of this name. @throws approvals_invalid when it is not a file of ours alone */
function isThere(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return false
  if (!found.isFile()) throw invalid(path, found.isSymbolicLink() ? 'it is a symbolic link' : 'it is not a regular file')
  if (found.uid !== process.geteuid?.()) throw invalid(path, `it belongs to user ${found.uid}`)
  if ((found.mode & 0o077) !== 0) throw invalid(path, `its mode ${(found.mode & 0o777).toString(8)} lets others in: chmod go-rwx`)
  return true
}

function invalid(
  file: string,
  problem: string,
  cause?: unknown,
  hint = 'move it away, with its -wal, to begin anew: what was asked before is not listed then, and remembered rules are forgotten',
): SallyportError {
  return new SallyportError('approvals_invalid', `${file}: ${problem}`, { hint, cause })
}

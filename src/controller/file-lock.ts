import { chmodSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'

/** What SQLite says when somebody else holds it: https://sqlite.org/rescode.html#busy */
const SQLITE_BUSY = 5

/**
 * A lock of the kernel's by way of SQLite: it ends with the process, where a file with a number would stay. `undefined` while somebody
 * else holds it, in this process or another. The file stays.
 * @throws what the file system says against it
 */
export function tryLock(file: string): Disposable | undefined {
  const database = new DatabaseSync(file)
  try {
    database.exec('PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
    chmodSync(file, 0o600)
  } catch (error) {
    database.close()
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return undefined
    throw error
  }
  return { [Symbol.dispose]: () => database.close() }
}

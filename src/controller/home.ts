import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'

/** Folders of a home that a daemon needs, all of them the operator's alone. */
const FOLDERS = ['audit', 'audit/sessions', 'policies', 's', 'sessions'] as const

/**
 * Makes `home` ready for a daemon and holds it, so that no second one works on the same sessions: until it is disposed of, or the process
 * ends in whatever way.
 * @throws config_invalid when it is no folder of this user's alone; daemon_running when another daemon holds it
 */
export function holdHome(home: string): Disposable {
  return hold(home, FOLDERS)
}

/** The same for a command that records a change while no daemon runs. @throws as holdHome */
export function holdAudit(home: string): Disposable {
  return hold(home, ['audit', 'audit/sessions'])
}

function hold(home: string, folders: readonly string[]): Disposable {
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 })
    refuseStrangers(home)
    for (const folder of folders) mkdirSync(join(home, folder), { recursive: true, mode: 0o700 })
  } catch (cause) {
    if (cause instanceof SallyportError) throw cause
    throw new SallyportError('config_invalid', `SALLYPORT_HOME "${home}" cannot be used (${codeOf(cause)})`, {
      hint: 'name a folder that you may write, or make room on the disk',
      cause,
    })
  }
  return lock(home)
}

/** Who else may write in it could put a vault, a policy or a socket in the place of ours. */
function refuseStrangers(home: string): void {
  const stat = lstatSync(home)
  const own = process.getuid?.() ?? stat.uid
  const problem = !stat.isDirectory() ? 'is no folder' : stat.uid !== own ? `belongs to uid ${stat.uid}` : undefined
  if (problem !== undefined)
    throw new SallyportError('config_invalid', `SALLYPORT_HOME "${home}" ${problem}`, { hint: 'name a folder of your own' })
  if ((stat.mode & 0o077) !== 0) chmodSync(home, 0o700)
}

/** A lock of the kernel's by way of SQLite: it ends with the process, where a file with a number would stay. */
function lock(home: string): Disposable {
  const file = join(home, 'daemon.lock')
  // A command that records something holds it for a moment: a daemon that starts just then waits.
  const database = new DatabaseSync(file, { timeout: LIMITS.homeBusyMs })
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    database.close()
    throw new SallyportError('daemon_running', `a daemon works on ${home} already`, {
      hint: 'use that one, end it, or give this one another SALLYPORT_HOME',
      cause,
    })
  }
  chmodSync(file, 0o600)
  return { [Symbol.dispose]: () => database.close() }
}

/** Where the operator's commands reach the daemon. A socket that a daemon left behind is taken away: the home is held. */
export function freeSocketPath(home: string): string {
  const path = join(home, 'daemon.sock')
  if (Buffer.byteLength(path) > 100)
    throw new SallyportError('config_invalid', `SALLYPORT_HOME "${home}" is too long for a socket in it`, {
      hint: 'name one of 80 characters or fewer',
    })
  rmSync(path, { force: true })
  return path
}

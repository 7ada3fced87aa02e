import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { strangerAbove } from '../kernel/folders-above.ts'
import { tryLock } from './file-lock.ts'

/** Folders of a home that a daemon needs, all of them the operator's alone. */
const FOLDERS = ['audit', 'audit/sessions', 'policies', 's', 'sessions'] as const

/**
 * Makes `home` ready for a daemon and holds it, so that no second one works on the same sessions: until it is disposed of, or the process
 * ends in whatever way.
 * @throws config_invalid when it is no folder of this user's alone; daemon_running when another daemon holds it
 */
export function holdHome(home: string): Disposable {
  try {
    refuseAbove(home)
    mkdirSync(home, { recursive: true, mode: 0o700 })
    refuseStrangers(home)
    for (const folder of FOLDERS) mkdirSync(join(home, folder), { recursive: true, mode: 0o700 })
    return lock(home)
  } catch (cause) {
    if (cause instanceof SallyportError) throw cause
    throw new SallyportError('config_invalid', `SALLYPORT_HOME "${home}" cannot be used (${codeOf(cause)})`, {
      hint: 'name a folder that you may write, or make room on the disk',
      cause,
    })
  }
}

/** Whoever may rename a folder above it puts another home in its place, with a vault, a policy and a socket of theirs. */
function refuseAbove(home: string): void {
  const problem = strangerAbove(home)
  if (problem === undefined) return
  throw new SallyportError('config_invalid', `SALLYPORT_HOME "${home}" is not safe: ${problem}`, {
    hint: 'name a folder below your own, or take the right away: chmod o-w, chown',
  })
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

function lock(home: string): Disposable {
  const held = tryLock(join(home, 'daemon.lock'))
  if (held !== undefined) return held
  throw new SallyportError('daemon_running', `a daemon works on ${home} already`, {
    hint: 'use that one, end it, or give this one another SALLYPORT_HOME',
  })
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

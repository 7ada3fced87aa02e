import { fstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isatty } from 'node:tty'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { processStat, type ProcessStat } from '../kernel/process-stat.ts'
import { homeOf, type Io } from './command.ts'

const FOLDER = 'terminals'
/** What an agent's environment has, and an operator's has not. */
const OF_SESSIONS = ['SALLYPORT_LEASE', 'SALLYPORT_URL'] as const
const NAME = /^(\d+)-(\d+)$/

/**
 * Tells the operator's other commands that an agent's output is on the terminals of this process, until it is disposed of or the process
 * ends, in whatever way. The terminal that the process belongs to is one of them also when its output goes elsewhere.
 * @throws config_invalid when it cannot be told: then nothing of an agent is shown
 */
export function markAttached(env: Io['env']): Disposable {
  const folder = join(homeOf(env), FOLDER)
  const marks = terminalsOf(process.pid).map((device) => join(folder, `${device}-${process.pid}`))
  const letGo = (): void => {
    for (const mark of marks) rmSync(mark, { force: true })
  }
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    for (const mark of marks) writeFileSync(mark, startOf(process.pid) ?? '', { mode: 0o600 })
  } catch (cause) {
    letGo()
    throw new SallyportError('config_invalid', `${folder} cannot be written (${codeOf(cause)})`, {
      hint: 'other commands look there, so as not to ask for a password on a terminal that an agent is attached to',
      cause,
    })
  }
  return { [Symbol.dispose]: letGo }
}

/**
 * I49: Refuses to ask or answer where an agent could have drawn what is seen, or could read what is typed: inside of a session, on no terminal,
 * and on one that an agent is attached to by another command of this home.
 * @throws terminal_unsafe
 */
export function refuseAgentsTerminal(env: Io['env']): void {
  refuseSession(env)
  if (!isatty(0)) throw refused('this is no terminal', 'give the password by stdin (--stdin, --password-stdin), or run it on a terminal')
  const own = terminalsOf(process.pid)
  if (own.length === 0) throw refused('it is not known which terminal this is', 'run it on a terminal of its own')
  const folder = join(homeOf(env), FOLDER)
  for (const name of namesIn(folder)) {
    const [, device = '', pid = ''] = NAME.exec(name) ?? []
    if (!own.includes(device) || !isRunning(Number(pid), join(folder, name))) continue
    throw refused(`an agent is attached to this terminal, by process ${pid}`, 'use another terminal, or detach the agent first')
  }
}

/** @throws terminal_unsafe */
export function refuseSession(env: Io['env']): void {
  const found = OF_SESSIONS.find((name) => env[name] !== undefined)
  if (found !== undefined) throw refused(`${found} is set, as it is inside of a session`, 'run it as the operator, outside')
}

function refused(why: string, hint: string): SallyportError {
  return new SallyportError('terminal_unsafe', `nothing is asked or answered here: ${why}`, { hint })
}

/** The devices of the terminals that this process has, as decimal text. */
function terminalsOf(pid: number): string[] {
  const opened = [0, 1, 2].filter((fd) => isatty(fd)).map((fd) => String(fstatSync(fd).rdev))
  // The same bits as st_rdev.
  const controlling = statOf(pid)?.terminal ?? '0'
  return [...new Set([...opened, ...(controlling === '0' ? [] : [controlling])])]
}

/** On Linux a number that another process has by now is told apart by when it began. */
function isRunning(pid: number, mark: string): boolean {
  if (process.platform === 'linux') return startOf(pid) !== undefined && startOf(pid) === textOf(mark)
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

/** Undefined for one that has ended, or that nothing is known of. */
function startOf(pid: number): string | undefined {
  const stat = statOf(pid)
  return stat === undefined || stat.hasEnded ? undefined : stat.startTime
}

function statOf(pid: number): ProcessStat | undefined {
  try {
    return processStat(pid)
  } catch {
    return undefined
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return []
    throw refused(`${folder} cannot be read (${codeOf(cause)})`, 'look at who may read it')
  }
}

import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { SallyportError } from '../kernel/errors.ts'
import type { Io } from './command.ts'

const run = promisify(execFile)

/** Commands of ours that show on their terminal what a program in a session prints. */
const CARRIERS: ReadonlySet<string> = new Set(['attach', 'up', 'run', 'exec', 'logs'])
const OURS = /(?:^|\/)(?:sallyport(?:\.mjs)?|main\.(?:ts|js))$/

/**
 * Refuses a terminal that an agent is attached to, or that is in a session: what is shown there may be the agent's, and what is typed may
 * reach it. I49
 * @throws terminal_unsafe
 */
export async function refuseSharedTerminal(env: Io['env']): Promise<void> {
  if (env['SALLYPORT_LEASE'] || env['SALLYPORT_URL']) throw unsafe('this is the inside of a session')
  for (const argv of await commandsHere()) {
    const at = argv.findIndex((word) => OURS.test(word))
    const verb = at < 0 ? undefined : argv[at + 1]
    if (verb !== undefined && CARRIERS.has(verb)) throw unsafe(`"sallyport ${verb}" runs on this terminal`)
  }
}

/** Command lines of the other processes that have the terminal of this one. */
async function commandsHere(): Promise<string[][]> {
  return process.platform === 'linux' ? commandsByProc() : await commandsByPs()
}

/** proc(5): the seventh field of `stat` is the controlling terminal. */
function commandsByProc(): string[][] {
  const own = terminalOf('self')
  if (own === undefined || own === '0') return []
  const commands: string[][] = []
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid))) {
    if (terminalOf(pid) !== own) continue
    const line = read(`/proc/${pid}/cmdline`)
    if (line !== undefined) commands.push(line.split('\0'))
  }
  return commands
}

function terminalOf(pid: string): string | undefined {
  const stat = read(`/proc/${pid}/stat`)
  // A program's name may have spaces and brackets in it: the fields begin behind the last one.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[4]
}

/** Nothing of a process that has ended. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

async function commandsByPs(): Promise<string[][]> {
  try {
    const { stdout: own } = await run('/bin/ps', ['-o', 'tty=', '-p', String(process.pid)])
    if (own.trim() === '' || own.trim() === '??') return []
    const { stdout } = await run('/bin/ps', ['-t', own.trim(), '-o', 'pid=,args='])
    const lines = stdout.split('\n').map((line) => line.trim().split(/\s+/))
    return lines.filter(([pid]) => pid !== String(process.pid)).map((words) => words.slice(1))
  } catch (cause) {
    throw unsafe('it cannot be looked at what runs on this terminal', cause)
  }
}

function unsafe(why: string, cause?: unknown): SallyportError {
  return new SallyportError('terminal_unsafe', `${why}: nothing is answered here`, {
    hint: 'open a terminal of its own for "sallyport approve"',
    ...(cause !== undefined && { cause }),
  })
}

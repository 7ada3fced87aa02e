import { readFileSync, readlinkSync } from 'node:fs'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { processStat } from '../../kernel/process-stat.ts'

/** A process that the operating system is asked about. `startTime` in clock ticks since the machine started, as decimal text: a number alone is used again. */
export type ProcessIdentity = { readonly pid: number; readonly startTime: string }

/**
 * The identity of a process on Linux.
 * @throws presence_failed when there is none
 */
export function identityOf(pid: number): ProcessIdentity {
  return { pid, startTime: startTimeOf(pid) }
}

/**
 * Refuses a process that is not what it is said to be: gone, another one of the same number, another user's, or one in a container, which
 * an agent's is, whatever its user.
 * @throws presence_failed
 */
export function checkProcess({ pid, startTime }: ProcessIdentity): void {
  const uid = process.getuid?.()
  if (startTimeOf(pid) !== startTime) throw refused(pid, 'is not the one that asked: it began at another time')
  const uids = /^Uid:\s+(.*)$/m.exec(read(pid, () => readFileSync(`/proc/${pid}/status`, 'utf8')))?.[1]?.split(/\s+/) ?? []
  if (uids.length !== 4 || uids.some((each) => each !== String(uid))) throw refused(pid, `is of user ${uids[0] ?? '?'}, not ${uid ?? '?'}`)
  // An agent's may have our user, and its container another view of processes.
  if (read(pid, () => readlinkSync(`/proc/${pid}/ns/pid`)) !== readlinkSync('/proc/self/ns/pid')) throw refused(pid, 'runs in a container')
  // What was read between may have been another's.
  if (startTimeOf(pid) !== startTime) throw refused(pid, 'has ended')
}

function startTimeOf(pid: number): string {
  const { startTime, hasEnded } = read(pid, () => processStat(pid))
  if (hasEnded) throw refused(pid, 'has ended')
  if (!/^\d+$/.test(startTime)) throw refused(pid, 'cannot be looked at')
  return startTime
}

function read<T>(pid: number, work: () => T): T {
  try {
    return work()
  } catch (cause) {
    throw refused(pid, codeOf(cause) === 'ENOENT' || codeOf(cause) === 'ESRCH' ? 'is gone' : `cannot be looked at (${codeOf(cause)})`)
  }
}

function refused(pid: number, why: string): SallyportError {
  return new SallyportError('presence_failed', `process ${pid} ${why}`, {
    hint: 'answer with a program that stays until the prompt is done',
  })
}

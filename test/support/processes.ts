import { readFileSync } from 'node:fs'

/** Whether a process runs: one that has ended and waits for its parent to ask does not. Linux. */
export function isRunning(pid: number): boolean {
  try {
    // "PID (NAME) STATE …": a name may have anything in it.
    const state = /^\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^[^]*(?=\) \S)/, ''))?.[1]
    return state !== 'Z' && state !== 'X'
  } catch {
    return false
  }
}

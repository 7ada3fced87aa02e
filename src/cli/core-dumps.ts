import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { LIMITS } from '../kernel/limits.ts'

/**
 * Sees to it that a crash of this process writes no image of its memory, for good. Linux, with prlimit of util-linux where the limit is
 * not zero already (getrlimit(2)).
 * @returns whether that is so
 */
export async function withoutCoreDumps(): Promise<boolean> {
  if (isWithout()) return true
  try {
    await promisify(execFile)('prlimit', [`--pid=${process.pid}`, '--core=0:0'], {
      timeout: LIMITS.settleMs,
      env: { PATH: '/usr/bin:/bin' },
    })
  } catch {
    // There is none, or no /proc.
  }
  return isWithout()
}

function isWithout(): boolean {
  try {
    return /^Max core file size +0 +0 /m.test(readFileSync('/proc/self/limits', 'utf8'))
  } catch {
    return false
  }
}

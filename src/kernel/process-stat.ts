import { readFileSync } from 'node:fs'

/** What Linux says of a process. `startTime`: clock ticks since the machine started, as decimal text; `terminal`: its controlling one, 0 without. */
export type ProcessStat = { readonly hasEnded: boolean; readonly terminal: string; readonly startTime: string }

/** proc(5), fields 3, 7 and 22. A zombie has ended, though nobody has asked for its end yet. @throws what the file system says */
export function processStat(pid: number): ProcessStat {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
  // A program may have spaces and brackets in its name: the fields begin behind the last one.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { hasEnded: fields[0] === 'Z' || fields[0] === 'X', terminal: fields[4] ?? '0', startTime: fields[19] ?? '' }
}

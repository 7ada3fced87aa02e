import { readFileSync, readdirSync, writeFileSync } from 'node:fs'

/** The unit of times in /proc/PID/stat: USER_HZ is 100 on every architecture that Node runs on. */
const TICKS_PER_SECOND = 100

/** Fields of /proc/PID/stat, from the state on: the name before them may itself hold spaces and brackets (proc(5)). */
export type Stat = {
  readonly parent: number
  readonly session: number
  /** User and system seconds, in steps of 10 ms. */
  readonly cpuS: number
  /** The same of children that have ended and were waited for. */
  readonly childrenCpuS: number
}

/** @throws Error when the text is not one of /proc/PID/stat */
export function parseStat(text: string): Stat {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const at = (index: number): number => Number(fields[index])
  const stat = {
    parent: at(1),
    session: at(3),
    cpuS: (at(11) + at(12)) / TICKS_PER_SECOND,
    childrenCpuS: (at(13) + at(14)) / TICKS_PER_SECOND,
  }
  if (Object.values(stat).some(Number.isNaN)) throw new Error(`not a line of /proc/PID/stat: ${text.slice(0, 80)}`)
  return stat
}

/** The kibibytes of one line of status, smaps_rollup or meminfo; undefined where there is no such line. */
export function parseKib(text: string, field: string): number | undefined {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${field}:`))
  const value = /\s(\d+)\s+kB$/.exec(line ?? '')?.[1]
  return value === undefined ? undefined : Number(value)
}

/** The processors of a list such as `0-2,5`. */
export function parseCpuList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .flatMap((part) => {
      const [first, last = first] = part.split('-').map(Number)
      if (first === undefined || last === undefined) return []
      return Array.from({ length: last - first + 1 }, (_, i) => first + i)
    })
}

/** Processors that this process may run on. */
export function allowedCpus(): number[] {
  return parseCpuList(/^Cpus_allowed_list:\s*(.+)$/m.exec(read('self/status') ?? '')?.[1] ?? '0')
}

/** Who started a process; undefined when it has ended. */
export function parentOf(pid: number): number | undefined {
  const text = read(`${pid}/stat`)
  return text === undefined ? undefined : parseStat(text).parent
}

/** The process and all below it. */
export function treeOf(root: number): number[] {
  const children = new Map<number, number[]>()
  for (const [pid, stat] of processes()) children.set(stat.parent, [...(children.get(stat.parent) ?? []), pid])
  const found = [root]
  for (const pid of found) found.push(...(children.get(pid) ?? []))
  return found
}

/** All processes of the session that `leader` began, also when it has ended itself. */
export function sessionOf(leader: number): number[] {
  return processes()
    .filter(([, stat]) => stat.session === leader)
    .map(([pid]) => pid)
}

/** User and system seconds of the tree, with those of children that have ended. */
export function cpuSecondsOf(root: number): number {
  let total = 0
  for (const pid of treeOf(root)) {
    const text = read(`${pid}/stat`)
    if (text === undefined) continue
    const stat = parseStat(text)
    total += stat.cpuS + (pid === root ? stat.childrenCpuS : 0)
  }
  return total
}

/** Resident memory of a tree. Of several processes it is the proportional share (PSS), so that shared pages count once. */
export function rssMbOf(root: number): number {
  const pids = treeOf(root)
  if (pids.length === 1) return kibOf(root, 'status', 'VmRSS') / 1024
  return pssMbOf(pids)
}

/** The proportional share of some processes together. */
export function pssMbOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (kibOf(pid, 'smaps_rollup', 'Pss') || kibOf(pid, 'status', 'VmRSS')), 0) / 1024
}

/** The most that was resident since `resetPeak`. Shared pages count for each process: the kernel keeps no proportional peak. */
export function peakMbOf(root: number): number {
  return treeOf(root).reduce((sum, pid) => sum + kibOf(pid, 'status', 'VmHWM'), 0) / 1024
}

export function resetPeak(root: number): void {
  for (const pid of treeOf(root)) {
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
    } catch {
      // Ended meanwhile, or another user's: then the peak is that since its start.
    }
  }
}

/** Memory that can be had without swapping, in MB. */
export function availableMb(): number {
  return (parseKib(read('meminfo') ?? '', 'MemAvailable') ?? 0) / 1024
}

function processes(): [pid: number, stat: Stat][] {
  return readdirSync('/proc').flatMap((entry): [number, Stat][] => {
    const text = /^\d+$/.test(entry) ? read(`${entry}/stat`) : undefined
    return text === undefined ? [] : [[Number(entry), parseStat(text)]]
  })
}

function kibOf(pid: number, file: string, field: string): number {
  return parseKib(read(`${pid}/${file}`) ?? '', field) ?? 0
}

/** A file below /proc; undefined when its process has ended. */
function read(name: string): string | undefined {
  try {
    return readFileSync(`/proc/${name}`, 'utf8')
  } catch {
    return undefined
  }
}

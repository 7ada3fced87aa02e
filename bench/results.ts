import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type { Kind } from './measures.ts'

/** What was measured. Times in µs where the name says so, memory in MB of 1024², rates a second. */
export type Figures = {
  readonly ok: number
  readonly err: number
  readonly errors?: string
  readonly rps?: number
  readonly MBps?: number
  readonly p50_us?: number
  readonly p99_us?: number
  readonly p999_us?: number
  /** Processor time of the whole tree for one request. */
  readonly cpu_us?: number
  readonly cpu_s_per_gib?: number
  readonly rss_mb?: number
  readonly peak_mb?: number
  readonly idle_mb?: number
  readonly tunnel_kb?: number
  readonly ms?: number
  /** What the load client took of its processor, 0 to 1. */
  readonly client_cpu?: number
}

export type Run = Figures & {
  readonly type: 'run'
  readonly measure: string
  readonly kind: Kind
  readonly peer: string
  readonly run: number
}
export type Skip = { readonly type: 'skip'; readonly measure: string; readonly peer: string; readonly why: string }
/** One figure that belongs to no peer: `name` says what and in which unit. */
export type Cost = { readonly type: 'cost'; readonly name: string; readonly value: number }
export type Machine = {
  readonly type: 'machine'
  readonly date: string
  readonly cpu: string
  readonly cpus: number
  readonly kernel: string
  readonly loadAverage: number
  /** Program → version. */
  readonly versions: Readonly<Record<string, string>>
}
/** One figure as something grows: `at` is how much of it there was. */
export type Growth = {
  readonly type: 'growth'
  readonly of: 'connections' | 'rules' | 'gates' | 'load' | 'time'
  readonly at: number
  readonly figures: Readonly<Record<string, number>>
}
export type Row = Run | Skip | Cost | Machine | Growth

/** Rows in memory and, as they come, as JSON lines on disk. */
export type Results = { readonly file: string; readonly rows: readonly Row[]; add(row: Row): void }

export function openResults(file: string): Results {
  mkdirSync(path.dirname(file), { recursive: true })
  const rows: Row[] = []
  return {
    file,
    rows,
    add(row) {
      rows.push(row)
      appendFileSync(
        file,
        `${JSON.stringify(row, (_key, value: unknown) => (typeof value === 'number' ? Number(value.toFixed(3)) : value))}\n`,
      )
    },
  }
}

/** The rows of earlier results, file by file. */
export function readResults(files: readonly string[]): Row[] {
  return files.flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Row),
  )
}

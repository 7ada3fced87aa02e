import type { Kind } from './measures.ts'
import type { Figures, Row, Run } from './results.ts'

export type FigureName = Exclude<keyof Figures, 'ok' | 'err' | 'errors'>

/** What a measure is about, by its kind. */
export const VALUE: Readonly<Record<Kind, FigureName>> = {
  rate: 'rps',
  paced: 'p99_us',
  bulk: 'MBps',
  h2: 'rps',
  hold: 'tunnel_kb',
  startup: 'ms',
  idle: 'rss_mb',
}
const SMALLER_IS_BETTER: ReadonlySet<FigureName> = new Set([
  'p50_us',
  'p99_us',
  'p999_us',
  'cpu_us',
  'cpu_s_per_gib',
  'rss_mb',
  'peak_mb',
  'idle_mb',
  'tunnel_kb',
  'ms',
])

/** Runs of one peer at one measure, by the number of the run. */
export type PeerRuns = ReadonlyMap<number, Run>
/** Measure → peer → runs, in the order in which they came. */
export type Groups = ReadonlyMap<string, ReadonlyMap<string, PeerRuns>>

/** Runs by measure and peer. Of the same run of the same peer the last one counts. */
export function grouped(rows: readonly Row[]): Groups {
  const groups = new Map<string, Map<string, Map<number, Run>>>()
  for (const row of rows) {
    if (row.type !== 'run') continue
    const peers = groups.get(row.measure) ?? new Map<string, Map<number, Run>>()
    const runs = peers.get(row.peer) ?? new Map<number, Run>()
    groups.set(row.measure, peers.set(row.peer, runs.set(row.run, row)))
  }
  return groups
}

/** The middle one, or the mean of the two in the middle; undefined of none. */
export function median(values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)]
  const lower = sorted[Math.ceil(sorted.length / 2) - 1]
  return upper === undefined || lower === undefined ? undefined : (upper + lower) / 2
}

/** The median of a figure over the runs that have it. */
export function middle(runs: PeerRuns | undefined, figure: FigureName): number | undefined {
  return median([...(runs?.values() ?? [])].map((run) => run[figure]).filter((value) => value !== undefined))
}

/**
 * How many times better `mine` is than `theirs`, above 1 is better: the median of the ratios within each run. Both sides of
 * such a ratio share the mood of the machine, so that it is steadier than the ratio of two medians.
 */
export function ratio(mine: PeerRuns | undefined, theirs: PeerRuns | undefined, figure: FigureName): number | undefined {
  const pairs = pairsOf(mine, theirs, figure).filter(([a, b]) => a > 0 && b > 0)
  return median(pairs.map(([a, b]) => (SMALLER_IS_BETTER.has(figure) ? b / a : a / b)))
}

/** What a peer adds to a figure of the same run without a proxy: the median over the runs that both have. */
export function added(runs: PeerRuns | undefined, direct: PeerRuns | undefined, figure: FigureName): number | undefined {
  return median(pairsOf(runs, direct, figure).map(([a, b]) => a - b))
}

/** How many times more the other adds than `mine` does, within each run. */
export function addedRatio(
  mine: PeerRuns | undefined,
  theirs: PeerRuns | undefined,
  direct: PeerRuns | undefined,
  figure: FigureName,
): number | undefined {
  const ratios: number[] = []
  for (const [number, run] of mine ?? []) {
    const [a, b, base] = [run[figure], theirs?.get(number)?.[figure], direct?.get(number)?.[figure]]
    if (a !== undefined && b !== undefined && base !== undefined && a > base) ratios.push((b - base) / (a - base))
  }
  return median(ratios)
}

function pairsOf(mine: PeerRuns | undefined, theirs: PeerRuns | undefined, figure: FigureName): [number, number][] {
  const pairs: [number, number][] = []
  for (const [number, run] of mine ?? []) {
    const [a, b] = [run[figure], theirs?.get(number)?.[figure]]
    if (a !== undefined && b !== undefined) pairs.push([a, b])
  }
  return pairs
}

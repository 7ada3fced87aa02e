import { added, addedRatio, middle, ratio, VALUE, type FigureName, type Groups } from './figures.ts'
import { measureOf } from './measures.ts'
import { GATE, NPM_NAMES } from './peers.ts'
import type { Row } from './results.ts'
import { markdownTable, written } from './table.ts'

/** One thing that is asked for. Every one is judged by figures of the same run. */
type Bound =
  /** At least so many times a peer (or `direct`, or the best of npm). */
  | { readonly kind: 'ratio'; readonly measure: string; readonly times: number; readonly peer: string }
  /** Adds no more latency, at p50 and at p99, than a peer. */
  | { readonly kind: 'added'; readonly measure: string; readonly peer: string }
  /** A figure of the gate itself is at most so much. */
  | { readonly kind: 'most'; readonly measure: string; readonly figure: FigureName; readonly most: number; readonly unit: string }
  /** A cost that was measured without a peer. */
  | { readonly kind: 'cost'; readonly cost: string; readonly most?: number; readonly least?: number; readonly unit: string }

type Goal = { readonly title: string; readonly must: readonly Bound[]; readonly goal: readonly Bound[] }

export const BEST_NPM = 'best npm peer'
/** Names of costs, as `costs.ts` and `containers.ts` measure them. */
export const COSTS = {
  scrubbing: 'scrubbing an answer without a secret, MB/s',
  decision: 'a decision at 1,000 rules, µs',
  container: 'container start to ready, times a bare one',
} as const

const times = (measure: string, least: number, peer: string): Bound => ({ kind: 'ratio', measure, times: least, peer })
const most = (measure: string, figure: FigureName, value: number, unit: string): Bound => ({
  kind: 'most',
  measure,
  figure,
  most: value,
  unit,
})

export const GOALS: readonly Goal[] = [
  {
    title: 'HTTP forward, 64 connections',
    must: [times('fwd64', 1.2, 'goref'), times('fwd64', 1.5, 'squid')],
    goal: [times('fwd64', 1, 'trafficserver')],
  },
  {
    title: 'intercepted HTTPS with injection, 64 connections',
    must: [times('mitm64', 1.05, 'goref'), times('mitm64', 1.2, 'squid'), times('mitm64', 2.5, BEST_NPM)],
    goal: [times('mitm64', 2, 'squid')],
  },
  {
    title: 'the same, 1 connection: added p50 and p99',
    must: [{ kind: 'added', measure: 'mitm1', peer: 'squid' }],
    goal: [{ kind: 'added', measure: 'mitm1', peer: 'goref' }],
  },
  {
    title: 'new intercepted connections',
    must: [times('mitmnew', 1, 'squid'), times('mitmnew', 0.65, 'goref')],
    goal: [times('mitmnew', 1, 'goref')],
  },
  { title: 'CONNECT, GET, close', must: [times('contlsnew', 1, 'squid')], goal: [times('contlsnew', 1, 'goref')] },
  { title: 'SOCKS5, GET, close', must: [times('sockstlsnew', 2.3, 'dante')], goal: [times('sockstlsnew', 1, 'goref')] },
  { title: 'tunnel bulk, CONNECT', must: [times('contlsbulk', 0.95, 'goref')], goal: [times('contlsbulk', 0.9, 'direct')] },
  { title: 'tunnel bulk, SOCKS5', must: [times('sockstlsbulk', 0.95, 'goref')], goal: [times('sockstlsbulk', 0.9, 'direct')] },
  { title: 'intercepted bulk', must: [times('mitmbulk', 1.5, 'squid')], goal: [times('mitmbulk', 0.9, 'goref')] },
  { title: 'HTTP/2 intercepted', must: [times('mitmh2', 1, 'goref')], goal: [times('mitmh2', 1.5, 'goref')] },
  {
    title: 'answers of 64 KiB, forward',
    must: [times('fwd64k', 0.65, 'goref'), times('fwd64k', 2, 'squid')],
    goal: [times('fwd64k', 1, 'goref')],
  },
  {
    title: 'answers of 64 KiB, intercepted',
    must: [times('mitm64k', 0.75, 'goref'), times('mitm64k', 2, 'squid')],
    goal: [times('mitm64k', 1, 'goref')],
  },
  { title: 'idle memory', must: [most('idle', 'rss_mb', 85, 'MB')], goal: [most('idle', 'rss_mb', 60, 'MB')] },
  {
    title: 'an idle tunnel, CONNECT and SOCKS5',
    must: [most('contlshold', 'tunnel_kb', 22, 'KB'), most('sockstlshold', 'tunnel_kb', 22, 'KB')],
    goal: [most('contlshold', 'tunnel_kb', 15, 'KB'), most('sockstlshold', 'tunnel_kb', 15, 'KB')],
  },
  {
    title: 'an idle tunnel, intercepted',
    must: [most('mitmhold', 'tunnel_kb', 45, 'KB')],
    goal: [most('mitmhold', 'tunnel_kb', 30, 'KB')],
  },
  {
    title: 'peak memory while 1 GiB streams',
    must: [most('contlsbulk', 'peak_mb', 150, 'MB'), most('mitmbulk', 'peak_mb', 150, 'MB')],
    goal: [most('contlsbulk', 'peak_mb', 90, 'MB'), most('mitmbulk', 'peak_mb', 90, 'MB')],
  },
  { title: 'spawn to ready', must: [most('startup', 'ms', 350, 'ms')], goal: [most('startup', 'ms', 150, 'ms')] },
  { title: 'container start to ready', must: [{ kind: 'cost', cost: COSTS.container, most: 1.2, unit: '× a bare docker run' }], goal: [] },
  {
    title: 'scrubbing an answer without a secret',
    must: [{ kind: 'cost', cost: COSTS.scrubbing, least: 300, unit: 'MB/s' }],
    goal: [{ kind: 'cost', cost: COSTS.scrubbing, least: 1000, unit: 'MB/s' }],
  },
  {
    title: 'a decision at 1,000 rules',
    must: [{ kind: 'cost', cost: COSTS.decision, most: 5, unit: 'µs' }],
    goal: [{ kind: 'cost', cost: COSTS.decision, most: 1, unit: 'µs' }],
  },
]

/** `measured` is what the figures are; `isMet` is undefined where there are none. */
type Judged = { readonly asked: string; readonly measured: readonly string[]; readonly isMet: boolean | undefined }
export type Verdict = 'goal met' | 'must met' | 'missed' | 'not measured'
export type JudgedGoal = {
  readonly title: string
  readonly must: readonly Judged[]
  readonly goal: readonly Judged[]
  readonly verdict: Verdict
}

/** Judges every row of the goals by the ratio inside a run. One must that is missed makes the row missed. */
export function judge(groups: Groups, rows: readonly Row[], goals: readonly Goal[] = GOALS): JudgedGoal[] {
  const costs = new Map(rows.flatMap((row) => (row.type === 'cost' ? [[row.name, row.value] as const] : [])))
  return goals.map(({ title, must, goal }) => {
    const judged = { must: must.map((one) => judgeBound(one, groups, costs)), goal: goal.map((one) => judgeBound(one, groups, costs)) }
    return { title, ...judged, verdict: verdictOf(judged.must, judged.goal) }
  })
}

/** The goals as a Markdown table. */
export function goalsTable(judged: readonly JudgedGoal[]): string {
  const asked = (bounds: readonly Judged[]): string => bounds.map((one) => one.asked).join(', ') || '–'
  const rows = judged.map((one) => {
    const measured = [...one.must, ...one.goal].flatMap((bound) => bound.measured)
    return [one.title, asked(one.must), asked(one.goal), [...new Set(measured)].join(', ') || '–', `**${one.verdict}**`]
  })
  return markdownTable(['', 'must', 'goal', 'measured', 'verdict'], rows, true)
}

function verdictOf(must: readonly Judged[], goal: readonly Judged[]): Verdict {
  if (must.some((one) => one.isMet === false)) return 'missed'
  if (must.some((one) => one.isMet === undefined)) return 'not measured'
  return goal.length > 0 && goal.every((one) => one.isMet === true) ? 'goal met' : 'must met'
}

function judgeBound(bound: Bound, groups: Groups, costs: ReadonlyMap<string, number>): Judged {
  switch (bound.kind) {
    case 'ratio':
      return judgeRatio(bound, groups)
    case 'added':
      return judgeAdded(bound, groups)
    case 'most': {
      const value = middle(groups.get(bound.measure)?.get(GATE), bound.figure)
      return {
        asked: `≤ ${bound.most} ${bound.unit}`,
        measured: value === undefined ? [] : [`${written(value, value < 100 ? 1 : 0)} ${bound.unit} (\`${bound.measure}\`)`],
        isMet: value === undefined ? undefined : value <= bound.most,
      }
    }
    case 'cost': {
      const value = costs.get(bound.cost)
      const [sign, limit] = bound.most === undefined ? ['≥', bound.least ?? 0] : ['≤', bound.most]
      return {
        asked: `${sign} ${written(limit, limit % 1 === 0 ? 0 : 1)} ${bound.unit}`,
        measured: value === undefined ? [] : [`${written(value, value < 10 ? 2 : 0)} ${bound.unit}`],
        isMet: value === undefined ? undefined : sign === '≥' ? value >= limit : value <= limit,
      }
    }
  }
}

function judgeRatio(bound: Extract<Bound, { kind: 'ratio' }>, groups: Groups): Judged {
  const peers = groups.get(bound.measure)
  const figure = VALUE[measureOf(bound.measure).kind]
  const candidates = bound.peer === BEST_NPM ? NPM_NAMES : [bound.peer]
  const ratios = candidates.map((peer) => ratio(peers?.get(GATE), peers?.get(peer), figure)).filter((value) => value !== undefined)
  // The best of them is the one that the gate is ahead of by least.
  const value = ratios.length === 0 ? undefined : Math.min(...ratios)
  return {
    asked: `≥ ${bound.times} × ${bound.peer}`,
    measured: value === undefined ? [] : [`${written(value, 2)} × ${bound.peer}`],
    isMet: value === undefined ? undefined : value >= bound.times,
  }
}

function judgeAdded(bound: Extract<Bound, { kind: 'added' }>, groups: Groups): Judged {
  const peers = groups.get(bound.measure)
  const [ours, theirs, direct] = [peers?.get(GATE), peers?.get(bound.peer), peers?.get('direct')]
  const p50 = addedRatio(ours, theirs, direct, 'p50_us')
  const p99 = addedRatio(ours, theirs, direct, 'p99_us')
  const both = (runs: typeof ours): string => `${written(added(runs, direct, 'p50_us'))} / ${written(added(runs, direct, 'p99_us'))} µs`
  const isKnown = p50 !== undefined && p99 !== undefined
  return {
    asked: `≤ ${bound.peer}’s`,
    measured: isKnown ? [both(ours), `${bound.peer} ${both(theirs)}`] : [],
    isMet: isKnown ? p50 >= 1 && p99 >= 1 : undefined,
  }
}

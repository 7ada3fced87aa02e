import { VALUE, added, grouped, middle, ratio, type FigureName, type Groups, type PeerRuns } from './figures.ts'
import { measureOf, type Kind } from './measures.ts'
import { GATE } from './peers.ts'
import type { Machine, Row, Run } from './results.ts'

type Column = readonly [heading: string, write: (runs: PeerRuns, direct: PeerRuns | undefined) => string]

/** A Markdown table; the first column is text, the others are figures, or with `isText` text as well. */
export function markdownTable(headings: readonly string[], rows: readonly (readonly string[])[], isText = false): string {
  const line = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(headings), `|---|${(isText ? '---|' : '---:|').repeat(headings.length - 1)}`, ...rows.map(line)].join('\n')
}

/** `12,345.6`; nothing for what was not measured. */
export function written(value: number | undefined, digits = 0): string {
  return value === undefined ? '' : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

const LATENCY: readonly Column[] = [
  ['requests/s', figure('rps')],
  ['added p50 µs', (runs, direct) => (runs === direct ? '' : written(added(runs, direct, 'p50_us')))],
  ['added p99 µs', (runs, direct) => (runs === direct ? '' : written(added(runs, direct, 'p99_us')))],
  ['CPU µs/request', figure('cpu_us', 1)],
  ['RSS MB', figure('rss_mb')],
]

const COLUMNS: Readonly<Record<Kind, readonly Column[]>> = {
  rate: LATENCY,
  h2: LATENCY,
  paced: [
    ['p50 µs', figure('p50_us')],
    ['p99 µs', figure('p99_us')],
    ['p99.9 µs', figure('p999_us')],
    ['CPU µs/request', figure('cpu_us', 1)],
  ],
  bulk: [
    ['MB/s', figure('MBps')],
    ['CPU s/GiB', figure('cpu_s_per_gib', 2)],
    ['peak RSS MB', figure('peak_mb')],
  ],
  hold: [
    ['KB a tunnel', figure('tunnel_kb', 1)],
    ['RSS before MB', figure('idle_mb')],
    ['RSS with 1000 MB', figure('rss_mb')],
  ],
  startup: [['ms', figure('ms')]],
  idle: [['RSS MB', figure('rss_mb')]],
}

function figure(name: FigureName, digits = 0): Column[1] {
  return (runs) => {
    const value = middle(runs, name)
    return value === 0 ? '' : written(value, digits)
  }
}

/** Every measure in full: who did what, how the gate compares with each, and what failed. */
export function detailTables(rows: readonly Row[]): string {
  const tables = [...grouped(rows)].map(([name, peers]) => detailTable(name, peers))
  const skipped = rows.flatMap((row) => (row.type === 'skip' ? [`- ${row.peer} for ${row.measure}: ${row.why}`] : []))
  return [...tables, ...(skipped.length === 0 ? [] : ['### Not measured', [...new Set(skipped)].join('\n')])].join('\n\n')
}

function detailTable(name: string, peers: ReadonlyMap<string, PeerRuns>): string {
  const measure = measureOf(name)
  const columns = COLUMNS[measure.kind]
  const value = VALUE[measure.kind]
  const direct = peers.get('direct')
  const ours = peers.get(GATE)
  const headings = ['', ...columns.map(([heading]) => heading), ...(direct ? ['of direct'] : []), `${GATE} ÷ it`, 'runs', 'errors']
  const rows = [...peers].map(([peer, runs]) => [
    peer === GATE ? `**${peer}**` : peer,
    ...columns.map(([, write]) => write(runs, direct)),
    ...(direct ? [peer === 'direct' ? '' : written(ratio(runs, direct, value), 2)] : []),
    peer === GATE ? '' : written(ratio(ours, runs, value), 2),
    String(runs.size),
    String([...runs.values()].reduce((sum, run) => sum + run.err, 0)),
  ])
  return `### \`${name}\`: ${measure.about}\n\n${markdownTable(headings, rows)}`
}

/** Measure by measure and peer by peer in one table, with what stands in brackets explained by the measure's kind. */
export function overviewTable(groups: Groups): string {
  const peers = [...new Set([...groups.values()].flatMap((one) => [...one.keys()]))].toSorted((a, b) => rank(a) - rank(b))
  const rows = [...groups].map(([name, runs]) => [`\`${name}\` ${unitOf(name)}`, ...peers.map((peer) => overviewCell(name, peer, runs))])
  return markdownTable(['', ...peers.map((peer) => (peer === GATE ? `**${peer}**` : peer))], rows)
}

/** The gate, then the ceiling, then peers as they came. */
function rank(peer: string): number {
  return peer === GATE ? 0 : peer === 'direct' ? 1 : 2
}

const UNITS: Readonly<Record<Kind, string>> = {
  rate: '/s (CPU µs)',
  h2: '/s (CPU µs)',
  paced: 'p50 / p99 µs',
  bulk: 'MB/s (CPU s/GiB)',
  hold: 'KB a tunnel',
  startup: 'ms',
  idle: 'MB',
}

function unitOf(measure: string): string {
  return measure.endsWith('1') ? 'added p50 / p99 µs' : UNITS[measureOf(measure).kind]
}

function overviewCell(measure: string, peer: string, peers: ReadonlyMap<string, PeerRuns>): string {
  const runs = peers.get(peer)
  if (runs === undefined) return ''
  const { kind } = measureOf(measure)
  const direct = peers.get('direct')
  const value = written(middle(runs, VALUE[kind]), kind === 'hold' ? 1 : 0)
  const cost = (name: FigureName, digits: number): string => (peer === 'direct' ? '' : ` (${written(middle(runs, name), digits)})`)
  if (measure.endsWith('1')) {
    const of = (name: FigureName): string => written(peer === 'direct' ? middle(runs, name) : added(runs, direct, name))
    return `${peer === 'direct' ? 'itself ' : ''}${of('p50_us')} / ${of('p99_us')}`
  }
  if (kind === 'paced') return `${written(middle(runs, 'p50_us'))} / ${value}`
  if (kind === 'bulk') return value + cost('cpu_s_per_gib', 2)
  return kind === 'rate' || kind === 'h2' ? value + cost('cpu_us', 0) : value
}

/** Machine, versions and date in one sentence each. */
export function machineText(machine: Machine): string {
  const { versions } = machine
  const { sallyport, node, openssl, ...others } = versions
  const named = Object.entries(others).map(([name, version]) => `${name} ${version}`)
  return [
    `Measured ${machine.date} on ${machine.cpus} × ${machine.cpu}, Linux ${machine.kernel}; load average ${machine.loadAverage.toFixed(1)} at the start.`,
    `Sallyport ${sallyport} on Node ${node} (OpenSSL ${openssl}); ${named.join(', ')}.`,
  ].join('\n')
}

/** One run as a line for the terminal. */
export function oneLine(run: Run): string {
  const figures: readonly (readonly [number | undefined, string, number])[] =
    run.kind === 'bulk'
      ? [
          [run.MBps, 'MB/s', 0],
          [run.cpu_s_per_gib, 's CPU/GiB', 2],
          [run.peak_mb, 'MB peak', 0],
        ]
      : [
          [run.rps, '/s', 0],
          [run.ms, 'ms', 1],
          [run.tunnel_kb, 'KB a tunnel', 1],
          [run.p50_us, 'µs p50', 0],
          [run.p99_us, 'µs p99', 0],
          [run.cpu_us, 'µs CPU', 1],
          [run.rss_mb, 'MB', 0],
        ]
  const said = figures.flatMap(([value, unit, digits]) => (value === undefined || value === 0 ? [] : [`${written(value, digits)} ${unit}`]))
  const faults = run.err > 0 ? [`${run.err} errors: ${run.errors ?? ''}`] : []
  return [run.measure.padEnd(13), run.peer.padEnd(16), ...said, ...faults].join('  ')
}

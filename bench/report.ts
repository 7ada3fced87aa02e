import { VALUE, grouped, middle, type FigureName, type Groups } from './figures.ts'
import { barChart, type BarGroup } from './chart.ts'
import { pictureLink } from './document.ts'
import { goalsTable, judge } from './goals.ts'
import { measureOf } from './measures.ts'
import { GATE } from './peers.ts'
import type { Row } from './results.ts'
import { machineText, markdownTable, overviewTable, written } from './table.ts'

/** What stands in the document after a full run, with its pictures by name. */
export function figuresReport(rows: readonly Row[]): { body: string; pictures: Record<string, string> } {
  const groups = grouped(rows)
  const machine = rows.find((row) => row.type === 'machine')
  const judged = judge(groups, rows)
  const runs = Math.max(0, ...rows.map((row) => (row.type === 'run' ? row.run + 1 : 0)))
  const count = (verdict: string): number => judged.filter((one) => one.verdict === verdict).length
  const skipped = rows.flatMap((row) => (row.type === 'skip' ? [`${row.peer} for \`${row.measure}\` (${row.why})`] : []))
  const errors = rows.flatMap((row) =>
    row.type === 'run' && row.err > 0 ? [`${row.peer} at \`${row.measure}\`: ${row.err} (${row.errors ?? ''})`] : [],
  )
  const costs = [
    ...new Map(rows.flatMap((row) => (row.type === 'cost' ? [[row.name, written(row.value, row.value < 10 ? 2 : 0)] as const] : []))),
  ]
  const body = [
    ...(machine === undefined ? [] : [machineText(machine)]),
    `The proxy has one core, client and upstream share another; everything on loopback. The gate runs from \`dist/\` with the flags of the image, 200 rules, 50 credentials and its audit on disk. Medians of ${runs} runs; \`a × peer\` is the median of the ratios within each run.`,
    `Of ${judged.length} goals ${count('goal met')} are met, of ${count('must met')} the must is, ${count('missed')} are missed, ${count('not measured')} were not measured.`,
    goalsTable(judged),
    pictureLink('requests', 'requests a second, gate and peers'),
    pictureLink('connections', 'new connections a second, gate and peers'),
    pictureLink('bulk', 'megabytes a second, gate and peers'),
    pictureLink('memory', 'memory of an idle tunnel and of an idle process, gate and peers'),
    overviewTable(groups),
    ...(costs.length === 0 ? [] : [markdownTable(['', 'value'], costs)]),
    ...(skipped.length === 0 ? [] : [`Not measured: ${[...new Set(skipped)].join('; ')}.`]),
    ...(errors.length === 0 ? [] : [`Errors: ${[...new Set(errors)].join('; ')}.`]),
  ].join('\n\n')
  return { body, pictures: pictures(groups) }
}

function pictures(groups: Groups): Record<string, string> {
  const of = (measures: readonly string[]): BarGroup[] => measures.map((measure) => barsOf(groups, measure))
  const whole = (value: number): string => written(value)
  return {
    requests: barChart('Requests a second', of(['fwd64', 'fwd64k', 'mitm64', 'mitm64k', 'mitmh2']), whole),
    connections: barChart('New connections a second', of(['contlsnew', 'sockstlsnew', 'mitmnew', 'mitmnewr']), whole),
    bulk: barChart('1 GiB in one answer, MB/s', of(['contlsbulk', 'sockstlsbulk', 'mitmbulk']), whole),
    memory: barChart(
      'Memory: KB of an idle tunnel, MB of an idle process (less is better)',
      of(['contlshold', 'sockstlshold', 'mitmhold', 'idle']),
      (value) => written(value, value < 100 ? 1 : 0),
    ),
  }
}

function barsOf(groups: Groups, measure: string): BarGroup {
  const { kind, about } = measureOf(measure)
  const figure: FigureName = VALUE[kind]
  const bars = [...(groups.get(measure) ?? [])].flatMap(([peer, runs]) => {
    const value = middle(runs, figure)
    return value === undefined ? [] : [{ label: peer, value, isOurs: peer === GATE }]
  })
  return {
    label: `${measure}: ${about}`,
    bars: bars.toSorted((a, b) => (kind === 'hold' || kind === 'idle' ? a.value - b.value : b.value - a.value)),
  }
}

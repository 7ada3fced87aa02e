import { statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { lineChart, type Point } from './chart.ts'
import { pictureLink, writeSection } from './document.ts'
import { gatePlan } from './gate.ts'
import { loadArguments, runPload } from './load.ts'
import { measureOf } from './measures.ts'
import type { Options } from './options.ts'
import { inWork } from './places.ts'
import { rssMbOf } from './proc.ts'
import { startProxy } from './proxy.ts'
import type { Results } from './results.ts'
import { machineText, markdownTable, written } from './table.ts'

/** So many requests in all: their audit stays within what one audit file may hold. */
const REQUESTS_MAX = 3_000_000
const REQUESTS_PER_SECOND_MAX = 1_000
/** Kept connections, HTTP and intercepted TLS. New tunnels come one after another beside them. */
const CONNECTIONS = 32
const SAMPLES = 360

/** Steady load for so long, and what becomes of the memory: the slope over the second half. */
export async function soak(options: Options, results: Results): Promise<number> {
  const { soakSeconds: seconds, clientCpu, proxyCpu } = options
  await using parts = new AsyncDisposableStack()
  const proxy = parts.use(
    await startProxy(gatePlan({ label: 'soaked', ...(options.gate !== undefined && { clone: options.gate }) }), proxyCpu),
  )
  const perSecond = Math.min(REQUESTS_PER_SECOND_MAX, REQUESTS_MAX / seconds)
  const paced = (name: string, ability: 'forward' | 'intercept'): string[] => {
    const way = measureOf(name).load.slice(0, -4)
    return loadArguments([...way, '-m', 'keep', '-c', String(CONNECTIONS), '-R', (perSecond / 2).toFixed(1)], proxy.abilities[ability])
  }
  const time = { seconds, warm: 0 }
  const load = Promise.all([
    runPload(paced('fwd64', 'forward'), time, clientCpu, undefined),
    runPload(paced('mitm64', 'intercept'), time, clientCpu, undefined),
  ])
  const points: Point[] = []
  const began = performance.now()
  const every = Math.max(0.5, seconds / SAMPLES)
  const elapsed = (): number => (performance.now() - began) / 1000
  while (elapsed() < seconds - every && !proxy.hasEnded) {
    await sleep(every * 1000)
    const point = { x: elapsed() / 60, y: rssMbOf(proxy.pid) }
    points.push(point)
    results.add({ type: 'growth', of: 'time', at: elapsed(), figures: { rss_mb: point.y } })
    if (points.length % 20 === 0) process.stderr.write(`  ${written(elapsed())} s  ${written(point.y, 1)} MB\n`)
  }
  const loads = await load
  const settled = points.slice(Math.floor(points.length / 2))
  const machine = results.rows.find((row) => row.type === 'machine')
  const body = [
    ...(machine === undefined ? [] : [machineText(machine)]),
    markdownTable(
      ['', 'value'],
      [
        ['seconds', written(seconds)],
        ['requests', written(loads.reduce((sum, one) => sum + one.ok, 0))],
        ['errors', written(loads.reduce((sum, one) => sum + one.err, 0))],
        ['RSS in the middle, MB', written(settled[0]?.y, 1)],
        ['RSS at the end, MB', written(points.at(-1)?.y, 1)],
        ['most, MB', written(Math.max(0, ...points.map((point) => point.y)), 1)],
        ['slope over the second half, MB an hour', written(slope(settled) * 60, 2)],
        ['audit written, MB', written(statSync(inWork('run', 'soaked', 'audit.jsonl')).size / 1e6)],
      ],
    ),
    pictureLink('soak', 'resident memory over time at steady load'),
  ].join('\n\n')
  process.stdout.write(`${body}\n`)
  if (options.isWriting)
    writeSection('soak', body, { soak: lineChart('Resident memory at steady load', points, { x: 'minutes', y: 'MB' }) })
  return proxy.hasEnded || loads.some((one) => one.err > 0) ? 1 : 0
}

/** The straight line of least squares through points: how much y grows with each x. 0 for fewer than two. */
export function slope(points: readonly Point[]): number {
  const count = points.length
  const mean = (of: (point: Point) => number): number => points.reduce((sum, point) => sum + of(point), 0) / Math.max(1, count)
  const [x, y] = [mean((point) => point.x), mean((point) => point.y)]
  const across = points.reduce((sum, point) => sum + (point.x - x) ** 2, 0)
  return across === 0 ? 0 : points.reduce((sum, point) => sum + (point.x - x) * (point.y - y), 0) / across
}

import { bundle } from '../scripts/build.ts'
import { main, step } from '../scripts/steps.ts'
import { Bench, startUpstream, type BenchOptions } from './bench.ts'
import { measureContainers } from './containers.ts'
import { measureCosts } from './costs.ts'
import { writeSection } from './document.ts'
import { grouped } from './figures.ts'
import { goalsTable, judge } from './goals.ts'
import { describeMachine } from './machine.ts'
import { MAIN, MEASURES } from './measures.ts'
import { USAGE, parseOptions, type Options } from './options.ts'
import { GATE, MAIN_PEERS, PEERS, plansFor } from './peers.ts'
import { WORK, inWork } from './places.ts'
import { figuresReport } from './report.ts'
import { killProxies } from './proxy.ts'
import { openResults, readResults, type Results, type Row } from './results.ts'
import { setUp } from './set-up.ts'
import { detailTables, machineText } from './table.ts'

await main(async () => {
  const options = parseOptions(process.argv.slice(2))
  if (options.story === 'help') return say(USAGE)
  if (options.story === 'list') return say(list())
  if (options.from.length > 0) return report(options, readResults(options.from))
  if (options.story !== 'sessions') process.once('SIGINT', stop).once('SIGTERM', stop)
  const peers = options.story === 'compare' ? options.peers : []
  // Sessions need no load and no upstream.
  const skipped: ReadonlyMap<string, string> = options.story === 'sessions' ? new Map() : await setUp(peers)
  if (options.isBuilding) await step('building the gate', bundle)
  const results = openResults(inWork('results', `${new Date().toISOString().replaceAll(/[:.]/g, '-')}.jsonl`))
  const machine = await describeMachine(peers)
  results.add(machine)
  process.stderr.write(`${machineText(machine)}\n`)
  for (const [peer, why] of skipped) if (peer !== 'h2load') results.add({ type: 'skip', measure: 'all', peer, why })
  try {
    return await tell(
      options,
      results,
      [...options.peers].filter((peer) => !skipped.has(peer)),
    )
  } finally {
    process.stderr.write(`results: ${results.file}\nwork folder: ${WORK}\n`)
  }
})

async function tell(options: Options, results: Results, peers: readonly string[]): Promise<number> {
  if (options.story === 'sessions') return await (await import('./sessions.ts')).sessions(options, results)
  await using parts = new AsyncDisposableStack()
  parts.use(await startUpstream(options.clientCpu))
  // Every story is awaited here: what is returned unawaited would run on without the upstream.
  switch (options.story) {
    case 'profile':
      return await (await import('./profile.ts')).profile(options, results)
    case 'scale':
      return await (await import('./scale.ts')).scale(options, results)
    case 'soak':
      return await (await import('./soak.ts')).soak(options, results)
    default:
      return await compare(options, results, peers)
  }
}

async function compare(options: Options, results: Results, peers: readonly string[]): Promise<number> {
  const { gate, against, runs, seconds, warm, proxyCpu, clientCpu } = options
  const plans = plansFor(peers, { ...(gate !== undefined && { gate }), ...(against !== undefined && { against }) })
  const bench: BenchOptions = { runs, time: { seconds, warm }, prewarm: Math.min(1, seconds), proxyCpu, clientCpu }
  {
    await using running = new Bench(plans, bench, results)
    for (const measure of options.measures) await running.run(measure)
  }
  for (const cost of await measureCosts(proxyCpu)) results.add(cost)
  if (options.isFull) for (const cost of await step('starting containers', measureContainers)) results.add(cost)
  return report(options, results.rows)
}

function report(options: Options, rows: readonly Row[]): number {
  say(
    `${detailTables(rows)}\n\n${goalsTable(judge(grouped(rows), rows).filter((goal) => options.isWriting || goal.verdict !== 'not measured'))}`,
  )
  if (options.isWriting) {
    const { body, pictures } = figuresReport(rows)
    writeSection('figures', body, pictures)
    process.stderr.write('docs/PERFORMANCE.md is written\n')
  }
  return rows.some((row) => row.type === 'run' && row.peer === GATE && row.ok > 0) ? 0 : 1
}

function stop(): void {
  killProxies()
  process.exit(130)
}

function list(): string {
  const measures = [...MEASURES.values()].map(
    ({ name, about }) => `  ${name.padEnd(14)}${MAIN.some((one) => one.name === name) ? '* ' : '  '}${about}`,
  )
  const peers = Object.keys(PEERS).map((name) => `  ${name.padEnd(16)}${MAIN_PEERS.includes(name) ? '*' : ''}`)
  return `measures (* in a full run)\n${measures.join('\n')}\npeers (* in a full run)\n${peers.join('\n')}\n`
}

function say(text: string): number {
  process.stdout.write(`${text}\n`)
  return 0
}

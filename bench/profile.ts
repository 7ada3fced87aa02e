import { readFileSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { ROOT, SetupError } from '../scripts/steps.ts'
import { pictureLink, writeSection } from './document.ts'
import { flameGraph, frameTree, hottest, type CpuProfile, type Span } from './flame-graph.ts'
import { gatePlan } from './gate.ts'
import { loadArguments, runH2load, runPload } from './load.ts'
import type { Measure } from './measures.ts'
import type { Options } from './options.ts'
import { inWork } from './places.ts'
import { startProxy, type RunningProxy } from './proxy.ts'
import type { Figures, Results } from './results.ts'
import { machineText, markdownTable, written } from './table.ts'

const HOT = 10
/** Long enough that what is compiled while it warms up does not stand out. */
const SECONDS = 5

/** Profiles the gate from its sources, so that functions have their names, under each measure; the last one goes into the document. */
export async function profile(options: Options, results: Results): Promise<number> {
  for (const measure of options.measures) {
    const { body, picture, file } = await profileOne(measure, options, results)
    process.stdout.write(`${body}\n\nprofile: ${file} (the developer tools of Chromium open it)\n`)
    if (options.isWriting) writeSection('profile', body, { flame: picture })
  }
  return 0
}

async function profileOne(measure: Measure, options: Options, results: Results): Promise<{ body: string; picture: string; file: string }> {
  const { needs } = measure
  if (needs === undefined || measure.kind === 'hold') throw new SetupError(`nothing runs long enough under ${measure.name} to be profiled`)
  const folder = inWork('results', `profile-${measure.name}`)
  rmSync(folder, { recursive: true, force: true })
  const flags = ['--cpu-prof', `--cpu-prof-dir=${folder}`, '--cpu-prof-interval=500']
  const plan = gatePlan({ label: 'profiled', isFromSource: true, flags, ...(options.gate !== undefined && { clone: options.gate }) })
  const { figures, span } = await underLoad(await startProxy(plan, options.proxyCpu), measure, options)
  const name = readdirSync(folder)[0]
  if (name === undefined) throw new SetupError('the gate left no profile: it did not end by itself')
  const file = path.join(folder, name)
  const top = frameTree(JSON.parse(readFileSync(file, 'utf8')) as CpuProfile, options.gate ?? ROOT, span)
  const hot = hottest(top, HOT)
  const share = (value: number): string => `${(value * 100).toFixed(1)} %`
  const machine = results.rows.find((row) => row.type === 'machine')
  const did = figures.rps === undefined ? '' : `, ${written(figures.rps)} requests a second while it was watched`
  const body = [
    ...(machine === undefined ? [] : [machineText(machine)]),
    `Under \`${measure.name}\` (${measure.about})${did}. Time of the main thread; waiting is left out.`,
    markdownTable(
      ['', 'itself', 'with all that it calls', 'where'],
      hot.map((one) => [`\`${one.name}\``, share(one.selfShare), share(one.totalShare), one.place || 'V8 and Node, native']),
    ),
    pictureLink('flame', `flame graph of the gate under ${measure.name}`),
  ].join('\n\n')
  return { body, picture: flameGraph(`The gate under ${measure.name}: callers above, width is time`, top), file }
}

/** Loads a gate and ends it, by which it writes its profile. `span` is when it was warm and under load. */
async function underLoad(
  proxy: RunningProxy,
  measure: Measure,
  { warm, seconds, clientCpu }: Options,
): Promise<{ figures: Figures; span: Span }> {
  await using parts = new AsyncDisposableStack()
  parts.use(proxy)
  const time = measure.kind === 'bulk' ? { seconds: 60, warm: 0 } : { warm: Math.max(1, warm), seconds: Math.max(seconds, SECONDS) }
  const fromUs = nowUs() + time.warm * 1e6
  const load = loadArguments(measure.load, measure.needs && proxy.abilities[measure.needs])
  const figures =
    measure.kind === 'h2' ? await runH2load(measure, proxy, time, clientCpu) : await runPload(load, time, clientCpu, proxy.pid)
  return { figures, span: { fromUs, toUs: nowUs() } }
}

function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

import { setTimeout as sleep } from 'node:timers/promises'
import { SetupError, capture } from '../scripts/steps.ts'
import { holdTunnels, loadArguments, runH2load, runPload, type LoadTime } from './load.ts'
import type { Measure } from './measures.ts'
import { GATE, NPM_NAMES } from './peers.ts'
import { inWork, port } from './places.ts'
import { resetPeak, rssMbOf } from './proc.ts'
import { Unavailable, canDo, isOpen, pinned, startProxy, type ProxyPlan, type RunningProxy } from './proxy.ts'
import type { Figures, Results } from './results.ts'
import { oneLine } from './table.ts'
import { checkWorks } from './works.ts'

/** What a process that has just started still does is over by then. */
const SETTLE_MS = 300
const IDLE_MS = 3_000
const HOLD_S = 3
/** V8 compiles what it runs while it runs it, on the same processor. A proxy serves for hours: what counts is what comes after. */
const WARM_S = 4
/** A gibibyte takes no longer, or it is not a figure. */
const BULK_S = 60

export type BenchOptions = {
  readonly runs: number
  readonly time: LoadTime
  /** Seconds of load before the first run of a measure; programs of Node get more. */
  readonly prewarm: number
  readonly proxyCpu: string
  readonly clientCpu: string
}

/** Who is measured: name → the processes that it consists of. */
export type Contestants = ReadonlyMap<string, readonly ProxyPlan[]>

/** nginx, on the client's processor. @throws SetupError */
export async function startUpstream(cpu: string): Promise<AsyncDisposable> {
  const command = ['nginx', '-c', inWork('conf', 'nginx.conf'), '-e', inWork('log', 'nginx.log')] as const
  try {
    return await startProxy({ label: 'nginx', command, abilities: { forward: port(0), intercept: port(1) } }, cpu)
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error
    const isTaken = await isOpen(port(0))
    throw new SetupError(`the upstream (nginx): ${error.message}`, isTaken ? ['another run is under way, or set BENCH_PORTS'] : [])
  }
}

function isOfNode(name: string): boolean {
  return name === GATE || NPM_NAMES.includes(name)
}

/** Who answers nothing has no latency, instead of one of 0 that nobody beats: it has an error. */
export function answered(figures: Figures): Figures {
  const { ok, err, errors } = figures
  return ok > 0 ? figures : { ok, err: Math.max(1, err), errors: errors || 'nothing was answered' }
}

/** Nobody is always the one behind the same other. */
export function rotated<T>(items: readonly T[], by: number): T[] {
  const first = items.length === 0 ? 0 : by % items.length
  return [...items.slice(first), ...items.slice(0, first)]
}

/** Runs measures one after another, all contestants in turn in every run, so that they share the machine's mood. */
export class Bench implements AsyncDisposable {
  readonly #contestants: Contestants
  readonly #options: BenchOptions
  readonly #results: Results
  readonly #running = new Map<string, RunningProxy>()
  readonly #checked = new Set<string>()

  constructor(contestants: Contestants, options: BenchOptions, results: Results) {
    this.#contestants = contestants
    this.#options = options
    this.#results = results
  }

  async run(measure: Measure): Promise<void> {
    const ready = new Map<string, ProxyPlan | RunningProxy>()
    for (const [name, plans] of this.#contestants) {
      const one = await this.#ready(name, plans, measure)
      if (one !== undefined) ready.set(name, one)
    }
    // A fresh process has one figure for its memory, and a second run would be of a used one.
    const runs = measure.kind === 'hold' ? 1 : this.#options.runs
    for (let run = 0; run < runs; run++) {
      const direct = await this.#direct(measure)
      if (direct !== undefined) this.#note(measure, 'direct', run, direct)
      for (const [name, contestant] of rotated([...ready], run)) {
        const figures = await this.#one(measure, name, contestant, run)
        if (figures !== undefined) this.#note(measure, name, run, figures)
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const proxy of this.#running.values()) await proxy[Symbol.asyncDispose]()
    this.#running.clear()
  }

  /** What is to be measured: a process that runs and does what is asked of it, or the plan where starting it is the measure. */
  async #ready(name: string, plans: readonly ProxyPlan[], measure: Measure): Promise<ProxyPlan | RunningProxy | undefined> {
    const { needs } = measure
    const plan = needs === undefined ? plans[0] : plans.find((one) => canDo(one, needs))
    if (plan === undefined || needs === undefined) return plan
    try {
      const proxy = await this.#started(plan, measure.kind === 'hold' || measure.kind === 'bulk')
      for (const isH2 of measure.kind === 'h2' ? [false, true] : [false]) {
        const key = `${plan.label} ${needs} ${isH2}`
        if (!this.#checked.has(key)) await checkWorks(proxy, needs, isH2)
        this.#checked.add(key)
      }
      return proxy
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      this.#skip(measure, name, error.message)
      return undefined
    }
  }

  async #started(plan: ProxyPlan, isFresh: boolean): Promise<RunningProxy> {
    const present = this.#running.get(plan.label)
    if (present !== undefined && !present.hasEnded && !isFresh) return present
    await present?.[Symbol.asyncDispose]()
    this.#running.delete(plan.label)
    const proxy = await startProxy(plan, this.#options.proxyCpu)
    this.#running.set(plan.label, proxy)
    await sleep(SETTLE_MS)
    return proxy
  }

  async #direct(measure: Measure): Promise<Figures | undefined> {
    const { time, clientCpu, proxyCpu } = this.#options
    switch (measure.kind) {
      case 'hold':
      case 'idle':
        return undefined
      case 'startup': {
        const [command, ...args] = pinned(proxyCpu, [process.execPath, '-e', '0'])
        const began = performance.now()
        await capture(command, args)
        return { ok: 1, err: 0, ms: performance.now() - began }
      }
      case 'h2':
        return runH2load(measure, undefined, time, clientCpu)
      case 'bulk':
        return runPload(loadArguments(measure.load, undefined), { seconds: BULK_S, warm: 0 }, clientCpu, undefined)
      case 'rate':
      case 'paced':
        return runPload(loadArguments(measure.load, undefined), time, clientCpu, undefined)
    }
  }

  async #one(measure: Measure, name: string, contestant: ProxyPlan | RunningProxy, run: number): Promise<Figures | undefined> {
    if (!('plan' in contestant)) return this.#start(measure, name, contestant, run)
    if (contestant.hasEnded) {
      this.#skip(measure, name, 'it ended under load')
      return undefined
    }
    const { time, clientCpu } = this.#options
    const prewarm = isOfNode(name) ? WARM_S : this.#options.prewarm
    if (measure.kind === 'hold') return this.#hold(measure, contestant)
    if (measure.kind === 'h2') {
      if (run === 0) await runH2load(measure, contestant, { seconds: prewarm, warm: 0 }, clientCpu)
      return runH2load(measure, contestant, time, clientCpu)
    }
    const args = loadArguments(measure.load, measure.needs && contestant.abilities[measure.needs])
    if (measure.kind === 'bulk') {
      resetPeak(contestant.pid)
      const { cpu_us: cpuUs = 0, ...rest } = await runPload(args, { seconds: BULK_S, warm: 0 }, clientCpu, contestant.pid)
      return { ...rest, cpu_s_per_gib: cpuUs / 1e6 }
    }
    if (run === 0) await runPload(args, { seconds: prewarm, warm: 0 }, clientCpu, contestant.pid)
    return runPload(args, time, clientCpu, contestant.pid)
  }

  /** Memory before and with idle tunnels, of a fresh process that has answered one request. */
  async #hold(measure: Measure, proxy: RunningProxy): Promise<Figures> {
    const idleMb = rssMbOf(proxy.pid)
    let heldMb = idleMb
    const args = loadArguments(measure.load, measure.needs && proxy.abilities[measure.needs])
    const report = await holdTunnels(args, HOLD_S, this.#options.clientCpu, () => (heldMb = rssMbOf(proxy.pid)))
    return {
      ok: report.held,
      err: report.err,
      errors: report.errors,
      idle_mb: idleMb,
      rss_mb: heldMb,
      tunnel_kb: ((heldMb - idleMb) * 1024) / Math.max(1, report.held),
    }
  }

  async #start(measure: Measure, name: string, plan: ProxyPlan, run: number): Promise<Figures | undefined> {
    await this.#running.get(plan.label)?.[Symbol.asyncDispose]()
    this.#running.delete(plan.label)
    try {
      // The very first start reads its files from the disk.
      if (run === 0) await (await startProxy(plan, this.#options.proxyCpu))[Symbol.asyncDispose]()
      await using proxy = await startProxy(plan, this.#options.proxyCpu)
      if (measure.kind === 'startup') return { ok: 1, err: 0, ms: proxy.readyMs }
      await sleep(IDLE_MS)
      return { ok: 1, err: 0, rss_mb: rssMbOf(proxy.pid) }
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      if (run === 0) this.#skip(measure, name, error.message)
      return undefined
    }
  }

  #note(measure: Measure, peer: string, run: number, figures: Figures): void {
    const row = { type: 'run', measure: measure.name, kind: measure.kind, peer, run, ...answered(figures) } as const
    this.#results.add(row)
    process.stderr.write(`  ${oneLine(row)}\n`)
  }

  #skip(measure: Measure, peer: string, why: string): void {
    this.#results.add({ type: 'skip', measure: measure.name, peer, why })
    process.stderr.write(`  ${measure.name}: without ${peer}: ${why}\n`)
  }
}

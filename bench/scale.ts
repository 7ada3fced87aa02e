import { setTimeout as sleep } from 'node:timers/promises'
import { barChart } from './chart.ts'
import { pictureLink, writeSection } from './document.ts'
import { gatePlan, type GateOptions } from './gate.ts'
import { USUAL_SIZE } from './gate-policy.ts'
import { loadArguments, runPload, type Loaded } from './load.ts'
import { measureOf, type Ability } from './measures.ts'
import type { Growing, Options } from './options.ts'
import { availableMb, pssMbOf, rssMbOf } from './proc.ts'
import { startProxy, type RunningProxy } from './proxy.ts'
import type { Growth, Results } from './results.ts'
import { machineText, markdownTable, written } from './table.ts'
import { checkWorks } from './works.ts'

const CONNECTIONS = [1, 64, 1_000, 5_000]
const RULES = [10, 1_000, 10_000]
const GATES = [1, 10, 50, 100]
/** Times what it can carry. */
const LOADS = [1, 2, 4]
/** A rate that one connection carries, so that only their number differs. */
const PACED_PER_SECOND = 2_000
/** Connections that a client out of control may open. */
const OVERLOAD_CONNECTIONS = 5_000
const IDLE_MS = 3_000
/** An overload that is not over by then was its end. */
const RECOVERY_MS = 60_000
/** What one more gate takes at most, so that a small machine is not filled. */
const GATE_MB = 120

const PARTS: Readonly<Record<Growing, (options: Options) => Promise<Part>>> = {
  connections: withConnections,
  rules: withRules,
  load: withLoad,
  gates: withGates,
}

type Part = { readonly title: string; readonly rows: readonly Growth[]; readonly note?: string }

/** What becomes of the gate as work grows: connections, rules, gates on one machine, and more load than it can carry. */
export async function scale(options: Options, results: Results): Promise<number> {
  const parts: Part[] = []
  for (const growing of options.growing) {
    const part = await PARTS[growing](options)
    for (const row of part.rows) results.add(row)
    process.stderr.write(`${part.title}\n${tableOf(part)}\n`)
    parts.push(part)
  }
  const machine = results.rows.find((row) => row.type === 'machine')
  const body = [
    ...(machine === undefined ? [] : [machineText(machine)]),
    ...parts.flatMap((part) => [`**${part.title}**`, tableOf(part), ...(part.note === undefined ? [] : [part.note])]),
    ...(options.growing.includes('load') ? [pictureLink('overload', 'requests a second under overload: offered, answered, refused')] : []),
  ].join('\n\n')
  process.stdout.write(`${body}\n`)
  if (options.isWriting) writeSection('scale', body, { overload: overloadPicture(parts) })
  return 0
}

function start(options: Options, more: Partial<GateOptions> = {}): Promise<RunningProxy> {
  const clone = options.gate === undefined ? {} : { clone: options.gate }
  return startProxy(gatePlan({ label: 'scaled', ...clone, ...more }), options.proxyCpu)
}

/** The way of a measure with another number of connections. */
function loadOf(name: string, ability: Ability, connections: number, proxy: RunningProxy, more: readonly string[] = []): string[] {
  const { load } = measureOf(name)
  const way = load.slice(0, load.indexOf('-m'))
  return loadArguments([...way, '-m', 'keep', '-c', String(connections), ...more], proxy.abilities[ability])
}

async function withConnections(options: Options): Promise<Part> {
  const rows: Growth[] = []
  const faults = new Set<string>()
  for (const connections of CONNECTIONS) {
    await using proxy = await start(options)
    const before = rssMbOf(proxy.pid)
    const time = { seconds: options.seconds * 2, warm: options.warm }
    const paced = ['-R', String(PACED_PER_SECOND)]
    const plain = await runPload(loadOf('fwd64', 'forward', connections, proxy, paced), time, options.clientCpu, proxy.pid)
    const secure = await runPload(loadOf('mitm64', 'intercept', connections, proxy, paced), time, options.clientCpu, proxy.pid)
    for (const { err, errors } of [plain, secure]) if (err > 0) faults.add(`${connections} connections: ${errors}`)
    rows.push({
      type: 'growth',
      of: 'connections',
      at: connections,
      figures: {
        'HTTP p50 µs': plain.p50_us,
        'HTTP p99 µs': plain.p99_us,
        'HTTP CPU µs': plain.cpu_us ?? 0,
        'HTTPS p50 µs': secure.p50_us,
        'HTTPS p99 µs': secure.p99_us,
        'HTTPS CPU µs': secure.cpu_us ?? 0,
        'RSS MB more': (secure.rss_mb ?? 0) - before,
        errors: plain.err + secure.err,
      },
    })
  }
  const note = faults.size === 0 ? {} : { note: `Errors at ${[...faults].join('; ')}.` }
  return { title: `Connections: ${PACED_PER_SECOND} requests a second over so many, plain and intercepted`, rows, ...note }
}

async function withRules(options: Options): Promise<Part> {
  const rows: Growth[] = []
  for (const rules of RULES) {
    await using proxy = await start(options, { size: { rules, credentials: Math.min(rules, USUAL_SIZE.credentials) } })
    await sleep(IDLE_MS)
    const idle = rssMbOf(proxy.pid)
    const time = { seconds: options.seconds, warm: options.warm }
    const load = await runPload(loadOf('fwd64', 'forward', 64, proxy), time, options.clientCpu, proxy.pid)
    const figures = {
      'ready after ms': proxy.readyMs,
      'idle RSS MB': idle,
      'requests/s': load.rps,
      'CPU µs': load.cpu_us ?? 0,
      errors: load.err,
    }
    rows.push({ type: 'growth', of: 'rules', at: rules, figures })
  }
  return { title: 'Rules of the policy: `fwd64` with so many', rows }
}

/** Gates beside each other, idle: what they share (the code of Node) counts once in all. */
async function withGates(options: Options): Promise<Part> {
  const rows: Growth[] = []
  await using parts = new AsyncDisposableStack()
  const running: RunningProxy[] = []
  let note: string | undefined
  for (const count of GATES) {
    if (availableMb() < (count - running.length) * GATE_MB) {
      note = `${count} gates are more than the ${written(availableMb())} MB that are free here.`
      break
    }
    while (running.length < count)
      running.push(parts.use(await start({ ...options, proxyCpu: 'none' }, { label: `gate-${running.length}` })))
    await sleep(IDLE_MS)
    const pids = running.map((proxy) => proxy.pid)
    const pss = pssMbOf(pids)
    const figures = {
      'PSS MB in all': pss,
      'PSS MB each': pss / count,
      'RSS MB each': pids.reduce((sum, pid) => sum + rssMbOf(pid), 0) / count,
    }
    rows.push({ type: 'growth', of: 'gates', at: count, figures })
  }
  return { title: 'Gates on one machine, idle', rows, ...(note !== undefined && { note }) }
}

/**
 * Requests arrive at so many times the measured peak whatever becomes of them; who finds no free connection opens one. Goodput
 * is what is answered in full, compared with the peak of the same run.
 */
async function withLoad(options: Options): Promise<Part> {
  await using proxy = await start(options)
  const { clientCpu, warm } = options
  const seconds = Math.max(3, options.seconds)
  const peak = await runPload(loadOf('fwd64', 'forward', 64, proxy), { seconds, warm: 1 }, clientCpu, proxy.pid)
  const rows = [growthOf(0, peak, peak.rps, seconds)]
  let recovery = 0
  for (const factor of LOADS) {
    const more = ['-R', String(Math.round(peak.rps * factor)), '-O', String(OVERLOAD_CONNECTIONS)]
    const load = await runPload(loadOf('fwd64', 'forward', 64, proxy, more), { seconds, warm }, clientCpu, proxy.pid)
    rows.push(growthOf(factor, load, peak.rps, seconds))
    // What waits in queues is not the next round's.
    recovery = Math.max(recovery, await untilAnswers(proxy))
  }
  const after = await runPload(loadOf('fwd64', 'forward', 64, proxy), { seconds, warm: 1 }, clientCpu, proxy.pid)
  const back = `At most ${written(recovery, 1)} s after such a load a new request is answered; at 64 connections again: ${written((after.rps / peak.rps) * 100)} % of the peak, ${written(after.rss_mb)} MB.`
  return { title: 'Overload: requests at so many times the peak of `fwd64` (0: the peak itself, closed loop)', rows, note: back }
}

/** Seconds until one new request is answered. */
async function untilAnswers(proxy: RunningProxy): Promise<number> {
  const began = performance.now()
  await checkWorks(proxy, 'forward', false, RECOVERY_MS)
  return (performance.now() - began) / 1000
}

function growthOf(at: number, load: Loaded, peak: number, seconds: number): Growth {
  return {
    type: 'growth',
    of: 'load',
    at,
    figures: {
      'offered/s': load.offered / seconds,
      'answered/s': load.rps,
      '% of the peak': (load.rps / peak) * 100,
      'refused/s (503)': load.refused / seconds,
      'refused/s (429)': load.busy / seconds,
      'not sent/s': load.unsent / seconds,
      'p50 ms': load.p50_us / 1000,
      'p99 ms': load.p99_us / 1000,
      'refused p50 ms': load.refused_p50_us / 1000,
      'refused p99 ms': load.refused_p99_us / 1000,
      errors: load.err,
      'client CPU %': load.client_cpu * 100,
      'RSS MB': load.rss_mb ?? 0,
    },
  }
}

function tableOf({ rows }: Part): string {
  const names = Object.keys(rows[0]?.figures ?? {})
  const cell = (value: number | undefined): string => written(value, value !== undefined && value < 100 && value % 1 !== 0 ? 1 : 0)
  return markdownTable(
    [rows[0]?.of ?? '', ...names],
    rows.map((row) => [written(row.at), ...names.map((name) => cell(row.figures[name]))]),
  )
}

function overloadPicture(parts: readonly Part[]): string {
  const rows = parts.flatMap((part) => part.rows).filter((row) => row.of === 'load' && row.at > 0)
  const groups = rows.map(({ at, figures }) => ({
    label: `${at} × the peak`,
    bars: [
      { label: 'offered', value: figures['offered/s'] ?? 0 },
      { label: 'answered', value: figures['answered/s'] ?? 0, isOurs: true },
      { label: 'refused', value: (figures['refused/s (503)'] ?? 0) + (figures['refused/s (429)'] ?? 0) },
    ],
  }))
  return barChart('Requests a second under overload', groups, (value) => written(value))
}

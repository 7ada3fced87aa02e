import { spawn } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Measure } from './measures.ts'
import { SEARCH_PATH } from './packages.ts'
import { H2_DIAL_PORT, inWork } from './places.ts'
import { cpuSecondsOf, peakMbOf, rssMbOf } from './proc.ts'
import { pinned, startProxy, type RunningProxy } from './proxy.ts'
import type { Figures } from './results.ts'

/** Beyond its time a load client is taken for hung. */
const SPARE_S = 40

export type LoadTime = { readonly seconds: number; readonly warm: number }

/** The line that pload ends with. */
export type PloadReport = {
  readonly ok: number
  readonly err: number
  readonly errors: string
  readonly rps: number
  readonly MBps: number
  readonly p50_us: number
  readonly p99_us: number
  readonly p999_us: number
  readonly held: number
  readonly client_cpu: number
  readonly offered: number
  readonly unsent: number
  readonly refused: number
  readonly busy: number
  readonly refused_p50_us: number
  readonly refused_p99_us: number
}
export type Loaded = PloadReport & Pick<Figures, 'cpu_us' | 'rss_mb' | 'peak_mb'>

/** Arguments of pload for a measure: as they are written by this proxy, without one straight to the target. */
export function loadArguments(load: readonly string[], proxyPort: number | undefined): string[] {
  if (proxyPort !== undefined) return [...load, '-p', `127.0.0.1:${proxyPort}`]
  return load.map((word, i) => (load[i - 1] === '-v' ? 'direct' : word))
}

/** Runs pload to its end. What the proxy cost in the counted time is the whole tree's. */
export async function runPload(args: readonly string[], time: LoadTime, cpu: string, pid: number | undefined): Promise<Loaded> {
  const all = [...args, '-d', String(time.seconds), '-w', String(time.warm)]
  let before = 0
  let after = 0
  let report: PloadReport | undefined
  const complaint = await runProgram([inWork('bin', 'pload'), ...all], cpu, time.seconds + time.warm + SPARE_S, (line) => {
    if (line === 'START') before = pid === undefined ? 0 : cpuSecondsOf(pid)
    if (!line.startsWith('{')) return
    after = pid === undefined ? 0 : cpuSecondsOf(pid)
    report = JSON.parse(line) as PloadReport
  })
  if (report === undefined) return { ...NOTHING, errors: `the load client said ${complaint.slice(-200).trim() || 'nothing'}` }
  return { ...report, ...costsOf(pid, after - before, report.ok) }
}

/** HTTP/2 by h2load, behind h2dial, which speaks CONNECT for it. Without a proxy the same relay goes to the upstream: the ceiling. */
export async function runH2load(measure: Measure, proxy: RunningProxy | undefined, time: LoadTime, cpu: string): Promise<Figures> {
  const target = measure.load[0] ?? ''
  const through = proxy === undefined ? [] : [`127.0.0.1:${proxy.abilities.intercept ?? 0}`]
  const command = pinned(cpu, [inWork('bin', 'h2dial'), String(H2_DIAL_PORT), target, ...through])
  await using parts = new AsyncDisposableStack()
  parts.use(await startProxy({ label: 'h2dial', command, abilities: { connect: H2_DIAL_PORT } }, 'none'))
  const log = inWork('run', 'h2load.log')
  const load = ['-c', '16', '-m', '8', '-D', String(Math.max(1, Math.round(time.seconds))), '--warm-up-time', `${time.warm * 1000}ms`]
  const place = ['--npn-list', 'h2', '--log-file', log, '--connect-to', `127.0.0.1:${H2_DIAL_PORT}`, `https://${target}/1k.json`]
  rmSync(log, { force: true })
  let text = ''
  const warm = sleep(time.warm * 1000).then(() => (proxy === undefined ? 0 : cpuSecondsOf(proxy.pid)))
  const complaint = await runProgram(
    ['h2load', ...load, ...place],
    cpu,
    time.seconds + time.warm + SPARE_S,
    (line) => (text += `${line}\n`),
  )
  const spent = proxy === undefined ? 0 : cpuSecondsOf(proxy.pid) - (await warm)
  const read = parseH2load(text, readLog(log))
  if (read === undefined) return { ok: 0, err: 1, errors: `h2load said ${(complaint || text).slice(-200).trim()}` }
  return { ...read, ...costsOf(proxy?.pid, spent, read.ok) }
}

/** The figures in what h2load prints and logs; undefined when it measured no HTTP/2. */
export function parseH2load(text: string, log: string): Figures | undefined {
  const rate = /finished in [\d.]+\w*, ([\d.]+) req\/s/.exec(text)?.[1]
  const counts = /(\d+) succeeded, (\d+) failed/.exec(text)
  if (rate === undefined || counts === null || !text.includes('protocol: h2')) return undefined
  const failed = Number(counts[2])
  const latencies = log
    .split('\n')
    .map((line) => line.split('\t'))
    .filter((fields) => fields.length === 3)
    .map((fields) => Number(fields[2]))
    .toSorted((a, b) => a - b)
  const at = (share: number): number => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0
  return {
    ok: Number(counts[1]),
    err: failed,
    ...(failed > 0 && { errors: `${failed} requests failed` }),
    rps: Number(rate),
    p50_us: at(0.5),
    p99_us: at(0.99),
    p999_us: at(0.999),
  }
}

/** Holds idle tunnels: gives how many, and calls `whileHeld` when they are there. */
export async function holdTunnels(args: readonly string[], seconds: number, cpu: string, whileHeld: () => void): Promise<PloadReport> {
  let report: PloadReport | undefined
  let isReady = false
  const complaint = await runProgram([inWork('bin', 'pload'), ...args, '-d', String(seconds)], cpu, seconds + SPARE_S, (line) => {
    if (line.startsWith('READY')) {
      isReady = true
      // Half of the time: what opening them left behind has been collected, if it is going to be.
      setTimeout(whileHeld, (seconds * 1000) / 2)
    } else if (line.startsWith('{')) report = JSON.parse(line) as PloadReport
  })
  if (report === undefined) return { ...NOTHING, errors: complaint.slice(-200) }
  return isReady ? report : { ...report, err: Math.max(1, report.err), errors: `only ${report.held} were held; ${report.errors}` }
}

const NOTHING: PloadReport = {
  ok: 0,
  err: 1,
  errors: '',
  rps: 0,
  MBps: 0,
  p50_us: 0,
  p99_us: 0,
  p999_us: 0,
  held: 0,
  client_cpu: 0,
  offered: 0,
  unsent: 0,
  refused: 0,
  busy: 0,
  refused_p50_us: 0,
  refused_p99_us: 0,
}

function costsOf(pid: number | undefined, seconds: number, requests: number): Pick<Figures, 'cpu_us' | 'rss_mb' | 'peak_mb'> {
  if (pid === undefined) return {}
  return { cpu_us: (seconds * 1e6) / Math.max(1, requests), rss_mb: rssMbOf(pid), peak_mb: peakMbOf(pid) }
}

function readLog(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** Runs a program and calls back with each line of its output; gives what it said on stderr. */
function runProgram(command: readonly [string, ...string[]], cpu: string, limitS: number, onLine: (line: string) => void): Promise<string> {
  return new Promise((resolve) => {
    const [program, ...args] = pinned(cpu, command)
    const child = spawn(program, args, { env: { ...process.env, PATH: SEARCH_PATH }, stdio: ['ignore', 'pipe', 'pipe'] })
    const timer = setTimeout(() => child.kill('SIGKILL'), limitS * 1000)
    let complaint = ''
    createInterface({ input: child.stdout }).on('line', onLine)
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (complaint += chunk))
    child.on('error', (error) => (complaint += error.message))
    child.on('close', () => {
      clearTimeout(timer)
      resolve(complaint)
    })
  })
}

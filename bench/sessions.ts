import { ensureBaseImage } from '../scripts/base-image.ts'
import { ensureEngine } from '../scripts/engine.ts'
import { ensureImages, imageOf } from '../scripts/images.ts'
import { ROOT, SetupError, capture, run, step } from '../scripts/steps.ts'
import type { SessionView } from '../src/wire/operator.ts'
import { writeSection } from './document.ts'
import { median } from './figures.ts'
import { added, inventory } from './inventory.ts'
import type { Options } from './options.ts'
import { availableMb, parentOf, pssMbOf, rssMbOf, treeOf } from './proc.ts'
import type { Results } from './results.ts'
import { startDaemon, type BenchDaemon } from './session-daemon.ts'
import { machineText, markdownTable, written } from './table.ts'

const TOGETHER = 20
/** What one more session takes at most, so that a small machine is not filled. */
const SESSION_MB = 160

type Ups = { readonly up: number[]; readonly of: number[]; readonly down: number[]; readonly steps: Map<string, number[]> }
/** One daemon with or without the selftest. */
type Subject = { readonly label: string; readonly daemon: BenchDaemon; readonly selftest: boolean; readonly found: Ups }

/**
 * What a session costs: from `sallyport up` to an agent that runs behind a gate that is ready, against two bare `docker run`s of the same
 * images one after the other, in turns; then as many sessions as the machine holds side by side, their memory, their end, and what is left.
 */
export async function sessions(options: Options, results: Results): Promise<number> {
  const images = await imagesOf()
  // What runs then is ended: sessions go on without their daemon.
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort(new SetupError(`ended by ${signal}`)))
  await using parts = new AsyncDisposableStack()
  const daemon = parts.use(await startDaemon('sallyport', options.gate ?? ROOT))
  const other = options.against === undefined ? undefined : parts.use(await startDaemon('against', options.against))
  const subjects = [daemon, ...(other === undefined ? [] : [other])].flatMap((one) =>
    [true, false].map((selftest): Subject => {
      const found = { up: [], of: [], down: [], steps: new Map<string, number[]>() }
      return { label: `${one.label}${selftest ? '' : ', --no-selftest'}`, daemon: one, selftest, found }
    }),
  )
  const before = await inventory(daemon.home)
  const bare: number[] = []
  // The first of each is not counted: it fills caches, the engine's as well.
  await step('one of each, uncounted', async () => {
    for (const subject of subjects) {
      stop.signal.throwIfAborted()
      await once(subject)
    }
    await bareRuns(images)
  })
  for (const { found } of subjects) for (const list of [found.up, found.of, found.down, found.steps]) clear(list)
  await step(`${options.runs} rounds`, async (say) => {
    for (let round = 1; round <= options.runs; round++) {
      stop.signal.throwIfAborted()
      const two = await bareRuns(images)
      bare.push(two)
      for (const subject of subjects) {
        const took = await once(subject)
        subject.found.of.push(took / two)
        for (const [name, value] of Object.entries({
          up: took,
          'of two bare containers': took / two,
          down: subject.found.down.at(-1) ?? 0,
        }))
          results.add({ type: 'cost', name: `session (${subject.label}): ${name}`, value })
        say(`${round}: ${subject.label} ${written(took)} ms, two bare containers ${written(two)} ms`)
      }
    }
  })
  const beside = await step('sessions side by side', (say) => together(daemon, say))
  const left = added(before, await inventory(daemon.home))
  record(results, beside, left)
  const body = report(results, subjects, bare, beside, left)
  process.stdout.write(`${body}\n`)
  if (options.isWriting) writeSection('sessions', body, {})
  return beside.verified === beside.count && left.length === 0 ? 0 : 1
}

/** The images of both, made where they are not. What the daemon is told to run instead is taken as it is. */
async function imagesOf(): Promise<readonly [sidecar: string, agent: string]> {
  const { SALLYPORT_SIDECAR_IMAGE: sidecar, SALLYPORT_AGENT_IMAGE: agent } = process.env
  await ensureEngine()
  if (!sidecar || !agent) await ensureImages(await ensureBaseImage())
  return [sidecar || imageOf('sidecar'), agent || imageOf('agent')]
}

/** A session from nothing to its agent and back, by the command line. Gives the milliseconds of its start. */
async function once({ daemon, selftest, found }: Subject): Promise<number> {
  const workspace = daemon.workspace('work')
  const began = performance.now()
  let [at, name] = [began, 'command']
  const mark = (next: string): void => {
    const now = performance.now()
    found.steps.set(name, [...(found.steps.get(name) ?? []), now - at])
    ;[at, name] = [now, next]
  }
  const flags = ['--workspace', workspace, '--policy', daemon.policy, ...(selftest ? [] : ['--no-selftest'])]
  const id = await daemon.command(['up', '--detach', ...flags], (line) => {
    if (line.startsWith('· ')) mark(line.slice(2))
  })
  mark('')
  const up = performance.now() - began
  found.up.push(up)
  const ending = performance.now()
  await daemon.command(['down', id])
  found.down.push(performance.now() - ending)
  return up
}

/** Both containers without anything of ours, the second when the first runs. Milliseconds. */
async function bareRuns(images: readonly string[]): Promise<number> {
  const names = images.map((_image, i) => `sallyport-bench-${process.pid}-${i}`)
  try {
    const began = performance.now()
    for (const [i, image] of images.entries())
      await run('docker', ['run', '--detach', '--name', names[i] ?? '', '--entrypoint', 'sleep', image, 'infinity'])
    return performance.now() - began
  } finally {
    await capture('docker', ['rm', '--force', '--volumes', ...names])
  }
}

type Together = {
  readonly count: number
  readonly why?: string
  readonly verified: number
  readonly seconds: number
  readonly downSeconds: number
  /** MB of all. */
  readonly memory: Readonly<Record<string, number>>
}

/** So many at the same time, all by one daemon: none of them waits for another. */
async function together(daemon: BenchDaemon, say: (line: string) => void): Promise<Together> {
  const room = Math.floor(availableMb() / SESSION_MB)
  const count = Math.min(TOGETHER, room)
  const idle = rssMbOf(daemon.pid)
  const began = performance.now()
  const ups = await Promise.allSettled(
    Array.from({ length: count }, async (_none, i) => {
      const view = await upByApi(daemon, `beside-${i}`)
      say(`${view.name} is up`)
      return view
    }),
  )
  const seconds = (performance.now() - began) / 1000
  const views = (await daemon.client.request('GET', '/v1/sessions')) as readonly SessionView[]
  const running = views.filter(({ state, agent, sidecar }) => state === 'running' && agent.running && sidecar.healthy)
  const memory = { 'daemon, before': idle, 'daemon, with them': rssMbOf(daemon.pid), ...(await memoryOf(running)) }
  const ending = performance.now()
  await Promise.all(views.map(({ id }) => daemon.client.request('POST', `/v1/sessions/${id}/down`)))
  const failed = ups.flatMap((one) => (one.status === 'rejected' ? [(one.reason as Error).message] : []))
  for (const why of failed) process.stderr.write(`a session did not start: ${why}\n`)
  return {
    count,
    ...(count < TOGETHER && { why: `${TOGETHER} sessions are more than the ${written(availableMb())} MB that are free here.` }),
    verified: running.length,
    seconds,
    downSeconds: (performance.now() - ending) / 1000,
    memory,
  }
}

/** With the selftest: a session that is up was looked at, container by container, and tried. */
async function upByApi(daemon: BenchDaemon, name: string): Promise<SessionView> {
  const request = { workspace: daemon.workspace(name), policy: [daemon.policy], name, command: [], tty: true, selftest: true }
  let view: SessionView | undefined
  await daemon.client.follow('POST', '/v1/sessions', request, (line) => {
    if (line['session'] !== undefined) view = line['session'] as SessionView
  })
  if (view === undefined) throw new Error(`${name} did not come up`)
  return view
}

async function memoryOf(views: readonly SessionView[]): Promise<Record<string, number>> {
  const of = async (which: 'sidecar' | 'agent'): Promise<number[]> => {
    const ids = views.map((view) => view[which].container ?? '')
    return (await run('docker', ['inspect', '--format', '{{.State.Pid}}', ...ids])).trim().split('\n').map(Number)
  }
  if (views.length === 0) return {}
  const [gates, agents] = [await of('sidecar'), await of('agent')]
  const mean = (total: number): number => total / views.length
  const shims = [...gates, ...agents].flatMap((pid) => parentOf(pid) ?? [])
  return {
    'gate, PSS': mean(pssMbOf(gates.flatMap(treeOf))),
    'gate, RSS': mean(gates.reduce((sum, pid) => sum + rssMbOf(pid), 0)),
    'agent (asleep), PSS': mean(pssMbOf(agents.flatMap(treeOf))),
    "the engine's two processes beside them, PSS": mean(pssMbOf([...new Set(shims)])),
  }
}

function clear(list: number[] | Map<string, number[]>): void {
  if (Array.isArray(list)) list.length = 0
  else list.clear()
}

/** What was found of all sessions together; each by itself is recorded as it comes. */
function record(results: Results, beside: Together, left: readonly string[]): void {
  const cost = (name: string, value: number): void => results.add({ type: 'cost', name, value })
  cost('sessions side by side', beside.verified)
  cost('sessions side by side: all up, s', beside.seconds)
  cost('sessions side by side: all down, s', beside.downSeconds)
  for (const [name, mb] of Object.entries(beside.memory)) cost(`memory: ${name}, MB`, mb)
  cost('left behind', left.length)
}

function report(
  results: Results,
  subjects: readonly Subject[],
  bare: readonly number[],
  beside: Together,
  left: readonly string[],
): string {
  const machine = results.rows.find((row) => row.type === 'machine')
  const spread = (values: readonly number[]): string =>
    [Math.min(...values), median(values), Math.max(...values)].map((value) => written(value)).join(' / ')
  const names = [...new Set(subjects.flatMap(({ found }) => [...found.steps.keys()]))]
  const steps = [...names.filter((name) => name !== 'running'), ...names.filter((name) => name === 'running')]
  const { count, why, verified, seconds, downSeconds, memory } = beside
  return [
    ...(machine === undefined ? [] : [machineText(machine)]),
    '**One session, minimum / median / maximum in milliseconds**',
    markdownTable(
      ['', '`up`', 'of two bare containers', '`down`'],
      [
        ...subjects.map(({ label, found }) => [label, spread(found.up), written(median(found.of), 2), spread(found.down)]),
        ['two bare `docker run`s in a row', spread(bare), '1.00', ''],
      ],
    ),
    '**Where `up` spends it, median milliseconds from one step to the next**',
    markdownTable(
      ['', ...steps],
      subjects.map(({ label, found }) => [label, ...steps.map((name) => written(median(found.steps.get(name) ?? [])))]),
    ),
    `**${count} sessions side by side, started at once, selftest and all**`,
    markdownTable(
      ['', 'value'],
      [
        ['running, gate ready, looked at and tried', `${verified} of ${count}`],
        ['all up after, s', written(seconds, 1)],
        ['all down after, s', written(downSeconds, 1)],
        ...Object.entries(memory).map(([name, mb]) => [
          name.startsWith('daemon') ? `${name}, RSS MB` : `${name}, MB a session`,
          written(mb, 1),
        ]),
        ['containers, networks, volumes, sockets and files left', written(left.length)],
      ],
    ),
    ...(why === undefined ? [] : [why]),
    ...(left.length === 0 ? [] : [`Left: ${left.slice(0, 20).join(', ')}.`]),
  ].join('\n\n')
}

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Ability } from './measures.ts'
import { SEARCH_PATH, findProgram } from './packages.ts'
import { WORK, inWork } from './places.ts'
import { sessionOf, treeOf } from './proc.ts'

const READY_MS = 20_000
/** How long a process has to end by itself. */
const FAREWELL_MS = 3_000

/** A peer that cannot be measured here; the message says why. */
export class Unavailable extends Error {}

export type Abilities = Partial<Readonly<Record<Ability, number>>>

/** All that run now, so that none outlives an interrupted run. */
const children = new Set<ChildProcess>()

/** Ends every proxy that was started, at once. For a run that is interrupted. */
export function killProxies(): void {
  for (const { pid } of children) if (pid !== undefined) killAll([...treeOf(pid), ...sessionOf(pid)])
}

/** How a proxy is started. */
export type ProxyPlan = {
  readonly label: string
  readonly command: readonly [string, ...string[]]
  /** What it can do, with the port for it. */
  readonly abilities: Abilities
  /** The ability names alone, where the ports are known only once it runs. */
  readonly can?: readonly Ability[]
  /** What must be installed for it, if that is not the command itself. */
  readonly program?: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** Runs before each start. */
  readonly prepare?: () => void
  /** Reads the line that says that it is ready, and gives its ports and the file of its authority. Without it the ports are tried. */
  readonly readReady?: (line: string) => { abilities: Abilities; ca?: string } | undefined
}

/** A proxy that runs. Disposing ends it and all that it started. */
export type RunningProxy = AsyncDisposable & {
  readonly plan: ProxyPlan
  readonly pid: number
  readonly abilities: Abilities
  /** PEM file of the authority that it intercepts with, where it names one. */
  readonly ca?: string
  readonly readyMs: number
  readonly hasEnded: boolean
}

export function canDo(plan: ProxyPlan, ability: Ability): boolean {
  return plan.can?.includes(ability) ?? plan.abilities[ability] !== undefined
}

/** Before whatever else a busy machine does; below 0 for root alone. Upstream, client and every proxy have the same. */
const NICE = process.env['BENCH_NICE']

/** A command on one processor; on any with `none`. */
export function pinned(cpu: string, command: readonly [string, ...string[]]): [string, ...string[]] {
  const nice: readonly string[] = NICE ? ['nice', '-n', NICE] : []
  const [program, ...args] = cpu === 'none' ? [...nice, ...command] : [...nice, 'taskset', '-c', cpu, ...command]
  return [program ?? command[0], ...args]
}

/** Starts a proxy and waits until it is ready. @throws Unavailable */
export async function startProxy(plan: ProxyPlan, cpu: string): Promise<RunningProxy> {
  const program = plan.program ?? plan.command[0]
  if (findProgram(program) === undefined) throw new Unavailable(`${program} is not ${program.includes('/') ? 'there' : 'installed'}`)
  for (const port of new Set(Object.values(plan.abilities))) {
    if (await isOpen(port)) throw new Unavailable(`port ${port} is taken`)
  }
  plan.prepare?.()
  const log = openSync(inWork('log', `${plan.label}.log`), 'w')
  const [command, ...args] = pinned(cpu, plan.command)
  const began = performance.now()
  const child = spawn(command, args, {
    cwd: plan.cwd ?? WORK,
    env: { ...process.env, PATH: SEARCH_PATH, CA_DIR: inWork('ca'), RUN_DIR: inWork('run'), ...plan.env },
    stdio: ['ignore', plan.readReady === undefined ? log : 'pipe', log],
    // A session of its own, so that all that it starts can be found again.
    detached: true,
  })
  children.add(child)
  closeSync(log)
  try {
    const ready = plan.readReady === undefined ? await untilOpen(child, plan) : await untilSaid(child, plan.readReady, plan.label)
    return new OwnProxy(plan, child, performance.now() - began, ready)
  } catch (error) {
    await end(child)
    throw error
  }
}

class OwnProxy implements RunningProxy {
  readonly plan: ProxyPlan
  readonly readyMs: number
  readonly abilities: Abilities
  readonly ca?: string
  readonly #child: ChildProcess

  constructor(plan: ProxyPlan, child: ChildProcess, readyMs: number, ready: { abilities: Abilities; ca?: string }) {
    this.plan = plan
    this.readyMs = readyMs
    this.abilities = ready.abilities
    if (ready.ca !== undefined) this.ca = ready.ca
    this.#child = child
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get hasEnded(): boolean {
    return hasEnded(this.#child)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return end(this.#child)
  }
}

export function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => finish(true))
    const finish = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.on('error', () => finish(false))
  })
}

async function untilOpen(child: ChildProcess, plan: ProxyPlan): Promise<{ abilities: Abilities }> {
  const deadline = performance.now() + READY_MS
  for (const port of new Set(Object.values(plan.abilities))) {
    while (!(await isOpen(port))) {
      if (hasEnded(child)) throw new Unavailable(`it ended with ${child.exitCode ?? 'a signal'}, see log/${plan.label}.log`)
      if (performance.now() > deadline) throw new Unavailable(`it did not listen within ${READY_MS / 1000} s, see log/${plan.label}.log`)
      await sleep(2)
    }
  }
  return { abilities: plan.abilities }
}

function untilSaid(child: ChildProcess, readReady: NonNullable<ProxyPlan['readReady']>, label: string): ReturnType<typeof untilOpen> {
  return new Promise((resolve, reject) => {
    const fail = (what: string): void => reject(new Unavailable(`${what}, see log/${label}.log`))
    const timer = setTimeout(() => fail(`it said nothing within ${READY_MS / 1000} s`), READY_MS)
    let text = ''
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      // Read on to the end: a pipe that nobody empties stops who writes into it.
      text = text.length > 100_000 ? '' : text + chunk
      const ready = text.split('\n').slice(0, -1).map(readReady).find(Boolean)
      if (ready === undefined) return
      clearTimeout(timer)
      resolve(ready)
    })
    child.once('error', (error) => fail(error.message))
    child.once('exit', (code) => {
      clearTimeout(timer)
      fail(`it ended with ${code ?? 'a signal'} before it was ready`)
    })
  })
}

/** Asks a process to end, then kills what is left of all that it started. */
async function end(child: ChildProcess): Promise<void> {
  const { pid } = child
  if (pid === undefined) return
  const below = treeOf(pid)
  if (!hasEnded(child)) {
    child.kill('SIGTERM')
    await Promise.race([once(child, 'exit'), sleep(FAREWELL_MS, undefined, { ref: false })])
  }
  killAll([...below, ...sessionOf(pid)].filter((each) => each !== pid || !hasEnded(child)))
  if (!hasEnded(child)) await once(child, 'exit')
  children.delete(child)
}

function killAll(pids: readonly number[]): void {
  for (const pid of new Set(pids)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { daemonClient, type DaemonClient } from '../src/cli/daemon-client.ts'
import { ROOT, SetupError, capture } from '../scripts/steps.ts'

const READY_MS = 30_000
const COMMAND_MS = 120_000
/** A usual one: packages of three languages. */
const POLICY = 'version: 1\nextends: [service/npm, service/pypi, service/crates]\n'

/** A daemon of the bench's own, with a home, a workspace and a policy that go with it. */
export type BenchDaemon = AsyncDisposable & {
  readonly label: string
  readonly home: string
  readonly pid: number
  readonly policy: string
  readonly client: DaemonClient
  /** An empty folder for an agent to work on. */
  workspace(name: string): string
  /** Runs the command as an operator would. @throws SetupError with what it said when it fails */
  command(args: readonly string[], onLine?: (line: string) => void): Promise<string>
}

/** Starts `dist/` of a clone as the daemon. Disposing ends it and removes its home. @throws SetupError when it is not ready in time */
export async function startDaemon(label: string, clone: string = ROOT): Promise<BenchDaemon> {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'sallyport-sessions-')))
  const home = path.join(folder, 'home')
  const policy = path.join(folder, 'policy.yaml')
  writeFileSync(policy, POLICY)
  const entry = path.join(clone, 'dist', 'sallyport.js')
  const env = { ...process.env, SALLYPORT_HOME: home, SALLYPORT_LOG_LEVEL: 'warn' }
  // In a group of its own: a Ctrl-C for the bench must leave somebody who ends the sessions.
  const child = spawn(process.execPath, [entry, 'daemon', '--no-web'], { env, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  const ended = once(child, 'close')
  const stop = async (): Promise<void> => {
    await capture(process.execPath, [entry, 'down', '--all'], { env, timeoutMs: COMMAND_MS })
    child.kill('SIGTERM')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  const late = setTimeout(() => child.kill('SIGKILL'), READY_MS)
  const ready = new Promise<void>((resolve) => createInterface({ input: child.stdout }).once('line', () => resolve()))
  const isReady = await Promise.race([ready.then(() => true), ended.then(() => false)])
  clearTimeout(late)
  if (!isReady || child.pid === undefined) {
    rmSync(folder, { recursive: true, force: true })
    throw new SetupError(`the daemon of ${clone} did not start`)
  }
  return {
    label,
    home,
    pid: child.pid,
    policy,
    client: daemonClient(home),
    workspace(name) {
      const made = path.join(folder, name)
      mkdirSync(made, { recursive: true })
      return made
    },
    async command(args, onLine) {
      const options = { env, timeoutMs: COMMAND_MS, ...(onLine && { onLine }) }
      const { code, stdout, stderr } = await capture(process.execPath, [entry, ...args], options)
      if (code !== 0) throw new SetupError(`sallyport ${args[0] ?? ''} failed (exit ${code})`, stderr.trim().split('\n').slice(-5))
      return stdout.trim()
    },
    [Symbol.asyncDispose]: stop,
  }
}

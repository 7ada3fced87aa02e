import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { MAIN } from './main-file.ts'

export type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string }
export type Environment = Readonly<Record<string, string>>

/** Nothing of this machine but where programs are: its proxy and certificate variables would change what is tested. */
export function cleanEnvironment(home: string): Record<string, string> {
  const cache = process.env['NODE_COMPILE_CACHE']
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    SALLYPORT_HOME: join(home, '.sallyport'),
    LANG: 'C.UTF-8',
    // What Node made of our sources, which is most of what a command costs.
    ...(cache !== undefined && { NODE_COMPILE_CACHE: cache }),
  }
}

/** Runs a program to its end. `env` is its whole environment. */
export async function runProgram(argv: readonly string[], env: Environment, cwd?: string): Promise<Ended> {
  const [file = '', ...args] = argv
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'], ...(cwd !== undefined && { cwd }) })
  const output = collect(child)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...output() }
}

/** One `sallyport` command line, to its end. */
export async function runCommand(argv: readonly string[], env: Environment = {}): Promise<Ended> {
  const home = await mkdtemp(join(tmpdir(), 'sallyport-home-'))
  try {
    return await runProgram([process.execPath, MAIN, ...argv], { ...cleanEnvironment(home), ...env })
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

export type Ready = {
  readonly event: 'ready'
  readonly http: string
  readonly socks?: string
  readonly dns?: string
  /** For plain HTTP, and for TLS. */
  readonly transparent?: readonly [string, string]
  readonly gateway?: string
  readonly ca: string
  readonly audit: string
  readonly session: string
  readonly placeholders?: Readonly<Record<string, string>>
}

export type RunningProxy = AsyncDisposable & {
  readonly ready: Ready
  /** `http://HOST:PORT` for proxy variables. */
  readonly url: string
  readonly port: number
  readonly home: string
  readonly child: ChildProcess
  /** All that it printed so far, on both outputs. */
  output(): string
  /** Sends a signal and waits for the end. */
  stop(signal: NodeJS.Signals): Promise<Ended>
}

/** `sallyport proxy` in a process and a home of its own, once it has printed its ready line. Port 0 unless `args` say else. */
export async function startProxy(options: { policy: string; args?: readonly string[]; env?: Environment }): Promise<RunningProxy> {
  const home = await mkdtemp(join(tmpdir(), 'sallyport-home-'))
  const policy = join(home, 'policy.yaml')
  await writeFile(policy, options.policy)
  const argv = [MAIN, 'proxy', '--policy', policy, '--http', '127.0.0.1:0', ...(options.args ?? [])]
  const child = spawn(process.execPath, argv, { env: { ...cleanEnvironment(home), ...options.env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const output = collect(child)
  const closed = once(child, 'close') as Promise<[number | null]>
  const line = await Promise.race([once(createInterface(child.stdout), 'line') as Promise<[string]>, closed.then(() => undefined)])
  if (line === undefined) throw new Error(`the proxy ended: ${output().stderr}`)
  const ready = JSON.parse(line[0]) as Ready
  const stop = async (signal: NodeJS.Signals): Promise<Ended> => {
    child.kill(signal)
    const [code] = await closed
    return { code, ...output() }
  }
  return {
    ready,
    url: `http://${ready.http}`,
    port: Number(ready.http.split(':').at(-1)),
    home,
    child,
    output: () => output().stdout + output().stderr,
    stop,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) await stop('SIGKILL')
      await rm(home, { recursive: true, force: true })
    },
  }
}

function collect(child: ChildProcess): () => { stdout: string; stderr: string } {
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk))
  child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk))
  return () => ({ stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() })
}

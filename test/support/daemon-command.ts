import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { createDockerEngine } from '../../src/controller/sessions/docker-engine.ts'
import { engineAddress } from '../../src/controller/sessions/engine-address.ts'
import { sessionOf } from '../../src/controller/sessions/session-names.ts'
import { cleanEnvironment, type Ended } from './command.ts'
import { SIDECAR_IMAGE } from './controller-sessions.ts'
import { MAIN } from './main-file.ts'
import { openPty, type Pty } from './pty.ts'

export type DaemonProcess = AsyncDisposable & {
  readonly pid: number
  /** What it says when it is ready: all of its standard output. */
  readonly lines: readonly string[]
  /** Sends a signal and waits for the end. */
  stop(signal: NodeJS.Signals): Promise<number | null>
}

/** A home of a controller, workspaces beside it, and the real commands in processes of their own. */
export type DaemonPlace = AsyncDisposable & {
  readonly home: string
  readonly env: Record<string, string>
  /** All that any command printed so far, and the daemons. */
  printed(): string
  /** A workspace with a git repository and these files in it. */
  workspace(name: string, files?: Readonly<Record<string, string>>): Promise<string>
  write(path: string, text: string): void
  run(argv: readonly string[], input?: string): Promise<Ended>
  /** The same, which must succeed. Gives its stdout. */
  must(argv: readonly string[], input?: string): Promise<string>
  onTerminal(argv: readonly string[]): Pty
  /** Without a page, unless `web` says where. */
  startDaemon(options?: { readonly web: string }): Promise<DaemonProcess>
}

export function openDaemonPlace(): DaemonPlace {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'sallyport-e2e-')))
  const home = join(root, 'home', '.sallyport')
  const env = { ...cleanEnvironment(join(root, 'home')), SALLYPORT_SIDECAR_IMAGE: SIDECAR_IMAGE }
  mkdirSync(home, { recursive: true, mode: 0o700 })
  const chunks: string[] = []
  const keep = (child: ChildProcess, own: { stdout: string; stderr: string }): void => {
    for (const name of ['stdout', 'stderr'] as const)
      child[name]?.setEncoding('utf8').on('data', (text: string) => {
        own[name] += text
        chunks.push(text)
      })
  }
  const programEnded = async (file: string, argv: readonly string[], input = ''): Promise<Ended> => {
    const child = spawn(file, argv, { env, cwd: root, stdio: 'pipe' })
    const text = { stdout: '', stderr: '' }
    keep(child, text)
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, ...text }
  }
  const run: DaemonPlace['run'] = (argv, input) => programEnded(process.execPath, [MAIN, ...argv], input)
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  const ptys: Pty[] = []
  return {
    home,
    env,
    printed: () => [...chunks, ...ptys.map((pty) => pty.printed())].join('\n'),
    async workspace(name, files = {}) {
      const folder = join(root, name)
      for (const [path, text] of Object.entries({ 'README.md': '# work\n', ...files })) write(join(folder, path), text)
      const git = ['-C', folder, '-c', 'user.name=work', '-c', 'user.email=work@localhost']
      for (const argv of [
        ['init', '-q'],
        ['add', '.'],
        ['commit', '-q', '-m', 'begin'],
      ])
        await programEnded('git', [...git, ...argv])
      return folder
    },
    write,
    run,
    async must(argv, input) {
      const { code, stdout, stderr } = await run(argv, input)
      if (code !== 0) throw new Error(`sallyport ${argv.join(' ')} ended with ${code}:\n${stderr}`)
      return stdout
    },
    onTerminal(argv) {
      const pty = openPty([process.execPath, MAIN, ...argv], { env, cwd: root })
      ptys.push(pty)
      return pty
    },
    async startDaemon(options) {
      const page = options === undefined ? ['--no-web'] : ['--web', options.web]
      const child = spawn(process.execPath, [MAIN, 'daemon', ...page], { env, cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
      const text = { stdout: '', stderr: '' }
      keep(child, text)
      const closed = once(child, 'close') as Promise<[number | null]>
      const line = once(createInterface(child.stdout), 'line')
      if ((await Promise.race([line, closed.then(() => undefined)])) === undefined) throw new Error(`the daemon ended: ${text.stderr}`)
      const stop = async (signal: NodeJS.Signals): Promise<number | null> => {
        child.kill(signal)
        return (await closed)[0]
      }
      return {
        pid: child.pid ?? 0,
        get lines() {
          return text.stdout.split('\n').filter(Boolean)
        },
        stop,
        async [Symbol.asyncDispose]() {
          if (child.exitCode === null && child.signalCode === null) await stop('SIGKILL')
        },
      }
    },
    async [Symbol.asyncDispose]() {
      for (const pty of ptys) await pty[Symbol.asyncDispose]()
      const engine = createDockerEngine(engineAddress(process.env))
      for (const one of await engine.containers({})) if (sessionOf(home, one) !== undefined) await engine.remove(one.id)
      for (const one of await engine.networks()) if (sessionOf(home, one) !== undefined) await engine.removeNetwork(one.id)
      rmSync(root, { recursive: true, force: true })
    },
  }
}

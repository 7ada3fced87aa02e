import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cleanEnvironment, runProgram, type Ended } from './command.ts'
import { MAIN } from './main-file.ts'

const TERMINAL = join(import.meta.dirname, 'terminal.py')

export type Seen = {
  readonly screen: string
  readonly echo: boolean
  readonly exit: number | null
  readonly signal: number | null
  readonly argvSeen: string
}
export type Step = readonly [waitFor: string, answer: string | { readonly signal: number }]

export type Operator = AsyncDisposable & {
  /** `$SALLYPORT_HOME`. */
  readonly home: string
  readonly env: Record<string, string>
  /** `sallyport secret …` with this on its stdin, to its end. */
  run(argv: readonly string[], input?: string | Buffer): Promise<Ended>
  /** The same at a terminal of its own. */
  type(argv: readonly string[], steps: readonly Step[], stdin?: string): Promise<Seen>
  /** Names of files anywhere below the operator's home that have the text in them. */
  filesWith(text: string): Promise<string[]>
}

/** An operator with a home of their own, and no keyring. */
export async function operator(more: Record<string, string> = {}): Promise<Operator> {
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-home-'))
  // A bus that nobody serves: the machine's own keyring is none of a test's business.
  const env = { ...cleanEnvironment(folder), DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent', ...more }
  return {
    home: join(folder, '.sallyport'),
    env,
    async run(argv, input = '') {
      const child = spawn(process.execPath, [MAIN, 'secret', ...argv], { env, stdio: ['pipe', 'pipe', 'pipe'], cwd: folder })
      const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []]
      child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
      child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
      // It may have ended without reading all of it.
      child.stdin.on('error', () => {})
      child.stdin.end(input)
      const [code] = (await once(child, 'close')) as [number | null]
      return { code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }
    },
    async type(argv, steps, stdin) {
      const plan = { argv: [process.execPath, MAIN, 'secret', ...argv], env, stdin: stdin ?? null, steps }
      const { stdout, stderr, code } = await runProgram(['/usr/bin/env', 'python3', TERMINAL, JSON.stringify(plan)], {
        PATH: process.env['PATH'] ?? '',
        HOME: process.env['HOME'] ?? folder,
      })
      if (code !== 0) throw new Error(`the terminal failed: ${stderr}`)
      return JSON.parse(stdout) as Seen
    },
    async filesWith(text) {
      const names = await readdir(folder, { recursive: true, withFileTypes: true })
      const found: string[] = []
      for (const entry of names.filter((each) => each.isFile())) {
        const path = join(entry.parentPath, entry.name)
        if ((await readFile(path)).includes(text)) found.push(path)
      }
      return found
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

/** Whether there is a Python that can open terminals. */
export async function canType(): Promise<boolean> {
  const env = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/' }
  return (await runProgram(['/usr/bin/env', 'python3', '-c', 'import pty, termios'], env)).code === 0
}

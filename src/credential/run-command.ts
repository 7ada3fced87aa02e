import { accessSync, constants, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { codeOf } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Secret } from '../kernel/secret.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** What a command that prints a secret may see of our environment. */
const EXEC_ENVIRONMENT = [
  'PATH',
  'HOME',
  'LANG',
  'LC_ALL',
  'USER',
  'LOGNAME',
  'TMPDIR',
  'TZ',
  'XDG_RUNTIME_DIR',
  'DBUS_SESSION_BUS_ADDRESS',
]

export type CommandRun = {
  /** As it is, for no shell. The first is a name that is looked for in `PATH`, or an absolute path. */
  readonly argv: readonly string[]
  /** Ours; the command sees `EXEC_ENVIRONMENT` of it, and `variables`. */
  readonly env: Environment
  readonly variables?: readonly string[]
  /** What it reads on its standard input; nothing without. */
  readonly input?: Secret
  readonly signal?: AbortSignal
  /** How long it may take, where that is not `LIMITS.secretExecMs`. */
  readonly timeMaxMs?: number
}

/** All that it printed, or why there is nothing: never a word of what it printed, which may be the value. */
export type CommandOutcome = { readonly output: string } | { readonly failed: string; readonly exitCode?: number }

/**
 * Runs a command to its end in a process group and session of its own, so without a terminal to ask on: `LIMITS.secretExecMs`,
 * `LIMITS.secretBytesMax` of output, its errors unread. Whatever is left of its group is killed when it ends. Never rejects.
 */
export async function runCommand({
  argv,
  env,
  variables = [],
  input,
  signal,
  timeMaxMs = LIMITS.secretExecMs,
}: CommandRun): Promise<CommandOutcome> {
  // Loaded when a command is run: most gates run none.
  const { spawn } = await import('node:child_process')
  const [name = '', ...args] = argv
  const file = findProgram(name, env)
  if (file === undefined) return { failed: 'its command failed: ENOENT' }
  if (signal?.aborted === true) return { failed: 'it was called off' }
  const seen = [...EXEC_ENVIRONMENT, ...variables].flatMap((key) => (env[key] === undefined ? [] : [[key, env[key]] as const]))
  return new Promise((resolve) => {
    const child = spawn(file, args, {
      env: Object.fromEntries(seen),
      detached: true,
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'ignore'],
    })
    const chunks: Buffer[] = []
    let bytes = 0
    let why: string | undefined
    const end = (reason: string): void => {
      why ??= reason
      killGroup(child.pid)
      // A process that left the group may hold the other end for ever.
      child.stdout?.destroy()
    }
    const timer = setTimeout(() => end('its command took too long'), timeMaxMs)
    const callOff = (): void => end('it was called off')
    signal?.addEventListener('abort', callOff, { once: true })
    child.stdout?.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > LIMITS.secretBytesMax) end('its command printed too much')
    })
    child.stdout?.on('error', () => undefined)
    // I31: by its input. Arguments and environment are there for every process of the user to read.
    if (input !== undefined) feed(child.stdin, input)
    child.on('error', (error) => (why ??= `its command failed: ${codeOf(error)}`))
    child.on('exit', () => killGroup(child.pid))
    child.on('close', (code, killedBy) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', callOff)
      const exitCode = why === undefined && code !== null ? code : undefined
      if (code !== 0) why ??= `its command failed: ${code === null ? (killedBy ?? 'not started') : `exit ${code}`}`
      const whole = Buffer.concat(chunks)
      const output = why === undefined ? whole.toString('utf8') : ''
      for (const buffer of [whole, ...chunks]) buffer.fill(0)
      resolve(why === undefined ? { output } : { failed: why, ...(exitCode !== undefined && { exitCode }) })
    })
  })
}

/** The file that a name stands for, or `undefined`. Parts of `PATH` that are empty or relative mean a folder that may be the agent's: they are left out. */
export function findProgram(name: string, env: Environment): string | undefined {
  const folders = (env['PATH'] ?? '').split(':').filter((folder) => isAbsolute(folder))
  const candidates = isAbsolute(name) ? [name] : name === '' || name.includes('/') ? [] : folders.map((folder) => join(folder, name))
  return candidates.find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return statSync(path).isFile()
    } catch {
      return false
    }
  })
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Nothing is left of it.
  }
}

function feed(stdin: NodeJS.WritableStream | null, input: Secret): void {
  const bytes = Buffer.from(input.reveal())
  // A command that ends before it has read: its exit code says so.
  stdin?.on('error', () => undefined)
  stdin?.end(bytes, () => bytes.fill(0))
}

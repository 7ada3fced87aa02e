import { spawn } from 'node:child_process'
import path from 'node:path'

/** The root of the clone. */
export const ROOT = path.resolve(import.meta.dirname, '..')
/** What set-up keeps between runs; never part of the product, safe to delete. */
export const STATE = path.join(ROOT, '.sallyport')
/** `SALLYPORT_NO_INSTALL=1`: use what is there, install nothing. */
export const mayInstall = process.env['SALLYPORT_NO_INSTALL'] !== '1'

/** A set-up step that cannot go on: what is missing, and how to get it. */
export class SetupError extends Error {
  readonly hints: readonly string[]

  constructor(message: string, hints: readonly string[] = []) {
    super(message)
    this.hints = hints
  }
}

export type Outcome = { readonly code: number; readonly stdout: string; readonly stderr: string }
export type RunOptions = {
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
  readonly input?: string
  readonly timeoutMs?: number
  /** Ends the program. */
  readonly signal?: AbortSignal
  /** Called with each line of either stream. */
  readonly onLine?: (line: string) => void
}

/** Runs a program to its end and never throws: a program that is not there gives code 127, one past its time 124. */
export function capture(command: string, args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  return new Promise((resolve) => {
    const { cwd = ROOT, env = process.env, signal } = options
    const child = spawn(command, args, { cwd, env, stdio: 'pipe', ...(signal === undefined ? {} : { signal }) })
    const text = { stdout: '', stderr: '' }
    let late = false
    const timer = options.timeoutMs === undefined ? undefined : setTimeout(() => (late = child.kill('SIGKILL')), options.timeoutMs)
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (chunk: string) => {
        text[name] += chunk
        if (options.onLine !== undefined) for (const line of chunk.split(/[\r\n]+/)) if (line.trim() !== '') options.onLine(line.trim())
      })
    }
    child.stdin.on('error', () => undefined)
    child.stdin.end(options.input ?? '')
    child.on('error', (error) => resolve({ code: 127, stdout: '', stderr: error.message }))
    child.on('close', (code, killedBy) => {
      clearTimeout(timer)
      resolve({ code: late ? 124 : (code ?? (killedBy === null ? 1 : 130)), ...text })
    })
  })
}

/**
 * Runs a program that must succeed, and gives its stdout.
 * @throws SetupError with the last lines of its output.
 */
export async function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await capture(command, args, options)
  if (code === 0) return stdout
  const said = (stderr.trim() === '' ? stdout : stderr).trim().split('\n').slice(-15)
  throw new SetupError(`${command} ${args.slice(0, 3).join(' ')} … failed (exit ${code})`, said)
}

/** A step with its name and time on stderr. A long one says every few seconds that it lives, with the last line of its work. */
export async function step<T>(title: string, work: (onLine: (line: string) => void) => Promise<T>): Promise<T> {
  const began = performance.now()
  const seconds = (): string => `${((performance.now() - began) / 1000).toFixed(1)} s`
  let last = ''
  process.stderr.write(`· ${title} …\n`)
  const beat = setInterval(() => process.stderr.write(`    ${seconds()}  ${last.slice(0, 100)}\n`), 5_000)
  try {
    const result = await work((line) => (last = line))
    process.stderr.write(`  done in ${seconds()}\n`)
    return result
  } finally {
    clearInterval(beat)
  }
}

/** Runs a script's story and ends the process: 0, or 1 after saying what went wrong. */
export async function main(story: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await story()
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    process.stderr.write(`\n${error.message}\n${error.hints.map((hint) => `  ${hint}\n`).join('')}`)
    process.exitCode = 1
  }
}

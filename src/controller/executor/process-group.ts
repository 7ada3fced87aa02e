import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { LIMITS } from '../../kernel/limits.ts'

export type Started = {
  readonly child: ChildProcess
  /** How it ended: a code, a signal, or why it did not begin. */
  readonly ended: Promise<{ readonly exitCode?: number; readonly signal?: string; readonly failed?: string }>
  /** Asks the whole group to end, and ends it after `LIMITS.commandKillMs`. */
  stop(): void
}

/**
 * Starts a program as the leader of a session and process group of its own: so it has no terminal. It reads nothing, new files are the
 * operator's alone, and no descriptor of ours but its output is open in it. What it leaves in its group is killed when it ends.
 */
export function startGroup(
  file: string,
  options: {
    readonly argv0?: string
    readonly args: readonly string[]
    readonly cwd: string
    readonly environment: Readonly<Record<string, string>>
  },
): Started {
  const nothing = openSync('/dev/null', 'r')
  const ended = Promise.withResolvers<{ exitCode?: number; signal?: string; failed?: string }>()
  // Of the process, but this is done before anything else of ours runs.
  const mask = process.umask(0o077)
  let child: ChildProcess
  try {
    child = spawn(file, options.args, {
      ...(options.argv0 === undefined ? {} : { argv0: options.argv0 }),
      cwd: options.cwd,
      env: options.environment,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', ...covered(nothing)] as StdioOptions,
      windowsHide: true,
    })
  } finally {
    process.umask(mask)
    closeSync(nothing)
  }
  let killer: NodeJS.Timeout | undefined
  child.once('error', (error: NodeJS.ErrnoException) => ended.resolve({ failed: error.code ?? error.name }))
  child.once('exit', (code, signal) => {
    clearTimeout(killer)
    signalGroup(child.pid, 'SIGKILL')
    ended.resolve(code === null ? { signal: signal ?? 'SIGKILL' } : { exitCode: code })
  })
  return {
    child,
    ended: ended.promise,
    stop() {
      if (killer !== undefined || child.exitCode !== null || child.signalCode !== null) return
      signalGroup(child.pid, 'SIGTERM')
      killer = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), LIMITS.commandKillMs)
    },
  }
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // Nothing is left of it.
  }
}

let inherited: readonly number[] | undefined

/**
 * For `stdio`, from descriptor 3 on. Node opens everything so that programs do not get it; but what whoever started us left open, each
 * program would: in their places is what has nothing to read.
 */
function covered(nothing: number): ('ignore' | number)[] {
  inherited ??= inheritedDescriptors()
  const open = new Set(inherited)
  return Array.from({ length: Math.max(2, ...inherited) - 2 }, (_, i) => (open.has(i + 3) ? nothing : 'ignore'))
}

/** Descriptors above 2 that stay open in programs. Linux; elsewhere Node sees to those that follow each other. */
function inheritedDescriptors(): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((descriptor) => descriptor > 2 && staysOpen(descriptor))
}

function staysOpen(descriptor: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1]
    // O_CLOEXEC, open(2).
    return flags !== undefined && (Number.parseInt(flags, 8) & 0o2000000) === 0
  } catch {
    return false
  }
}

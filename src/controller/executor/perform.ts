import { chmod, mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { existsSync } from 'node:fs'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import { changeOfName, copyCode, type CodeFile } from './code-file.ts'
import type { Argument } from './launch.ts'
import { collect, type OutputOptions } from './output.ts'
import { changeOf, takeHeld, type Held, type Prepared } from './prepare.ts'
import { startGroup, type Started } from './process-group.ts'
import { inSandbox } from './sandbox.ts'
import { toolsOf } from './tools.ts'
import { useTemporary } from './temporary.ts'

export type PerformOptions = {
  /** What the output is redacted of. */
  readonly secrets: readonly Secret[]
  readonly limits?: {
    /** `LIMITS.commandMs` without. */
    readonly timeMs?: number
    /** Kept of each stream: `LIMITS.commandOutputBytesMax` without, and at most. */
    readonly outputBytesMax?: number
  }
  /** Gets the output as it comes, redacted. What prints waits until it has resolved, up to `LIMITS.commandReaderMs`. */
  readonly onOutput: (stream: 'stdout' | 'stderr', chunk: Buffer) => Promise<void>
  readonly signal: AbortSignal
}

export type CommandResult = {
  readonly exitCode?: number
  /** That ended it, as `SIGKILL`. */
  readonly signal?: string
  readonly stdout: string
  readonly stderr: string
  /** Printed, of which the texts may have less. */
  readonly bytes: { readonly stdout: number; readonly stderr: number }
  /** Of all of it, redacted, hex. Absent where nothing ran. */
  readonly sha256?: { readonly stdout: string; readonly stderr: string }
  readonly truncated: boolean
  /** The file with all that was printed, where the texts have less. */
  readonly spill?: string
  readonly durationMs: number
  readonly code?: 'executable_changed' | 'command_timed_out' | 'command_cancelled' | 'command_not_started'
  /** In words, for a code. */
  readonly why?: string
}

/**
 * Runs a prepared command, once, if it is still what it was. Rejects only for faults of ours: what the command does is in the result.
 * @throws command_invalid when it was performed or disposed of already; secret_invalid when the secrets are too large to be looked for
 */
export async function perform(prepared: Prepared, options: PerformOptions): Promise<CommandResult> {
  const held = takeHeld(prepared)
  if (held === undefined) throw new SallyportError('command_invalid', 'this command was not prepared, or was run already')
  await using stack = new AsyncDisposableStack()
  stack.use(held)
  const { system, subject } = held
  const begun = system.elapsed()
  const nothing = (code: NonNullable<CommandResult['code']>, why: string): CommandResult => {
    return { stdout: '', stderr: '', bytes: { stdout: 0, stderr: 0 }, truncated: false, durationMs: system.elapsed() - begun, code, why }
  }
  if (options.signal.aborted) return nothing('command_cancelled', 'it was called off before it began')
  stack.use(await useTemporary(held.temporary))
  const change = await changeOf(held)
  if (change !== undefined) return nothing('executable_changed', change)
  const copies = await copyUnsettled(held, stack)
  if (copies instanceof Changed) return nothing('executable_changed', copies.why)
  const output = collect({ ...outputOptions(options), home: held.place.home, system })
  const started = subject.sandbox === 'none' ? startBare(held, copies) : await startSandboxed(held, copies)
  const ending = await supervise(started, output, options)
  const printed = await output.end()
  const { failed, ...end } = ending.end
  if (failed !== undefined) return nothing('command_not_started', `${subject.executable.path} could not be started (${failed})`)
  return { ...end, ...printed, durationMs: system.elapsed() - begun, ...ending.stopped }
}

function outputOptions({ secrets, limits, onOutput }: PerformOptions): Omit<OutputOptions, 'home' | 'system'> {
  const bytesMax = Math.min(limits?.outputBytesMax ?? LIMITS.commandOutputBytesMax, LIMITS.commandOutputBytesMax)
  return { secrets, bytesMax, onOutput }
}

/** Waits for its end, its time or its cancellation, and for what it printed. */
async function supervise(started: Started, output: ReturnType<typeof collect>, { limits, signal }: PerformOptions) {
  let stopped: Pick<CommandResult, 'code' | 'why'> = {}
  const stop = (code: 'command_timed_out' | 'command_cancelled', why: string): void => {
    stopped = { code, why }
    started.stop()
    // A reader that takes nothing must not hold the end up.
    output.leaveReader()
  }
  const timeMs = Math.min(limits?.timeMs ?? LIMITS.commandMs, LIMITS.commandMs)
  const timer = setTimeout(() => stop('command_timed_out', `it took longer than ${timeMs} ms`), timeMs)
  const cancel = (): void => stop('command_cancelled', 'it was called off')
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  const { stdout, stderr } = started.child
  const read = Promise.all([output.read('stdout', stdout), output.read('stderr', stderr)])
  const end = await started.ended
  clearTimeout(timer)
  signal.removeEventListener('abort', cancel)
  // What left the group may hold the other end for ever, and may print for ever.
  const leave = setTimeout(() => output.leaveReader(), LIMITS.commandDrainMs)
  const close = setTimeout(() => {
    stdout?.destroy()
    stderr?.destroy()
  }, 2 * LIMITS.commandDrainMs)
  if (end.failed !== undefined) stdout?.destroy()
  if (end.failed !== undefined) stderr?.destroy()
  await read
  clearTimeout(leave)
  clearTimeout(close)
  return { end, stopped }
}

class Changed {
  readonly why: string
  constructor(why: string) {
    this.why = why
  }
}

/**
 * I44: what somebody else could write while it runs is executed from a copy that was compared. An interpreter reads its script as it goes, so
 * that a line which is added later would run too.
 * @returns the copy of each file
 */
async function copyUnsettled({ code, launch }: Held, stack: AsyncDisposableStack): Promise<Changed | ReadonlyMap<CodeFile, string>> {
  const run = new Set([launch.file, ...launch.arguments.flatMap((one) => (typeof one === 'string' ? [] : [one.code]))])
  const copied = code.filter((one) => !one.isSettled && run.has(one))
  const copies = new Map<CodeFile, string>()
  if (copied.length === 0) return copies
  const folder = await realpath(await mkdtemp(join('/tmp', 'sallyport-code-')))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  await chmod(folder, 0o700)
  for (const [i, one] of copied.entries()) {
    await mkdir(join(folder, String(i)), { mode: 0o700 })
    const copy = join(folder, String(i), basename(one.identity.path))
    if (!(await copyCode(one, copy, 0o500))) return new Changed(`${one.identity.path} was written since`)
    const moved = await changeOfName(one)
    if (moved !== undefined) return new Changed(moved)
    copies.set(one, copy)
  }
  return copies
}

/** Programs by their descriptors, scripts by copies where they could change: what is executed is what was hashed, whatever its name leads to now. */
function startBare({ subject, launch, cwd }: Held, copies: ReadonlyMap<CodeFile, string>): Started {
  const isLinux = process.platform === 'linux'
  const copy = copies.get(launch.file)
  const file = copy ?? (isLinux ? `/proc/self/fd/${launch.file.handle.fd}` : launch.file.identity.path)
  return startGroup(file, {
    argv0: launch.argv0,
    args: launch.arguments.map((one) => argumentOf(one, copies)),
    cwd: isLinux ? `/proc/self/fd/${cwd.handle.fd}` : cwd.path,
    environment: subject.environment,
  })
}

function argumentOf(argument: Argument, copies: ReadonlyMap<CodeFile, string>): string {
  if (typeof argument === 'string') return argument
  const copy = copies.get(argument.code)
  return copy === undefined ? argument.token : `${argument.prefix}${copy}`
}

/** In a sandbox everything has its own place, and copies are mounted over what could change. */
async function startSandboxed(
  { subject, launch, cwd, place, path, temporary }: Held,
  copies: ReadonlyMap<CodeFile, string>,
): Promise<Started> {
  const workspace = await realpath(place.workspace)
  const homeFolder = await realpath(subject.environment['HOME'] ?? '/').catch(() => '/')
  const hidden = [await realpath(place.home).catch(() => place.home)]
  const git = join(workspace, '.git')
  // Where nothing can be mounted, copies are executed where they are.
  const isMounted = subject.sandbox === 'bubblewrap'
  const placeOf = (code: CodeFile, otherwise: string): string => {
    const copy = copies.get(code)
    if (copy === undefined) return otherwise
    return isMounted ? code.identity.path : copy
  }
  const view = {
    workspace,
    hidden,
    homeFolder,
    temporary: await realpath(temporary),
    tools: toolsOf(path, homeFolder, hidden),
    fixed: existsSync(git) ? [git] : [],
    pinned: [...copies].map(([code, copy]) => ({ path: code.identity.path, copy })),
    cwd: cwd.path,
  }
  const args = launch.arguments.map((one) => {
    if (typeof one === 'string') return one
    return copies.has(one.code) ? `${one.prefix}${placeOf(one.code, '')}` : one.token
  })
  const { file, args: whole } = inSandbox(view, placeOf(launch.file, launch.file.named), args)
  return startGroup(file, { args: whole, cwd: '/', environment: subject.environment })
}

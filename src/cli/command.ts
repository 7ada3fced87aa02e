import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util'
import { codeOf, SallyportError } from '../kernel/errors.ts'

export type Io = {
  out(text: string): void
  err(text: string): void
  readonly env: Readonly<Record<string, string | undefined>>
}

export type Command = {
  /** One line for the list of commands. */
  readonly summary: string
  /** The whole of `--help`. */
  readonly usage: string
  /** The exit code: 0 done, 1 failed, 2 usage or bad configuration. */
  run(argv: readonly string[], io: Io): Promise<number>
}

/** Flags and positionals; unknown flags, missing values and surplus positionals throw `usage`. */
export function parseFlags<const O extends ParseArgsOptionsConfig>(
  argv: readonly string[],
  options: O,
  positionals: { min: number; max: number },
) {
  const parsed = readArgs(argv, options)
  const count = parsed.positionals.length
  if (count < positionals.min) throw new SallyportError('usage', 'an argument is missing', { hint: 'see --help' })
  if (count > positionals.max) {
    throw new SallyportError('usage', `unexpected argument "${parsed.positionals[positionals.max] ?? ''}"`, { hint: 'see --help' })
  }
  return parsed
}

function readArgs<const O extends ParseArgsOptionsConfig>(argv: readonly string[], options: O) {
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true })
  } catch (cause) {
    if (!codeOf(cause).startsWith('ERR_PARSE_ARGS')) throw cause
    throw new SallyportError('usage', cause instanceof Error ? (cause.message.split('. ')[0] ?? '') : String(cause), { hint: 'see --help' })
  }
}

/** `$SALLYPORT_HOME`, by default `~/.sallyport`. */
export function homeOf(env: Io['env']): string {
  return env['SALLYPORT_HOME'] || join(homedir(), '.sallyport')
}

/** The folder of the installation, which holds `policies/`. */
export const packageRoot = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? '../../' : '../', import.meta.url))

/** Where `extends` looks, in order. */
export function policyDirs(env: Io['env']): string[] {
  return [join(packageRoot, 'policies'), join(homeOf(env), 'policies')]
}

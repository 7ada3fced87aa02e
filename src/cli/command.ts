import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { nearest } from '../kernel/nearest.ts'

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

type Positionals = {
  readonly min: number
  readonly max: number
  /** What the missing ones are called, in order. */
  readonly names?: readonly string[]
  /** How it is to be written: the hint of every complaint. */
  readonly usage?: string
}

/** Flags and positionals; unknown flags, missing values and surplus positionals throw `usage`. */
export function parseFlags<const O extends ParseArgsOptionsConfig>(argv: readonly string[], options: O, positionals: Positionals) {
  const { min, max, names = [] } = positionals
  const hint = positionals.usage === undefined ? 'see --help' : `usage: ${positionals.usage}`
  const parsed = readArgs(argv, options, hint)
  const count = parsed.positionals.length
  if (count < min) throw new SallyportError('usage', `${names[count] ?? 'an argument'} is missing`, { hint })
  if (count > max) throw new SallyportError('usage', `unexpected argument "${parsed.positionals[max] ?? ''}"`, { hint })
  return parsed
}

function readArgs<const O extends ParseArgsOptionsConfig>(argv: readonly string[], options: O, hint: string) {
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true })
  } catch (cause) {
    if (!codeOf(cause).startsWith('ERR_PARSE_ARGS')) throw cause
    const message = cause instanceof Error ? (cause.message.split('. ')[0] ?? '') : String(cause)
    const unknown = codeOf(cause) === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? /^Unknown option '(-+[^']*)'/.exec(message)?.[1] : undefined
    if (unknown === undefined) throw new SallyportError('usage', message, { hint })
    throw unknownWord(`unknown flag "${unknown}"`, unknown.replace(/^-+/, ''), [...Object.keys(options), 'help'], '--', hint)
  }
}

/** The subcommand that a command line begins with. @throws usage for none and for one that is not there, with the nearest */
export function parseVerb<const V extends string>(command: string, name: string | undefined, verbs: readonly V[]): V {
  const found = verbs.find((verb) => verb === name)
  if (found !== undefined) return found
  const lines = verbs.map((verb) => `sallyport ${command} ${verb}`).join(', ')
  if (name === undefined || name.startsWith('-'))
    throw new SallyportError('usage', `${command} needs a command`, { hint: `there ${verbs.length === 1 ? 'is' : 'are'} ${lines}` })
  throw unknownWord(`${command} has no command "${name}"`, name, verbs, '', `there ${verbs.length === 1 ? 'is' : 'are'} ${lines}`)
}

/** A complaint about a word that is none of those known, with the nearest of them. */
export function unknownWord(message: string, word: string, known: readonly string[], prefix: string, hint: string): SallyportError {
  const near = nearest(word, known)
  return new SallyportError('usage', near === undefined ? message : `${message}: did you mean "${prefix}${near}"?`, { hint })
}

/** `$SALLYPORT_HOME`, by default `~/.sallyport`. */
export function homeOf(env: Io['env']): string {
  return env['SALLYPORT_HOME'] || join(homedir(), '.sallyport')
}

/** The folder of the installation, which holds `policies/`. */
export const packageRoot = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? '../../' : '../', import.meta.url))

/** Where `extends` looks, in order. */
export function policyDirs(env: Io['env']): string[] {
  // A session's sidecar reads what was judged when it was set up, and nothing of its image in its place.
  const frozen = env['SALLYPORT_POLICY_DIRS']
  if (frozen) return frozen.split(':').filter(Boolean)
  return [join(packageRoot, 'policies'), join(homeOf(env), 'policies')]
}

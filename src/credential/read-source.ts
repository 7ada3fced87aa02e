import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Secret } from '../kernel/secret.ts'
import type { CommandSource, SourceOf } from '../wire/secret-source.ts'
import { runCommand, type CommandRun } from './run-command.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** How a program is asked for a value. */
type Reading = Pick<CommandRun, 'argv' | 'variables'> & {
  /** What of its output is the value, without the line end. A string in `problem` is why there is none. */
  readonly value?: (output: string) => string | { readonly problem: string }
}

/** @throws secret_missing, secret_invalid */
export function readVariable(name: string, { variable }: SourceOf<'env'>, env: Environment): Secret {
  const value = env[variable]
  if (value === undefined) {
    throw new SallyportError('secret_missing', `secret ${name}: the environment variable ${variable} is not set`, {
      hint: `set ${variable} for the process that runs Sallyport, or change the source of ${name}`,
    })
  }
  return checkedSecret(name, value)
}

/** One line end at its end is cut. @throws secret_missing, secret_invalid */
export function readFile(name: string, { path }: SourceOf<'file'>): Secret {
  const missing = (why: string, cause?: unknown): SallyportError =>
    new SallyportError('secret_missing', `secret ${name}: ${path} ${why}`, {
      hint: `put the value into ${path}, readable by this user`,
      cause,
    })
  let file: number | undefined
  try {
    // A FIFO would hold up the start for good, a device may never end.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stats = fstatSync(file)
    if (!stats.isFile()) throw missing('is not a regular file')
    const bytes = Buffer.alloc(LIMITS.secretBytesMax + 1)
    let length = 0
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(file, bytes, length, bytes.length - length, null)
    const value = bytes.toString('utf8', 0, length).replace(/\r?\n$/, '')
    bytes.fill(0)
    if (length > LIMITS.secretBytesMax) throw missing(`has ${stats.size} bytes, ${LIMITS.secretBytesMax} at most are read`)
    return checkedSecret(name, value)
  } catch (error) {
    throw error instanceof SallyportError ? error : missing(`cannot be read (${codeOf(error)})`, error)
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** Runs the program that has the value. @throws secret_unavailable */
export async function readCommand(name: string, source: CommandSource, env: Environment, signal?: AbortSignal): Promise<Secret> {
  const { argv, variables = [], value = withoutLineEnd } = readingOf(source)
  const outcome = await runCommand({ argv, env, variables, ...(signal && { signal }) })
  if ('failed' in outcome) throw unavailable(name, outcome.failed)
  const found = value(outcome.output)
  if (typeof found !== 'string') throw unavailable(name, found.problem)
  try {
    return checkedSecret(name, found)
  } catch (invalid) {
    throw unavailable(name, invalid instanceof Error ? invalid.message : 'invalid')
  }
}

/** Name of the program that a source needs. */
export function programOf(source: CommandSource): string {
  return readingOf(source).argv[0] ?? ''
}

/** What further variables the program of a source sees, as the place of its store. */
export function variablesOf(kind: CommandSource['kind']): readonly string[] {
  return VARIABLES[kind]
}

const VARIABLES: Readonly<Record<CommandSource['kind'], readonly string[]>> = {
  exec: [],
  op: ['OP_ACCOUNT', 'OP_CONFIG_DIR', 'OP_CONNECT_HOST', 'OP_CONNECT_TOKEN', 'OP_SERVICE_ACCOUNT_TOKEN', 'XDG_CONFIG_HOME'],
  keychain: [],
  libsecret: [],
  // Where gpg's key is locked its agent asks in a window.
  pass: ['DISPLAY', 'GNUPGHOME', 'PASSWORD_STORE_DIR', 'WAYLAND_DISPLAY', 'XAUTHORITY'],
}

function readingOf(source: CommandSource): Reading {
  const variables = VARIABLES[source.kind]
  switch (source.kind) {
    case 'exec':
      return { argv: source.argv }
    case 'op':
      return { argv: ['op', 'read', `op://${source.path}`], variables }
    case 'keychain': {
      const account = source.account === undefined ? [] : ['-a', source.account]
      return { argv: ['security', 'find-generic-password', '-s', source.service, ...account, '-w'], variables }
    }
    case 'libsecret':
      return { argv: ['secret-tool', 'lookup', ...source.attributes.flat()], variables }
    case 'pass':
      return {
        argv: ['pass', 'show', '--', source.path],
        variables,
        value(output) {
          // By convention the first line of an entry is its password; what follows are notes.
          const first = withoutLineEnd(output.slice(0, output.indexOf('\n') + 1 || output.length))
          // Of a folder its name and what is in it is printed.
          return first === source.path ? { problem: `the store has no entry ${source.path}, or a folder of this name` } : first
        },
      }
  }
}

function withoutLineEnd(output: string): string {
  return output.replace(/\r?\n$/, '')
}

function unavailable(name: string, why: string): SallyportError {
  // I31: neither the output nor the error text of the command, which may hold the value.
  return new SallyportError('secret_unavailable', `the secret ${name} could not be obtained (${why})`, {
    hint: 'the operator finds the cause in the log',
  })
}

/**
 * A value that would change the shape of a header is refused: CR and LF would end it, other bytes are read differently.
 * @throws secret_invalid
 */
export function checkedSecret(name: string, value: string): Secret {
  const problem =
    value === ''
      ? 'is empty'
      : /[^\x20-\x7e]/.test(value)
        ? 'has a line break, control character or non-ASCII character'
        : value !== value.trim()
          ? 'begins or ends with a space'
          : value.length < LIMITS.secretCharsMin
            ? `has fewer than ${LIMITS.secretCharsMin} characters, which cannot be told from ordinary text in answers`
            : undefined
  if (problem === undefined && value.length <= LIMITS.secretBytesMax) return new Secret(name, value)
  throw new SallyportError('secret_invalid', `secret ${name}: its value ${problem ?? 'is too long'}`, {
    hint: 'store just the value, as the service gave it',
  })
}

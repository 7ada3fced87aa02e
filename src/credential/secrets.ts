import { readFileSync, statSync } from 'node:fs'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'

/** Where a secret comes from. The value itself is in no declaration. */
export type SecretDeclaration = {
  readonly name: string
  readonly source:
    | { readonly kind: 'env'; readonly variable: string }
    | { readonly kind: 'file'; readonly path: string }
    | { readonly kind: 'exec'; readonly argv: readonly string[] }
}

export type Secrets = {
  /** The value, from memory or from the command that prints it. @throws secret_unavailable */
  get(name: string): Promise<Secret>
  /** The same where it takes no waiting, else nothing. */
  atHand(name: string): Secret | undefined
  /**
   * Every value that was obtained so far, the newest first, `LIMITS.formerSecretsMax` at most: what may have been sent. The same
   * array for as long as nothing is added.
   */
  known(name: string): readonly Secret[]
}

const NONE: readonly Secret[] = []

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

/**
 * Reads all secrets of environment and files at once; those of commands are run when first needed, one run at a time,
 * and kept for `LIMITS.secretExecTtlMs`. Values live in memory only.
 * @throws secret_missing, secret_invalid
 */
export function openSecrets(
  declarations: readonly SecretDeclaration[],
  env: Readonly<Record<string, string | undefined>>,
  system: Pick<System, 'now'>,
): Secrets {
  const known = new Map<string, () => Promise<Secret>>()
  const obtained = new Map<string, readonly Secret[]>()
  /** Of the environment and of files: they stay what they are. */
  const fixed = new Map<string, Secret>()
  const note = (secret: Secret): Secret => {
    const before = obtained.get(secret.name) ?? []
    // A value that comes back is the newest again, and the same object: what was made of it holds.
    const same = before.find((value) => value.equals(secret)) ?? secret
    if (before[0] === same) return same
    obtained.set(secret.name, [same, ...before.filter((value) => value !== same)].slice(0, LIMITS.formerSecretsMax))
    return same
  }
  for (const declaration of declarations) {
    const { name, source } = declaration
    if (source.kind === 'exec') {
      const get = createCommandSecret(name, source.argv, env, system)
      known.set(name, async () => note(await get()))
    } else {
      const secret = source.kind === 'env' ? fromVariable(name, source.variable, env) : fromFile(name, source.path)
      note(secret)
      fixed.set(name, secret)
      known.set(name, () => Promise.resolve(secret))
    }
  }
  return {
    get(name) {
      const get = known.get(name)
      return get ? get() : Promise.reject(new SallyportError('secret_unavailable', `the secret ${name} is not declared`))
    },
    atHand: (name) => fixed.get(name),
    known: (name) => obtained.get(name) ?? NONE,
  }
}

function fromVariable(name: string, variable: string, env: Readonly<Record<string, string | undefined>>): Secret {
  const value = env[variable]
  if (value === undefined) {
    throw new SallyportError('secret_missing', `secret ${name}: the environment variable ${variable} is not set`, {
      hint: `set ${variable} for the process that runs Sallyport, or change the source of ${name}`,
    })
  }
  return checked(name, value)
}

function fromFile(name: string, path: string): Secret {
  const missing = (why: string, cause?: unknown): SallyportError =>
    new SallyportError('secret_missing', `secret ${name}: ${path} ${why}`, {
      hint: `put the value into ${path}, readable by this user`,
      cause,
    })
  try {
    const stats = statSync(path)
    // A FIFO would hold up the start for good, a device may never end.
    if (!stats.isFile()) throw missing('is not a regular file')
    const { size } = stats
    if (size > LIMITS.secretBytesMax) throw missing(`has ${size} bytes, ${LIMITS.secretBytesMax} at most are read`)
    return checked(name, readFileSync(path, 'utf8').replace(/\r?\n$/, ''))
  } catch (error) {
    throw error instanceof SallyportError ? error : missing(`cannot be read (${codeOf(error)})`, error)
  }
}

function createCommandSecret(
  name: string,
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  system: Pick<System, 'now'>,
): () => Promise<Secret> {
  let running: Promise<Secret> | undefined
  let kept: { secret: Secret; until: number } | undefined
  return () => {
    if (kept && kept.until > system.now()) return Promise.resolve(kept.secret)
    kept = undefined
    running ??= run(name, argv, env)
      .then((secret) => {
        kept = { secret, until: system.now() + LIMITS.secretExecTtlMs }
        return secret
      })
      .finally(() => {
        running = undefined
      })
    return running
  }
}

async function run(name: string, argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<Secret> {
  // Loaded when a command is run: most gates run none.
  const { execFile } = await import('node:child_process')
  const [file = '', ...args] = argv
  const scrubbed = Object.fromEntries(EXEC_ENVIRONMENT.flatMap((key) => (env[key] === undefined ? [] : [[key, env[key]]])))
  return new Promise((resolve, reject) => {
    const unavailable = (why: string): void =>
      // Neither the output nor the error text of the command: both may hold the value.
      reject(
        new SallyportError('secret_unavailable', `the secret ${name} could not be obtained (${why})`, {
          hint: 'the operator finds the cause in the log',
        }),
      )
    execFile(
      file,
      args,
      { env: scrubbed, timeout: LIMITS.secretExecMs, maxBuffer: LIMITS.secretBytesMax, killSignal: 'SIGKILL', encoding: 'utf8' },
      (error, stdout) => {
        if (error)
          return unavailable(
            error.killed
              ? 'its command took too long'
              : `its command failed: ${typeof error.code === 'string' ? error.code : `exit ${error.code ?? error.signal}`}`,
          )
        try {
          resolve(checked(name, stdout.replace(/\r?\n$/, '')))
        } catch (invalid) {
          unavailable(invalid instanceof Error ? invalid.message : 'invalid')
        }
      },
    ).stdin?.end()
  })
}

/** A value that would change the shape of a header is refused: CR and LF would end it, other bytes are read differently. */
export function checked(name: string, value: string): Secret {
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

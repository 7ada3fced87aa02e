import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { findProgram, programOf, readCommand, runCommand, variablesOf } from '../../credential/credential.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { Secret } from '../../kernel/secret.ts'
import type { CommandSource, SourceKind, SourceOf } from '../../wire/secret-source.ts'
import type { Provider } from './provider.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** `security -i` reads lines of 4096 bytes. What stands around the value in hexadecimal takes some of it. */
const KEYCHAIN_LINE_BYTES = 4_000

/** Any program that prints a secret. */
export function execProvider(env: Environment): Provider<'exec'> {
  return { ...reading('exec', env), cannot: 'a command of exec: only prints: use the program itself' }
}

/** 1Password, by `op`. */
export function onePasswordProvider(env: Environment): Provider<'op'> {
  return {
    ...reading('op', env),
    cannot: 'do it in 1Password: its program takes new values as arguments, which every process of the machine can read',
  }
}

/** macOS Keychain, by `security`. */
export function keychainProvider(env: Environment): Provider<'keychain'> {
  const read = reading('keychain', env)
  return {
    ...read,
    async set(source, value, signal) {
      await run('keychain', ['security', '-i'], { env, input: keychainLine(source, value), signal })
      // It ends with 0 also where a line of its input failed.
      const stored = await read.get(value.name, source, signal)
      if (!stored.equals(value)) throw refused('keychain', 'the value is another when it is read back')
    },
    delete: ({ service, account }, signal) =>
      run('keychain', ['security', 'delete-generic-password', '-s', service, ...(account === undefined ? [] : ['-a', account])], {
        env,
        signal,
      }),
    cannot: 'look into Keychain Access: "security" lists every item of every program at once',
  }
}

/** The Secret Service, by `secret-tool`. `set` replaces the item that has all the attributes, `delete` removes every one that has. */
export function libsecretProvider(env: Environment): Provider<'libsecret'> {
  return {
    ...reading('libsecret', env),
    set: ({ attributes }, value, signal) =>
      run('libsecret', ['secret-tool', 'store', `--label=${value.name}`, ...attributes.flat()], { env, input: value, signal }),
    delete: ({ attributes }, signal) => run('libsecret', ['secret-tool', 'clear', ...attributes.flat()], { env, signal }),
    cannot: 'look with Seahorse or another viewer: "secret-tool search" prints the values with the names',
  }
}

/** pass, the password store. `set` replaces the whole entry. */
export function passProvider(env: Environment): Provider<'pass'> {
  return {
    ...reading('pass', env),
    set: ({ path }, value, signal) => run('pass', ['pass', 'insert', '--multiline', '--force', '--', path], { env, input: value, signal }),
    async delete({ path }, signal) {
      // Of a folder "pass rm" says that all went well, and removes nothing.
      if (!existsSync(join(storeOf(env), `${path}.gpg`)))
        throw new SallyportError('secret_missing', `the password store has no entry ${path}`, { hint: 'look with: pass ls' })
      await run('pass', ['pass', 'rm', '--force', '--', path], { env, signal })
    },
    list: (under) => listStore(env, under),
    cannot: 'use the program "pass"',
  }
}

function reading<K extends CommandSource['kind']>(kind: K, env: Environment) {
  return {
    kind,
    get: (name: string, source: SourceOf<K>, signal: AbortSignal): Promise<Secret> => readCommand(name, source, env, signal),
    problem(source: SourceOf<K>): string | undefined {
      const program = programOf(source)
      return findProgram(program, env) === undefined ? `the program "${program}" is not in PATH` : undefined
    },
  }
}

type Writing = { readonly env: Environment; readonly input?: Secret; readonly signal: AbortSignal }

/** Runs a program that changes its store. @throws secret_unavailable */
async function run(kind: CommandSource['kind'], argv: readonly string[], { env, input, signal }: Writing): Promise<void> {
  const outcome = await runCommand({ argv, env, variables: variablesOf(kind), signal, ...(input && { input }) })
  if ('failed' in outcome) throw refused(kind, outcome.failed)
}

function refused(kind: SourceKind, why: string): SallyportError {
  return new SallyportError('secret_unavailable', `"${kind}:" did not take the change (${why})`, {
    hint: 'try the same with the program itself: what it says is not shown here, as it may hold the value',
  })
}

/** A command for `security -i`. In hexadecimal, so that nothing of the value is read as anything else. */
function keychainLine({ service, account }: SourceOf<'keychain'>, value: Secret): Secret {
  const named = account === undefined ? '' : ` -a "${account}"`
  const line = `add-generic-password -U -s "${service}"${named} -X ${Buffer.from(value.reveal()).toString('hex')}\n`
  if (line.length > KEYCHAIN_LINE_BYTES) throw refused('keychain', 'the value is too long for "security -i"')
  return new Secret(value.name, line)
}

function storeOf(env: Environment): string {
  return env['PASSWORD_STORE_DIR'] ?? join(env['HOME'] ?? '/', '.password-store')
}

/** The entries of the store by its files: what "pass ls" draws is for people. */
async function listStore(env: Environment, under: string | undefined): Promise<string[]> {
  const store = storeOf(env)
  const found: string[] = []
  const folders = [under ?? '']
  let seen = 0
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    const entries = await readdir(join(store, folder), { withFileTypes: true }).catch((error: unknown) => {
      throw new SallyportError('secret_unavailable', `the password store ${store} could not be listed (${codeOf(error)})`, { cause: error })
    })
    for (const entry of entries.filter(({ name }) => !name.startsWith('.'))) {
      seen += 1
      if (seen > LIMITS.secretsListedMax)
        throw new SallyportError('secret_unavailable', `the password store ${store} has more than ${LIMITS.secretsListedMax} entries`)
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (entry.isDirectory()) folders.push(path)
      else if (entry.isFile() && path.endsWith('.gpg')) found.push(`pass:${path.slice(0, -'.gpg'.length)}`)
    }
  }
  return found.toSorted()
}

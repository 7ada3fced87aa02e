import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import type { CommandSource, SecretSource, SourceOf } from '../wire/secret-source.ts'
import { readCommand, readFile, readVariable } from './read-source.ts'

/** Where a secret comes from. The value itself is in no declaration. */
export type SecretDeclaration = {
  readonly name: string
  readonly source: SecretSource
  /** How long the value that a command printed is used again; `LIMITS.secretExecTtlMs` when left out. */
  readonly ttlMs?: number
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

/**
 * Reads all secrets of environment and files at once; those of commands are run when first needed, one run at a time,
 * and kept for their time. Values live in memory only.
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
    if (source.kind === 'vault' || source.kind === 'vault-http' || source.kind === 'mcp-config') throw sourceNeedsDaemon(name, source)
    if (source.kind !== 'env' && source.kind !== 'file') {
      const get = createCommandSecret(declaration, source, env, system)
      known.set(name, async () => note(await get()))
    } else {
      const secret = source.kind === 'env' ? readVariable(name, source, env) : readFile(name, source)
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

function sourceNeedsDaemon(name: string, source: SourceOf<'vault' | 'vault-http' | 'mcp-config'>): SallyportError {
  return new SallyportError('secret_missing', `secret ${name}: a gate without a controller does not read "${source.kind}:"`, {
    hint: `start the session with "sallyport up", under "sallyport daemon"; or use file:, env: or exec: for ${name}`,
  })
}

function createCommandSecret(
  { name, ttlMs = LIMITS.secretExecTtlMs }: SecretDeclaration,
  source: CommandSource,
  env: Readonly<Record<string, string | undefined>>,
  system: Pick<System, 'now'>,
): () => Promise<Secret> {
  let running: Promise<Secret> | undefined
  let kept: { secret: Secret; until: number } | undefined
  return () => {
    if (kept && kept.until > system.now()) return Promise.resolve(kept.secret)
    kept = undefined
    running ??= readCommand(name, source, env)
      .then((secret) => {
        kept = { secret, until: system.now() + ttlMs }
        return secret
      })
      .finally(() => {
        running = undefined
      })
    return running
  }
}

import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import type { SecretGrant } from '../../policy/policy.ts'
import type { Providers } from './providers.ts'
import type { SecretHolder } from '../../wire/secret-holder.ts'
import { createTurns } from '../turns.ts'

/** On whose behalf: `inject`, `route:NAME`, `method:NAME`, `tool:NAME`. */
export type Use = {
  readonly resource: string
  /** Said of the use, where the resource alone says less. */
  readonly says?: string
}

/** What would keep a secret from being obtained. */
export type Problem = { readonly name: string; readonly message: string }

export type Resolver = {
  /**
   * The value, at the moment of use, for a use that the policy permits: for any other no program runs and no server is asked.
   * @throws secret_not_permitted, secret_missing, secret_invalid, secret_unavailable; the signal's reason
   */
  resolve(name: string, use: Use, signal: AbortSignal): Promise<Secret>
  /** Of all declared secrets, as far as it can be told without reading one. */
  check(): readonly Problem[]
  /** Drops every value that is kept for its ttl. */
  forget(): void
}

/** One attempt for one name, however many wait for it. */
type Run = { readonly secret: Promise<Secret>; readonly abort: AbortController; waiting: number }
type Kept = { readonly secret: Secret; readonly untilMs: number; readonly timer: NodeJS.Timeout }

/**
 * Resolves the secrets of one policy: `LIMITS.secretResolutionsMax` at the same time, each name once at a time. A value is kept
 * for the `ttl` that the policy says and otherwise not at all.
 * @param holder whose policy it is
 */
export function createResolver(
  grants: readonly SecretGrant[],
  providers: Pick<Providers, 'get' | 'problem'>,
  system: Pick<System, 'elapsed'>,
  holder: SecretHolder = {},
): Resolver {
  const known = new Map(grants.map((grant) => [grant.name, grant]))
  const running = new Map<string, Run>()
  const kept = new Map<string, Kept>()
  const turns = createTurns(LIMITS.secretResolutionsMax)
  let era = 0

  const drop = (name: string): void => {
    clearTimeout(kept.get(name)?.timer)
    kept.delete(name)
  }
  const begin = ({ name, source, ttlMs }: SecretGrant, use: string): Run => {
    const abort = new AbortController()
    const began = era
    const secret = turns
      .take(abort.signal, () => providers.get(name, source, abort.signal, { ...holder, use }))
      .then((value) => {
        if (ttlMs !== undefined && began === era) {
          drop(name)
          // Nobody may ask again: the value goes all the same.
          kept.set(name, { secret: value, untilMs: system.elapsed() + ttlMs, timer: setTimeout(() => drop(name), ttlMs).unref() })
        }
        return value
      })
      .finally(() => {
        if (running.get(name) === run) running.delete(name)
      })
    const run: Run = { secret, abort, waiting: 0 }
    running.set(name, run)
    return run
  }

  return {
    async resolve(name, { resource, says = resource }, signal) {
      const grant = known.get(name)
      if (grant === undefined)
        throw new SallyportError('secret_missing', `the secret ${name} is not declared`, { hint: 'declare it under secrets in the policy' })
      // I30: before anything else is looked at, also what is kept.
      if (!grant.uses.includes(resource)) throw notPermitted(name, resource)
      signal.throwIfAborted()
      const found = kept.get(name)
      if (found !== undefined && found.untilMs > system.elapsed()) return found.secret
      drop(name)
      let run = running.get(name)
      // One that nobody waits for any more is being ended: the next begins when it has.
      while (run?.abort.signal.aborted === true) {
        await run.secret.catch(() => undefined)
        signal.throwIfAborted()
        run = running.get(name)
      }
      return wait(run ?? begin(grant, says), signal)
    },
    check: () =>
      grants.flatMap(({ name, source }) => {
        const message = providers.problem(source)
        return message === undefined ? [] : [{ name, message }]
      }),
    forget() {
      era += 1
      for (const name of kept.keys()) drop(name)
    },
  }
}

/** Waits for a run that others may wait for too; the last that leaves ends it. */
async function wait(run: Run, signal: AbortSignal): Promise<Secret> {
  const left = Promise.withResolvers<never>()
  const leave = (): void => left.reject(signal.reason)
  run.waiting += 1
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([run.secret, left.promise])
  } finally {
    signal.removeEventListener('abort', leave)
    run.waiting -= 1
    if (run.waiting === 0) run.abort.abort()
  }
}

function notPermitted(name: string, resource: string): SallyportError {
  return new SallyportError('secret_not_permitted', `the secret ${name} is not for ${resource}`, {
    hint: `where that is right, the operator adds ${resource} to the resources of ${name} in the policy`,
  })
}

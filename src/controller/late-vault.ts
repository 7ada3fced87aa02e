import { existsSync } from 'node:fs'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import type { Secret } from '../kernel/secret.ts'
import type { SecretHolder } from '../wire/secret-holder.ts'
import type { Vault } from '../vault/vault.ts'

/** The vault of a daemon, which may be made while it runs, or be unlocked. */
export type LateVault<V = Vault> = AsyncDisposable & {
  /** @throws secret_missing, secret_not_permitted; secret_unavailable when there is none yet, or it stayed locked */
  get(key: string, holder?: SecretHolder): Promise<Secret>
  /** Whether a holder could have it, without reading it. `closed`: nobody can say. */
  has(key: string, holder: SecretHolder): Promise<'there' | 'absent' | 'kept' | 'closed'>
  /** The vault itself, for the operator; none where there is none yet. @throws why it is closed */
  opened(): Promise<V | undefined>
  /**
   * Tries again to open it, with a passphrase where one is given. One at a time; what is open stays so until another try succeeds.
   * @throws why it stays closed; vault_missing
   */
  unlock(passphrase: Secret | undefined): Promise<V>
}

type Opened = Pick<Vault, 'get' | 'has'> & AsyncDisposable

export type LateVaultOptions = {
  /** Told of each value that somebody gets who says what for. */
  readonly onUse?: (key: string, holder: SecretHolder) => void
}

/**
 * Opens the vault now, or when something of it is first wanted where there is none yet. One that cannot be opened keeps no session from
 * starting that needs nothing of it, and stays closed until it is unlocked, or until the next daemon.
 */
export async function openLateVault<V extends Opened>(
  file: string,
  open: (file: string, passphrase?: Secret) => Promise<V>,
  log: Pick<Log, 'warn'>,
  { onUse = () => undefined }: LateVaultOptions = {},
): Promise<LateVault<V>> {
  let opening: Promise<V> | undefined
  let unlocking: Promise<unknown> = Promise.resolve()
  const opened = (): typeof opening => {
    if (opening === undefined && existsSync(file)) {
      opening = open(file)
      opening.catch((error: unknown) => {
        // Another process has it in hand, or makes it: the next time may do better.
        if (['vault_busy', 'vault_missing'].includes(codeOf(error))) opening = undefined
        const reason = error instanceof SallyportError ? error.message : ''
        log.warn({ code: codeOf(error), reason }, 'the vault is closed: secrets of it cannot be used')
      })
    }
    return opening
  }
  await opened()?.catch((error: unknown) => {
    if (!(error instanceof SallyportError)) throw error
  })
  return {
    async get(key, holder = {}) {
      const vault = await opened()?.catch(explain)
      if (vault === undefined)
        throw new SallyportError('secret_unavailable', `there is no vault yet, so that it has no "${key}"`, {
          hint: `make it: sallyport secret set ${key}`,
        })
      const value = vault.get(key, holder)
      if (holder.use !== undefined) onUse(key, holder)
      return value
    },
    async has(key, holder) {
      try {
        return (await opened())?.has(key, holder) ?? 'absent'
      } catch (error) {
        if (!(error instanceof SallyportError)) throw error
        return 'closed'
      }
    },
    async opened() {
      return await opened()
    },
    unlock(passphrase) {
      const tried = unlocking.then(async () => {
        const vault = await open(file, passphrase)
        const before = await opening?.catch(() => undefined)
        opening = Promise.resolve(vault)
        await before?.[Symbol.asyncDispose]()
        return vault
      })
      unlocking = tried.catch(() => undefined)
      return tried
    },
    async [Symbol.asyncDispose]() {
      await unlocking
      const vault = await opening?.catch(() => undefined)
      await vault?.[Symbol.asyncDispose]()
    },
  }
}

function explain(error: unknown): never {
  if (!(error instanceof SallyportError)) throw error
  throw new SallyportError(
    'secret_unavailable',
    `the vault is not open (${error.code}: ${error.message})`,
    error.hint === undefined ? {} : { hint: error.hint },
  )
}

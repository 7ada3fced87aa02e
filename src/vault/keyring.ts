import type * as Package from '@napi-rs/keyring'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'

/** A keyring of the operating system: one small binary value an account. */
export type Keyring = {
  /** The buffer is the caller's to wipe. `undefined` when there is none. @throws keyring_unavailable */
  get(account: string): Promise<Buffer | undefined>
  /** @throws keyring_unavailable */
  set(account: string, key: Buffer): Promise<void>
  /** @throws keyring_unavailable */
  delete(account: string): Promise<void>
}

const SERVICE = 'sallyport vault'

/**
 * The keyring of the operating system by @napi-rs/keyring, which is loaded now and may not be installed.
 * @throws keyring_unavailable
 */
export async function openKeyring(load: () => Promise<typeof Package> = () => import('@napi-rs/keyring')): Promise<Keyring> {
  const { AsyncEntry } = await load().catch((cause: unknown) => {
    throw unavailable('the package @napi-rs/keyring is not installed for this machine', cause)
  })
  // Pinned: without a Secret Service the package would fall back to the kernel's keys, which are gone after a restart, and the vault with them.
  const entryOf = (account: string) => new AsyncEntry(SERVICE, account, { linux: { store: 'secret-service' } })
  return {
    get: (account) =>
      bounded(async () => {
        const bytes = await entryOf(account).getSecret()
        return bytes === null ? undefined : Buffer.from(bytes)
      }),
    set: (account, key) => bounded(() => entryOf(account).setSecret(key)),
    delete: (account) => bounded(async () => void (await entryOf(account).deleteCredential())),
  }
}

/** The keyring may be showing the operator a dialog, and its library can't be told to give up. */
async function bounded<T>(ask: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(unavailable(`no answer within ${LIMITS.keyringMs} ms`)), LIMITS.keyringMs)
  })
  try {
    return await Promise.race([ask(), late])
  } catch (error) {
    throw error instanceof SallyportError ? error : unavailable(error instanceof Error ? firstLine(error.message) : 'it failed', error)
  } finally {
    clearTimeout(timer)
  }
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? ''
}

function unavailable(problem: string, cause?: unknown): SallyportError {
  return new SallyportError('keyring_unavailable', `the keyring of this system cannot be used: ${problem}`, {
    hint: 'start a keyring (Secret Service on Linux) in this session, or lock the vault with a passphrase or a key file',
    cause,
  })
}

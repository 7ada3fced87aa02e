import { writeFile } from 'node:fs/promises'
import * as z from 'zod'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import type { Keyring } from './keyring.ts'
import { placeFile, readOwnBytes } from './own-files.ts'
import { newStretching, stretch, Stretching } from '../kernel/stretch.ts'
import { KEY_BYTES } from './seal.ts'

export const UNLOCK_METHODS = ['keyring', 'passphrase', 'key-file'] as const
export type UnlockMethod = (typeof UNLOCK_METHODS)[number]

/** Where the three kinds of keys are to be had. Only the one that the vault's own record names is asked for. */
export type Unlock = {
  /** A vault that is locked otherwise is refused. */
  readonly method?: UnlockMethod
  /** Path of the key file: 64 hexadecimal digits, mode 0600. */
  readonly keyFile: string
  /** `new`: it is chosen now, so ask twice. @throws vault_locked */
  passphrase(purpose: 'open' | 'new'): Promise<Secret>
  /** @throws keyring_unavailable */
  keyring(): Promise<Keyring>
}

/** How the data key is locked. Stands in the vault, and is bound to the wrapped key. */
export const Lock = z.discriminatedUnion('method', [
  z.strictObject({
    method: z.literal('passphrase'),
    ...Stretching.shape,
  }),
  z.strictObject({ method: z.literal('keyring'), account: z.string().regex(/^[0-9a-f.]{1,100}$/) }),
  z.strictObject({ method: z.literal('key-file') }),
])
export type Lock = z.infer<typeof Lock>

const KEY_TEXT = /^[0-9a-f]{64}\n?$/i

/**
 * A new lock and its key, 32 bytes that the caller wipes. Whatever has to be kept elsewhere (keyring, key file) is there when this
 * returns; a key file that exists is used as it is.
 * @throws vault_locked, vault_unsafe, keyring_unavailable, config_invalid
 */
export async function makeLock(
  method: UnlockMethod,
  vaultId: string,
  unlock: Unlock,
  system: Pick<System, 'random'>,
): Promise<{ lock: Lock; key: Buffer }> {
  switch (method) {
    case 'passphrase': {
      const passphrase = await unlock.passphrase('new')
      checkChosen(passphrase)
      const lock = { method, ...newStretching(system) } as const
      return { lock, key: await stretch(passphrase, lock) }
    }
    case 'keyring': {
      const keyring = await unlock.keyring()
      // A name of its own each time: the entry of the lock before stays until this one is in the vault.
      const lock = { method, account: `${vaultId}.${system.random(4).toString('hex')}` } as const
      const key = system.random(KEY_BYTES)
      await keyring.set(lock.account, key)
      return { lock, key }
    }
    case 'key-file': {
      const fresh = system.random(KEY_BYTES)
      await placeFile(unlock.keyFile, system, (temporary) => writeFile(temporary, `${fresh.toString('hex')}\n`)).catch((cause: unknown) => {
        throw new SallyportError('vault_write_failed', `the key file ${unlock.keyFile} could not be made`, {
          hint: 'name another place with SALLYPORT_VAULT_KEY_FILE',
          cause,
        })
      })
      fresh.fill(0)
      return { lock: { method }, key: readKeyFile(unlock.keyFile) }
    }
  }
}

/** The key of a lock, 32 bytes that the caller wipes. @throws vault_locked, vault_unsafe, keyring_unavailable */
export async function openLock(file: string, lock: Lock, unlock: Unlock): Promise<Buffer> {
  if (unlock.method !== undefined && unlock.method !== lock.method) {
    throw new SallyportError('vault_locked', `${file} is locked with ${nameOf(lock.method)}, and ${nameOf(unlock.method)} was asked for`, {
      hint: `leave out --unlock ${unlock.method}; "sallyport secret rotate-key --to ${unlock.method}" changes it`,
    })
  }
  switch (lock.method) {
    case 'passphrase':
      return stretch(await unlock.passphrase('open'), lock)
    case 'keyring': {
      const key = await (await unlock.keyring()).get(lock.account)
      if (key?.length === KEY_BYTES) return key
      throw new SallyportError('vault_locked', `the keyring has no key for ${file} (service "sallyport vault", account ${lock.account})`, {
        hint: 'it was removed, or this is the keyring of another user or machine',
      })
    }
    case 'key-file':
      return readKeyFile(unlock.keyFile)
  }
}

/** Removes what a lock keeps elsewhere, when it is not in use. What can't be removed opens nothing that is in use either. */
export async function dropLock(lock: Lock, unlock: Unlock): Promise<void> {
  if (lock.method !== 'keyring') return
  try {
    const keyring = await unlock.keyring()
    await keyring.delete(lock.account)
  } catch {}
}

export function nameOf(method: UnlockMethod): string {
  return { keyring: 'the keyring', passphrase: 'a passphrase', 'key-file': 'a key file' }[method]
}

/** @throws config_invalid. The passphrase is not in the message. */
export function checkChosen(passphrase: Secret): void {
  const { length } = passphrase.reveal()
  if (length >= LIMITS.passphraseCharsMin && length <= LIMITS.passphraseCharsMax) return
  throw new SallyportError(
    'config_invalid',
    `the passphrase has ${length} characters: at least ${LIMITS.passphraseCharsMin} and at most ${LIMITS.passphraseCharsMax} are taken`,
    { hint: 'five or six words by chance are good: whoever has the file can try guesses without end' },
  )
}

function readKeyFile(path: string): Buffer {
  const bytes = readOwnBytes(path)
  if (bytes === undefined) {
    throw new SallyportError('vault_locked', `the key file ${path} does not exist`, {
      hint: 'bring it back, or name its place with SALLYPORT_VAULT_KEY_FILE',
    })
  }
  const text = bytes.toString('latin1')
  bytes.fill(0)
  if (KEY_TEXT.test(text)) return Buffer.from(text.slice(0, 2 * KEY_BYTES), 'hex')
  throw new SallyportError('vault_locked', `${path} is not a key file`, { hint: 'a key file holds 64 hexadecimal digits' })
}

import { join } from 'node:path'
import type { Log } from '../kernel/log.ts'
import type { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import { openVault, type Unlock } from '../vault/vault.ts'
import { openLateVault, type LateVault } from './late-vault.ts'
import { vaultChanges, type VaultChanges } from './record/vault-changes.ts'
import { openSecretUses, type SecretUses } from './secret-uses.ts'

/** The vault of the daemon, with what is heard of its changes and its uses. */
export type DaemonVault = AsyncDisposable & {
  readonly file: string
  readonly unlock: Unlock
  readonly vault: LateVault
  readonly changes: VaultChanges
  readonly uses: SecretUses
}

export async function openDaemonVault(home: string, unlock: Unlock, system: System, log: Log): Promise<DaemonVault> {
  await using parts = new AsyncDisposableStack()
  const file = join(home, 'vault.db')
  const uses = parts.use(await openSecretUses(join(home, 'secret-uses.json'), system, log))
  const changes = vaultChanges()
  const open = (path: string, passphrase: Secret | undefined) => openVault(path, typedOr(unlock, passphrase), system, changes)
  const vault = parts.use(
    await openLateVault(file, open, log, {
      onUse: (key, holder) => uses.used(key, holder),
    }),
  )
  const running = parts.move()
  return { file, unlock, vault, changes, uses, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/** With a passphrase that was typed now, in the place of the one that is had without asking. */
function typedOr(unlock: Unlock, passphrase: Secret | undefined): Unlock {
  return passphrase === undefined ? unlock : { ...unlock, passphrase: () => Promise.resolve(passphrase) }
}

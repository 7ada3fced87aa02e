import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import type { Secret } from '../kernel/secret.ts'
import { system, type System } from '../kernel/system.ts'
import { lockMethodOf, scopeOfFolder, scopeOfWorkspace, type SecretRow, type Vault } from '../vault/vault.ts'
import type { SecretsView, SecretView, VaultStateView } from '../wire/secrets.ts'
import type { DaemonVault } from './daemon-vault.ts'
import { makeVault } from './make-vault.ts'
import { rolesOfHome, workspacesOfHome } from './home-policies.ts'
import { createUnlockGuesses } from './unlock-guesses.ts'

export type SecretDeskParts = Omit<DaemonVault, typeof Symbol.asyncDispose> & {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  /** Workspaces of sessions, by their real paths. */
  readonly workspaces: () => readonly string[]
  readonly audit: Pick<Audit, 'append'>
  readonly system: Pick<System, 'elapsed'>
}

/** All but the value: what is left out stays as it is. A scope of a workspace may be written with its folder. */
export type Description = {
  readonly name?: string | undefined
  readonly scope?: string | undefined
  readonly tags?: readonly string[] | undefined
}

/** What the operator does with the vault while the daemon runs. Each change is recorded before it is answered. `by` says who. */
export type SecretDesk = {
  list(): Promise<SecretsView>
  state(): Promise<VaultStateView>
  /**
   * Stores a value; the first one makes the vault.
   * @param seen the version that the operator saw, 0 for none: where it is another one by now, nothing is changed
   * @throws secret_outdated, secret_invalid, config_invalid, vault_full
   */
  set(key: string, value: Secret, wish: Description & { readonly seen?: number | undefined }, by: string): Promise<SecretView>
  /** @throws secret_missing, config_invalid */
  describe(key: string, wish: Description, by: string): Promise<SecretView>
  /** @throws secret_missing */
  remove(key: string, by: string): Promise<void>
  /** The value, for the operator's own eyes; who had it is recorded before. @throws secret_missing, audit_unavailable */
  copy(key: string, by: string): Promise<Secret>
  /** Whether it is there and whole, told without giving it. @throws secret_missing, vault_corrupt */
  look(key: string): Promise<void>
  /** A wrong passphrase is recorded too, and has the next ones wait. @throws vault_key_wrong, vault_locked, vault_missing */
  unlock(passphrase: Secret | undefined, by: string): Promise<VaultStateView>
}

export function createSecretDesk(parts: SecretDeskParts): SecretDesk {
  const { file, uses, audit } = parts
  const guesses = createUnlockGuesses(parts.system)
  const opened = async (): Promise<Vault> => {
    const found = await parts.vault.opened()
    if (found !== undefined) return found
    throw new SallyportError('vault_missing', `${file} does not exist`, { hint: 'the first secret that is stored makes it' })
  }
  return {
    state: () => stateOf(parts),
    list: () => listOf(parts),
    async set(key, value, { seen, ...wish }, by) {
      await makeWhereNone(parts)
      const found = await opened()
      const before = found.list().find((row) => row.key === key)
      if (seen !== undefined && (before?.version ?? 0) !== seen) throw outdated(key, before?.version)
      const row = found.set(key, value, optionsOf(wish))
      await recordChanges(parts, by)
      return viewOf(row, parts)
    },
    async describe(key, wish, by) {
      const row = (await opened()).describe(key, optionsOf(wish))
      await recordChanges(parts, by)
      return viewOf(row, parts)
    },
    async remove(key, by) {
      const found = await opened()
      found.remove(key)
      uses.forget(key)
      await recordChanges(parts, by)
    },
    async copy(key, by) {
      const found = await opened()
      const version = found.list().find((row) => row.key === key)?.version ?? 0
      const value = found.get(key)
      await audit.append({ event: 'operator', did: 'secret_copied', details: `${key} version ${version} by ${by}` })
      return value
    },
    async look(key) {
      const found = await opened()
      found.get(key)
    },
    async unlock(passphrase, by) {
      const { method } = await guesses.take(() => unlockRecorded(parts, passphrase, by))
      await audit.append({ event: 'operator', did: 'vault_unlocked', details: `${basename(file)}, ${method}, by ${by}` })
      return await stateOf(parts)
    },
  }
}

async function unlockRecorded({ vault, file, audit }: SecretDeskParts, passphrase: Secret | undefined, by: string): Promise<Vault> {
  try {
    return await vault.unlock(passphrase)
  } catch (error) {
    if (codeOf(error) === 'vault_key_wrong')
      await audit.append({ event: 'operator', did: 'vault_unlock_failed', details: `${basename(file)}, by ${by}` })
    throw error
  }
}

async function makeWhereNone({ file, unlock }: SecretDeskParts): Promise<void> {
  if (existsSync(file)) return
  try {
    const { vault } = await makeVault(file, unlock)
    await vault[Symbol.asyncDispose]()
  } catch (error) {
    // A command made it at the same moment.
    if (codeOf(error) !== 'vault_exists') throw error
  }
}

async function stateOf({ vault, file }: SecretDeskParts): Promise<VaultStateView> {
  try {
    const found = await vault.opened()
    return found === undefined ? { state: 'none' } : { state: 'open', method: found.method, version: found.version }
  } catch (error) {
    if (!(error instanceof SallyportError)) throw error
    const { code, message, hint } = error
    const method = await lockMethodOf(file, system).catch(() => undefined)
    return { state: 'closed', code, message, ...(hint !== undefined && { hint }), ...(method && { method }) }
  }
}

async function listOf(parts: SecretDeskParts): Promise<SecretsView> {
  const vault = await stateOf(parts)
  const found = vault.state === 'open' ? await parts.vault.opened() : undefined
  return {
    vault,
    secrets: found?.list().map((row) => viewOf(row, parts)) ?? [],
    problems: found?.problems() ?? [],
    workspaces: workspacesOf(parts),
    roles: rolesOfHome(parts.home),
  }
}

function viewOf(row: SecretRow, parts: SecretDeskParts): SecretView {
  const { id: _id, ...view } = row
  const used = parts.uses.last(row.key)
  const scopeFolder = row.scope.startsWith('workspace:')
    ? workspacesOf(parts).find((folder) => scopeOfWorkspace(folder) === row.scope)
    : undefined
  return {
    ...view,
    ...(scopeFolder !== undefined && { scopeFolder }),
    // What was used before this one was made was another secret of its key.
    ...(used !== undefined && used.at >= row.createdAt && { used }),
  }
}

function workspacesOf({ home, workspaces }: SecretDeskParts): string[] {
  return [...new Set([...workspaces(), ...workspacesOfHome(home)])].toSorted()
}

async function recordChanges({ changes, audit }: SecretDeskParts, by: string): Promise<void> {
  try {
    for (const change of changes.taken(by)) await audit.append({ event: 'config_changed', ...change })
  } catch (cause) {
    throw new SallyportError('audit_unavailable', 'the change was made, and could not be recorded', {
      hint: 'make the audit writable again (sallyport audit verify), then make the change again',
      cause,
    })
  }
}

function optionsOf({ name, scope, tags }: Description) {
  return {
    ...(name !== undefined && { name }),
    ...(scope !== undefined && { scope: scopeOfFolder(scope) }),
    ...(tags !== undefined && { tags }),
  }
}

function outdated(key: string, version: number | undefined): SallyportError {
  return new SallyportError(
    'secret_outdated',
    version === undefined ? `there is no "${key}" any more` : `"${key}" has version ${version} by now`,
    { hint: 'look at it again, then decide whether to replace it' },
  )
}

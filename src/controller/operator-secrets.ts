import { join } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import type { System } from '../kernel/system.ts'
import type { DaemonVault } from './daemon-vault.ts'
import type { SecretRoutesParts } from './operator/secret-routes.ts'
import type { Providers } from './providers/providers.ts'
import { createSecretDesk } from './secret-desk.ts'
import { createServicePresets } from './service-presets.ts'
import { entitledOf } from './session-facts.ts'
import type { SessionSecrets } from './session-secrets.ts'
import type { Sessions } from './sessions/sessions.ts'
import type { StateFile } from './state.ts'

export type OperatorSecretsParts = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  /** The folder of the installation. */
  readonly packageRoot: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly kept: DaemonVault
  readonly state: StateFile
  readonly secrets: SessionSecrets
  readonly sessions: Sessions
  readonly providers: Providers
  readonly audit: Audit
  readonly system: System
  /** Of a HashiCorp Vault, where one is set. */
  readonly vaultAddress: string | undefined
}

/** What the operator's routes about secrets work on. */
export function operatorSecretsOf(parts: OperatorSecretsParts): SecretRoutesParts {
  const { home, packageRoot, env, kept, state, secrets, sessions, providers, audit, system, vaultAddress } = parts
  const { file, unlock, vault, changes, uses } = kept
  const workspaces = (): string[] => sessions.list().map(({ workspace }) => workspace)
  return {
    home,
    packageRoot,
    env,
    secrets,
    sessions,
    providers,
    audit,
    vaultAddress,
    desk: createSecretDesk({ home, file, unlock, vault, changes, uses, audit, system, workspaces }),
    presets: createServicePresets([join(packageRoot, 'policies'), join(home, 'policies')]),
    livePolicies: () => state.live().map(({ id, name }) => ({ id, name, policy: () => entitledOf(id, home, state).policy })),
  }
}

/** When a secret of the vault was last given out, and for what. */
export type SecretUse = {
  /** Milliseconds since 1970. */
  readonly at: number
  /** `credential:ID,ID`, `route:NAME`, `method:NAME`, `tool:NAME`, or what of the daemon itself. */
  readonly use: string
  readonly session?: string
  readonly workspace?: string
  readonly role?: string
}

/** A secret of the vault as the page shows it: no value, and nothing that a value can be guessed by. */
export type SecretView = {
  readonly key: string
  /** For people. */
  readonly name: string
  readonly scope: string
  /** The folder that a scope of a workspace is of, where it is known. */
  readonly scopeFolder?: string
  readonly tags: readonly string[]
  /** How often it was stored or described anew. */
  readonly version: number
  readonly createdAt: number
  readonly updatedAt: number
  readonly used?: SecretUse
}

/** Whether there is a vault that answers. `closed` says why not, and what opens it. */
export type VaultStateView =
  | { readonly state: 'open'; readonly method: string; readonly version: number }
  | { readonly state: 'none' }
  | { readonly state: 'closed'; readonly method?: string; readonly code: string; readonly message: string; readonly hint?: string }

export type SecretsView = {
  readonly vault: VaultStateView
  readonly secrets: readonly SecretView[]
  /** Secrets that were altered or damaged: stored anew, or removed, they are settled. */
  readonly problems: readonly { readonly key: string; readonly problem: string }[]
  /** Folders that a scope may be of. */
  readonly workspaces: readonly string[]
  readonly roles: readonly string[]
}

/** What is recorded of a secret, newest first. */
export type SecretChangeView = { readonly at: number; readonly did: string; readonly version?: number; readonly by: string }

/** Where something is written: a layer of the operator's, a preset, or another file. */
export type MappingPlace = {
  readonly file: string
  readonly line: number
  readonly layer: string
}

/** Who has a use for a secret of the vault. */
export type MappingsView = {
  /** What policies call it, and for what. */
  readonly declarations: readonly (MappingPlace & { readonly secret: string; readonly resources: readonly string[] })[]
  readonly credentials: readonly (MappingPlace & {
    readonly id: string
    readonly domains: readonly string[]
    readonly methods?: readonly string[]
    readonly paths?: readonly string[]
    /** In words, as "header Authorization: Bearer …". */
    readonly place: string
  })[]
  readonly servers: readonly { readonly name: string; readonly where: string }[]
  /** That run now. */
  readonly sessions: readonly { readonly id: string; readonly name: string }[]
  /** Layers that could not be read: what they have is not in here. */
  readonly problems: readonly string[]
}

/** A ready file of a service that can be extended, with what it writes where. */
export type PresetView = {
  /** As `extends` names it: `service/github`. */
  readonly preset: string
  readonly about: string
  /** Names under which it looks for secrets. */
  readonly secrets: readonly string[]
  readonly credentials: readonly { readonly id: string; readonly domains: readonly string[]; readonly place: string }[]
  /** It has to be copied and filled in. */
  readonly isTemplate: boolean
}

export type ProviderView = {
  /** As a reference begins: `op`, `pass` … */
  readonly name: string
  readonly state: 'available' | 'locked' | 'missing' | 'unset'
  readonly says: string
  /** A reference as one is written. */
  readonly example: string
}

/** Whether a reference leads to a value. Never the value. */
export type ReferenceOutcome =
  | { readonly outcome: 'found' }
  | { readonly outcome: 'not_found' | 'failed'; readonly code: string; readonly message: string; readonly hint?: string }

/** What became of the secrets of now in each session that runs. */
export type AppliedSecrets = {
  readonly sessions: number
  readonly applied: readonly { readonly session: string; readonly name: string; readonly version: number }[]
  readonly failed: readonly { readonly session: string; readonly name: string; readonly code: string; readonly detail: string }[]
}

import type { UnlockMethod } from './unlock.ts'

/** What happened to a vault: names and numbers, for the audit. `version` is the vault's after it. */
export type VaultEvent =
  | {
      readonly kind: 'set' | 'tagged' | 'described' | 'removed'
      readonly key: string
      readonly secretVersion: number
      readonly version: number
    }
  | { readonly kind: 'imported' | 'exported'; readonly keys: readonly string[]; readonly version: number }
  | { readonly kind: 'key_rotated' | 'locked_anew'; readonly method: UnlockMethod; readonly version: number }

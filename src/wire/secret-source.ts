/** Where a secret's value comes from, as a policy says it. The value itself is part of no source. */
export type SecretSource =
  /** A key of the operator's vault. */
  | { readonly kind: 'vault'; readonly key: string }
  | { readonly kind: 'env'; readonly variable: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'exec'; readonly argv: readonly string[] }
  /** 1Password: `VAULT/ITEM/FIELD` or `VAULT/ITEM/SECTION/FIELD`. */
  | { readonly kind: 'op'; readonly path: string }
  /** macOS. */
  | { readonly kind: 'keychain'; readonly service: string; readonly account?: string }
  /** The Secret Service of a Linux desktop; all attributes have to match. */
  | { readonly kind: 'libsecret'; readonly attributes: readonly (readonly [name: string, value: string])[] }
  | { readonly kind: 'pass'; readonly path: string }
  /** HashiCorp Vault, key-value store of version 2. */
  | {
      readonly kind: 'vault-http'
      readonly mount: string
      readonly path: string
      readonly field: string
      /** The latest when left out. */
      readonly version?: number
    }
  /** A value in the operator's own configuration of a harness: of one of its MCP servers, a variable or a header. */
  | {
      readonly kind: 'mcp-config'
      readonly harness: string
      /** As the harness calls it. */
      readonly server: string
      readonly of: 'env' | 'headers'
      readonly field: string
    }

export type SourceKind = SecretSource['kind']
export type SourceOf<K extends SourceKind> = Extract<SecretSource, { readonly kind: K }>
/** Read by running a program. */
export type CommandSource = SourceOf<'exec' | 'op' | 'keychain' | 'libsecret' | 'pass'>

/** Every kind, in the order in which they are explained. */
export const SOURCE_KINDS = [
  'vault',
  'env',
  'file',
  'exec',
  'op',
  'keychain',
  'libsecret',
  'pass',
  'vault-http',
  'mcp-config',
] as const satisfies readonly SourceKind[]

/** A key of the vault, as `vault:KEY` and `${secret:KEY}` write it. */
export const SECRET_KEY = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/

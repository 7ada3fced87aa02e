import { existsSync } from 'node:fs'
import { checkedSecret, readFile, readVariable } from '../../credential/credential.ts'
import { SallyportError } from '../../kernel/errors.ts'
import type { Secret } from '../../kernel/secret.ts'
import { describeSource } from '../../policy/policy.ts'
import type { SecretHolder } from '../../wire/secret-holder.ts'
import type { SecretSource, SourceKind } from '../../wire/secret-source.ts'
import { execProvider, keychainProvider, libsecretProvider, onePasswordProvider, passProvider } from './programs.ts'
import type { Provider } from './provider.ts'
import type { HashicorpSettings } from './settings.ts'
import { openHashicorpVault } from './vault-http.ts'

export { createResolver, type Resolver } from './resolver.ts'
export { checkReferences, substituteReferences } from './references.ts'
export { readProviderSettings } from './settings.ts'

/** What is needed of the operator's vault; one that only gives values lists and stores none. */
export type LocalVault = {
  /** @throws secret_missing, secret_not_permitted */
  get(key: string, holder: SecretHolder): Secret | Promise<Secret>
  set?(key: string, value: Secret): unknown
  remove?(key: string): void
  list?(): readonly { readonly key: string }[]
}

export type ProviderParts = {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Absent while it is locked or there is none. */
  readonly vault?: LocalVault
  readonly hashicorp?: HashicorpSettings
  /** The operator's own configuration of harnesses. Nothing of it is read before a value is wanted. */
  readonly mcpConfig?: Pick<Provider<'mcp-config'>, 'get' | 'problem'>
}

/** Every place of secrets, by the source that a policy writes. No value is kept here, but for a token that was unwrapped. */
export type Providers = AsyncDisposable & {
  /**
   * Without a holder it is for the daemon itself.
   * @throws secret_missing, secret_invalid, secret_unavailable; secret_not_permitted where the vault keeps it from this holder
   */
  get(name: string, source: SecretSource, signal: AbortSignal, holder?: SecretHolder): Promise<Secret>
  /** @throws provider_cannot, secret_unavailable */
  set(source: SecretSource, value: Secret, signal: AbortSignal): Promise<void>
  /** @throws provider_cannot, secret_missing, secret_unavailable */
  delete(source: SecretSource, signal: AbortSignal): Promise<void>
  /** References as a policy writes them, below a folder of the place where one is named. @throws provider_cannot, secret_unavailable */
  list(kind: SourceKind, under: string | undefined, signal: AbortSignal): Promise<readonly string[]>
  /** What would keep a source from being read, told without reading it: no program is run, no server asked. */
  problem(source: SecretSource): string | undefined
}

/** The token of a server is for no session. */
const NOBODY: SecretHolder = { use: 'vault-http' }

type Table = { readonly [K in SourceKind]: Provider<K> }

/** @throws config_invalid for settings that cannot be used */
export function openProviders({ env, vault, hashicorp, mcpConfig }: ProviderParts): Providers {
  const server = openHashicorpVault(hashicorp, (name, source, signal) => of(source).get(name, source, signal, NOBODY))
  const table: Table = {
    vault: localProvider(vault),
    env: {
      kind: 'env',
      get: async (name, source) => readVariable(name, source, env),
      problem: ({ variable }) => (env[variable] === undefined ? `the environment variable ${variable} is not set` : undefined),
      cannot: 'set the variable where the daemon is started',
    },
    file: {
      kind: 'file',
      get: async (name, source) => readFile(name, source),
      problem: ({ path }) => (existsSync(path) ? undefined : `there is no file ${path}`),
      cannot: 'write the file yourself: values are put into the vault only, never into a file',
    },
    exec: execProvider(env),
    op: onePasswordProvider(env),
    keychain: keychainProvider(env),
    libsecret: libsecretProvider(env),
    pass: passProvider(env),
    'vault-http': server,
    'mcp-config': {
      kind: 'mcp-config',
      get(name, source, signal, holder) {
        if (mcpConfig !== undefined) return mcpConfig.get(name, source, signal, holder)
        throw new SallyportError('secret_unavailable', `secret ${name}: the configuration of harnesses is not read here`)
      },
      problem: (source) => mcpConfig?.problem(source),
      cannot: "change the harness's own file: it is read here, and never written",
    },
  }
  // One entry for each kind, with the kind's own source: the pairing is what Table says.
  const of = (source: { readonly kind: SourceKind }): Provider<SourceKind> => table[source.kind] as unknown as Provider<SourceKind>
  return {
    async get(name, source, signal, holder = {}) {
      signal.throwIfAborted()
      return of(source).get(name, source, signal, holder)
    },
    async set(source, value, signal) {
      const provider = of(source)
      if (provider.set === undefined) throw cannot(provider, `store ${describeSource(source)}`)
      // What could not be read again is not stored.
      checkedSecret(value.name, value.reveal())
      return provider.set(source, value, signal)
    },
    async delete(source, signal) {
      const provider = of(source)
      if (provider.delete === undefined) throw cannot(provider, `delete ${describeSource(source)}`)
      return provider.delete(source, signal)
    },
    async list(kind, under, signal) {
      const provider = of({ kind })
      if (provider.list === undefined) throw cannot(provider, 'list what it has')
      return provider.list(under, signal)
    },
    problem: (source) => of(source).problem(source),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

function cannot({ kind, cannot: hint }: Pick<Provider<SourceKind>, 'kind' | 'cannot'>, what: string): SallyportError {
  return new SallyportError('provider_cannot', `"${kind}:" cannot ${what}`, { hint })
}

function localProvider(vault: LocalVault | undefined): Provider<'vault'> {
  const opened = (): LocalVault => {
    if (vault !== undefined) return vault
    throw new SallyportError('secret_unavailable', 'the vault is not open', {
      hint: 'unlock it, or make one with: sallyport secret set NAME',
    })
  }
  return {
    kind: 'vault',
    get: async (name, { key }, _signal, holder) => checkedSecret(name, (await opened().get(key, holder)).reveal()),
    ...(vault?.set !== undefined && {
      set: async ({ key }, value) => {
        vault.set?.(key, value)
      },
    }),
    ...(vault?.remove !== undefined && { delete: async ({ key }) => vault.remove?.(key) }),
    ...(vault?.list !== undefined && { list: async () => (vault.list?.() ?? []).map(({ key }) => `vault:${key}`) }),
    problem({ key }) {
      if (vault === undefined) return 'the vault is not open'
      return vault.list?.().some((row) => row.key === key) !== false ? undefined : `the vault has no key ${key}`
    },
    cannot: 'the vault that is given can only be read',
  }
}

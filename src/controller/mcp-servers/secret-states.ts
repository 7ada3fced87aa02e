import { SallyportError } from '../../kernel/errors.ts'
import { describeSource, type SecretGrant } from '../../policy/policy.ts'
import type { SecretHolder } from '../../wire/secret-holder.ts'
import type { ServerSecret } from '../../wire/servers.ts'
import type { LateVault } from '../late-vault.ts'
import type { Providers } from '../providers/providers.ts'

export type SecretStatesParts = {
  readonly vault: Pick<LateVault, 'has' | 'opened'>
  readonly providers: Pick<Providers, 'problem'>
}

/** What can be told of secrets without reading one. */
export type SecretStates = {
  /** Of a key that the policy says the source of, else one of the vault. */
  of(key: string, declared: readonly SecretGrant[], holder: SecretHolder): Promise<ServerSecret>
  /** Keys of the vault; `closed`: nobody can say. */
  keys(): Promise<readonly string[] | 'closed'>
}

/** Where the file, the variable or the line is looked for, nothing is asked of anybody. */
const LOOKED_FOR: ReadonlySet<string> = new Set(['env', 'file', 'mcp-config'])
const IN_VAULT = { there: 'there', absent: 'unknown', kept: 'kept', closed: 'locked' } as const

export function createSecretStates({ vault, providers }: SecretStatesParts): SecretStates {
  return {
    async of(key, declared, holder) {
      const source = declared.find(({ name }) => name === key)?.source ?? { kind: 'vault', key }
      const said = { key, source: describeSource(source) }
      if (source.kind === 'vault') return { ...said, state: IN_VAULT[await vault.has(source.key, holder)] }
      if (providers.problem(source) !== undefined) return { ...said, state: 'unknown' }
      return { ...said, state: LOOKED_FOR.has(source.kind) ? 'there' : 'unread' }
    },
    async keys() {
      try {
        return (await vault.opened())?.list().map(({ key }) => key) ?? []
      } catch (error) {
        if (!(error instanceof SallyportError)) throw error
        return 'closed'
      }
    },
  }
}

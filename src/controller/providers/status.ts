import { findProgram, programOf } from '../../credential/credential.ts'
import type { CommandSource, SourceKind } from '../../wire/secret-source.ts'
import type { ProviderView } from '../../wire/secrets.ts'

type Look = {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly vault: 'open' | 'none' | 'closed'
  /** The address of a HashiCorp Vault that is set. */
  readonly address?: string | undefined
}

/** What could be asked of each kind of place now, told without asking for a value: no program is run, no server asked. */
export function providerStatus({ env, vault, address }: Look): ProviderView[] {
  const program = (source: CommandSource, example: string): ProviderView => {
    const name = programOf(source)
    const path = findProgram(name, env)
    return path === undefined
      ? { name: source.kind, state: 'missing', says: `the program "${name}" is not in the daemon's PATH`, example }
      : { name: source.kind, state: 'available', says: path, example }
  }
  const own: Readonly<Record<Look['vault'], Pick<ProviderView, 'state' | 'says'>>> = {
    open: { state: 'available', says: 'open' },
    none: { state: 'unset', says: 'there is no vault yet: the first secret makes it' },
    closed: { state: 'locked', says: 'it is closed' },
  }
  return [
    { name: 'vault', ...own[vault], example: 'vault:GITHUB_TOKEN' },
    there('env', "variables of the daemon's own environment", 'env:GITHUB_TOKEN'),
    there('file', 'files that the daemon can read', 'file:/run/secrets/GITHUB_TOKEN'),
    there('exec', 'any program: tested here only where a policy has the same reference', 'exec:/usr/local/bin/print-token'),
    program({ kind: 'op', path: 'VAULT/ITEM/FIELD' }, 'op:Private/GitHub/token'),
    program({ kind: 'keychain', service: 'SERVICE' }, 'keychain:github/me'),
    program({ kind: 'libsecret', attributes: [['service', 'SERVICE']] }, 'libsecret:service=github'),
    program({ kind: 'pass', path: 'PATH' }, 'pass:github/token'),
    {
      name: 'vault-http',
      ...(address === undefined
        ? { state: 'unset', says: 'no address of a HashiCorp Vault is set in providers.yaml' }
        : { state: 'available', says: address }),
      example: 'vault-http:secret/github#token',
    },
    there('mcp-config', "the operator's own configuration of harnesses", 'mcp-config:claude/github/env/TOKEN'),
  ]
}

function there(name: SourceKind, says: string, example: string): ProviderView {
  return { name, state: 'available', says, example }
}

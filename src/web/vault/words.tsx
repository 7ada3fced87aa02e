import type { SecretUse, SecretView } from '../../wire/secrets.ts'
import { Badge } from '../parts/badge.tsx'
import { Exact, Name, nameOf } from '../parts/exact.tsx'
import { Ago } from '../parts/time.tsx'
import { hrefOf } from '../shell/route.ts'
import { sessionList } from '../sessions/session-list.ts'

/** Stands for every value, whatever its length. */
export function Masked() {
  return (
    <span class="vault-masked">
      <span aria-hidden="true">••••••••</span>
      <span class="visually-hidden">not shown</span>
    </span>
  )
}

export function Scope({ of: { scope, scopeFolder } }: { of: Pick<SecretView, 'scope' | 'scopeFolder'> }) {
  if (scope === 'global') return <>every session</>
  if (scope.startsWith('role:'))
    return (
      <>
        role <Name text={scope.slice('role:'.length)} />
      </>
    )
  return (
    <span title={nameOf(scope)}>
      workspace <Name text={scopeFolder ?? scope.slice('workspace:'.length)} />
    </span>
  )
}

export function Tags({ tags }: { tags: readonly string[] }) {
  if (tags.length === 0) return <span class="quiet">none</span>
  return (
    <span class="vault-tags">
      {tags.map((tag) => (
        <Badge key={tag} tone="quiet">
          <Name text={tag} />
        </Badge>
      ))}
    </span>
  )
}

/** When, for what, and for whom. */
export function Used({ used }: { used: SecretUse | undefined }) {
  if (used === undefined) return <span class="quiet">not yet</span>
  const { at, use, session, workspace } = used
  const name = sessionList.value?.find(({ id }) => id === session)?.name
  return (
    <>
      <Ago at={at} /> · <Exact text={inWords(use)} />
      {session !== undefined && (
        <>
          {' in '}
          <a href={hrefOf('sessions', [session])}>
            <Name text={name ?? session} />
          </a>
        </>
      )}
      {workspace !== undefined && (
        <span class="quiet small vault-of">
          <Name text={workspace} />
        </span>
      )}
    </>
  )
}

const USES: Readonly<Record<string, string>> = {
  inject: 'the gate',
  notify: 'a notification of the daemon',
  'vault-http': 'the token of a HashiCorp Vault',
}

/** A use, or a resource of a policy, in words. */
export function inWords(use: string): string {
  const [kind = '', rest = ''] = use.split(/:(.*)/s)
  if (kind === 'credential') return `credential ${rest.replaceAll(',', ', ')}`
  if (kind === 'route') return `route ${rest}`
  if (kind === 'tool') return `MCP server ${rest}`
  if (kind === 'method') return `requests for secrets (${rest})`
  return USES[use] ?? use
}

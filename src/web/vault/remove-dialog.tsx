import type { MappingsView } from '../../wire/secrets.ts'
import { Confirm } from '../parts/confirm.tsx'
import { Name } from '../parts/exact.tsx'
import { notify } from '../parts/notices.tsx'
import { act } from '../presence/act.ts'

type Props = {
  readonly name: string
  readonly mappings: MappingsView | undefined
  readonly onDone: () => void
  readonly onClose: () => void
}

/** Asks, and says who uses it. */
export function RemoveDialog({ name, mappings, onDone, onClose }: Props) {
  const remove = async (): Promise<void> => {
    await act('DELETE', `/v1/secrets/${encodeURIComponent(name)}`, {}, `remove the secret ${name}`)
    notify(`The secret is removed. Running sessions keep it until "Apply to sessions", or until they end.`)
    onDone()
  }
  const users = [
    ...(mappings?.credentials.map(({ id }) => `credential ${id}`) ?? []),
    ...(mappings?.servers.map((server) => `MCP server ${server.name}`) ?? []),
    ...(mappings?.sessions.map((session) => `session ${session.name}`) ?? []),
  ]
  return (
    <Confirm title="Remove this secret?" verb="Remove" onConfirm={remove} onClose={onClose}>
      <p>
        <code>
          <Name text={name} />
        </code>{' '}
        is deleted from the vault. Nobody can bring its value back.
      </p>
      {users.length === 0 ? (
        <p>No credential, MCP server or session uses it.</p>
      ) : (
        <div class="note note-warn">
          <p>It is used: sessions that need it will not start.</p>
          <ul>
            {users.map((user) => (
              <li key={user}>
                <Name text={user} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </Confirm>
  )
}

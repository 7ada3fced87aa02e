import type { ServersFile, ServersSaved } from '../../wire/servers.ts'
import { Confirm } from '../parts/confirm.tsx'
import { Name } from '../parts/exact.tsx'
import { act } from '../presence/act.ts'
import { notifySaved } from './saved.ts'

export function RemoveDialog(props: { file: ServersFile; name: string; onClose: () => void; onSaved: () => void }) {
  const { file, name, onClose, onSaved } = props
  const remove = async (): Promise<void> => {
    const body = { before: file.digest, edit: { kind: 'remove', name } }
    notifySaved(`${name} is removed`, await act<ServersSaved>('POST', '/v1/mcp/file/edits', body, `remove the MCP server ${name}`))
    onSaved()
  }
  return (
    <Confirm title="Remove this server?" verb="Remove" onConfirm={remove} onClose={onClose}>
      <p>
        <strong>
          <Name text={name} />
        </strong>{' '}
        is taken out of mcp.json. In running sessions its open connections end at once. Its secrets stay in the vault.
      </p>
    </Confirm>
  )
}

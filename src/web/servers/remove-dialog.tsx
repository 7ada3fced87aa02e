import type { ServersFile, ServersSaved } from '../../wire/servers.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Exact } from '../parts/exact.tsx'
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
    <Dialog title="Remove this server?" onClose={onClose}>
      <p>
        <strong>
          <Exact text={name} />
        </strong>{' '}
        is taken out of mcp.json. In running sessions its open connections end at once. Its secrets stay in the vault.
      </p>
      <div class="dialog-foot">
        <Button onPress={onClose}>Keep it</Button>
        <Button kind="bad" onPress={remove}>
          Remove
        </Button>
      </div>
    </Dialog>
  )
}

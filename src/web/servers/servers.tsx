import { useState } from 'preact/hooks'
import type { ServersFile, ServersView } from '../../wire/servers.ts'
import { Button } from '../parts/button.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ViewHead } from '../parts/view-head.tsx'
import { hrefOf, route } from '../shell/route.ts'
import { askedOf, type OpenDialog } from './asked.ts'
import { RawFile } from './raw-file.tsx'
import { RemoveDialog } from './remove-dialog.tsx'
import { ServerForm } from './server-form.tsx'
import { ServerLists } from './server-lists.tsx'
import { SessionPicker } from './session-picker.tsx'
import { TestDialog } from './test-dialog.tsx'
import './servers.css'

/** The MCP servers that sessions have besides the gate, and `mcp.json`. */
export function Servers() {
  const { rest, query } = route.value
  const [dialog, setDialog] = useState<OpenDialog | undefined>()
  const view = useResource<ServersView>(`/v1/mcp/servers?${askedOf(query)}`)
  const file = useResource<ServersFile>('/v1/mcp/file')
  const isRaw = rest[0] === 'file'
  const reload = (): void => {
    view.reload()
    file.reload()
  }
  const close = (): void => setDialog(undefined)
  const done = (): void => {
    close()
    reload()
  }
  const kept = Object.fromEntries(query)
  return (
    <>
      <ViewHead
        title="MCP servers"
        about="What sessions have besides the gate’s own tools. What they need of secrets is never in the agent."
      >
        <Button onPress={reload}>Refresh</Button>
        <Button kind="main" disabled={file.value === undefined} onPress={() => setDialog({ kind: 'form' })}>
          Add a server
        </Button>
      </ViewHead>
      <Tabs
        label="Parts of MCP servers"
        tabs={[
          { label: 'Servers', href: hrefOf('servers', [], kept), isShown: !isRaw },
          { label: 'mcp.json', href: hrefOf('servers', ['file'], kept), isShown: isRaw },
        ]}
      />
      <div class="stack">
        {file.problem !== undefined && <ProblemNote problem={file.problem} />}
        {isRaw ? (
          file.value !== undefined && <RawFile key={file.value.digest} file={file.value} onSaved={reload} />
        ) : (
          <>
            <SessionPicker query={query} harnesses={view.value?.harnesses ?? []} harness={view.value?.harness} />
            {view.problem !== undefined && <ProblemNote problem={view.problem} />}
            {view.value !== undefined && file.value !== undefined && <ServerLists view={view.value} file={file.value} onOpen={setDialog} />}
          </>
        )}
      </div>
      {file.value !== undefined && dialog?.kind === 'form' && (
        <ServerForm file={file.value} name={dialog.name} onClose={close} onSaved={done} onStale={file.reload} />
      )}
      {file.value !== undefined && dialog?.kind === 'remove' && (
        <RemoveDialog file={file.value} name={dialog.name} onClose={close} onSaved={done} />
      )}
      {file.value !== undefined && dialog?.kind === 'test' && (
        <TestDialog file={file.value} name={dialog.name} onClose={close} onSaved={reload} />
      )}
    </>
  )
}

import { useState } from 'preact/hooks'
import type { FileServer, ServersFile, ServersSaved } from '../../wire/servers.ts'
import { Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Field } from '../parts/field.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { act } from '../presence/act.ts'
import { ArgumentRows, ValueRows, type ValueRow } from './form-rows.tsx'
import { notifySaved, WHEN } from './saved.ts'
import { TextField } from './text-field.tsx'

type Draft = {
  readonly name: string
  readonly kind: 'program' | 'url'
  readonly command: readonly string[]
  readonly values: readonly ValueRow[]
  readonly url: string
  readonly tools: string
  readonly workspace: 'none' | 'ro'
  readonly image: string
}

type Props = {
  readonly file: ServersFile
  /** Of the one that is changed; none for a new one. */
  readonly name: string | undefined
  readonly onClose: () => void
  readonly onSaved: () => void
  /** The file has changed since it was read. */
  readonly onStale: () => void
}

/** One server of mcp.json. */
export function ServerForm({ file, name, onClose, onSaved, onStale }: Props) {
  const [draft, setDraft] = useState<Draft>(() => draftOf(name, file))
  const [refused, setRefused] = useState<Problem | undefined>()
  const set = (change: Partial<Draft>): void => setDraft((before) => ({ ...before, ...change }))
  const save = async (): Promise<void> => {
    setRefused(undefined)
    const edit = { kind: 'put', name: draft.name.trim(), ...(name !== undefined && { was: name }), server: serverOf(draft) }
    try {
      const body = { before: file.digest, edit }
      const saved = await act<ServersSaved>('POST', '/v1/mcp/file/edits', body, `save the MCP server ${edit.name}`)
      notifySaved(`${edit.name} is saved`, saved)
      onSaved()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      setRefused(error)
      if (error.code === 'mcp_config_outdated') onStale()
    }
  }
  const isProgram = draft.kind === 'program'
  return (
    <Dialog wide title={name === undefined ? 'Add a server' : 'Change a server'} onClose={onClose}>
      <TextField
        label="Name"
        hint="Lower-case letters, digits and “-”, 32 at most. Agents know it by this name."
        value={draft.name}
        onValue={(next) => set({ name: next })}
      />
      <fieldset>
        <legend class="visually-hidden">What it is</legend>
        <div class="servers-kinds">
          <label>
            <input type="radio" name="servers-kind" checked={isProgram} onChange={() => set({ kind: 'program' })} /> A program
          </label>
          <label>
            <input type="radio" name="servers-kind" checked={!isProgram} onChange={() => set({ kind: 'url' })} /> A server elsewhere
          </label>
        </div>
      </fieldset>
      {isProgram ? (
        <ArgumentRows values={draft.command} onValues={(command) => set({ command })} />
      ) : (
        <TextField
          label="URL"
          hint="Of a server that speaks streamable HTTP, without a query."
          value={draft.url}
          onValue={(url) => set({ url })}
        />
      )}
      <ValueRows what={isProgram ? 'variable' : 'header'} rows={draft.values} onRows={(values) => set({ values })} file={file} />
      <TextField
        lines
        label="Tools that agents have"
        hint="Names, one a line, * for any part of one. Empty: all of them."
        value={draft.tools}
        onValue={(tools) => set({ tools })}
      />
      {isProgram && <ContainerFields draft={draft} set={set} />}
      <p class="quiet small">{WHEN}</p>
      {refused !== undefined && <ProblemNote problem={refused} />}
      <div class="dialog-foot">
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="main" onPress={save}>
          Save
        </Button>
      </div>
    </Dialog>
  )
}

function ContainerFields({ draft, set }: { draft: Draft; set: (change: Partial<Draft>) => void }) {
  return (
    <div class="servers-picker">
      <TextField label="Image" hint="That it runs in. Empty: the agent’s." value={draft.image} onValue={(image) => set({ image })} />
      <Field
        label="Workspace"
        control={(attributes) => (
          <select
            {...attributes}
            class="input"
            value={draft.workspace}
            onChange={(event) => set({ workspace: event.currentTarget.value as Draft['workspace'] })}
          >
            <option value="none">it sees nothing of it</option>
            <option value="ro">it may read it</option>
          </select>
        )}
      />
    </div>
  )
}

function draftOf(name: string | undefined, file: ServersFile): Draft {
  const empty: Draft = { name: name ?? '', kind: 'program', command: [''], values: [], url: '', tools: '', workspace: 'none', image: '' }
  const server = file.servers.find((one) => one.name === name)?.server
  if (server === undefined) return empty
  const values = Object.entries('url' in server ? server.headers : server.env).map(([field, value]) => ({ name: field, value }))
  const tools = server.tools?.join('\n') ?? ''
  if ('url' in server) return { ...empty, kind: 'url', url: server.url, values, tools }
  return { ...empty, command: server.command, values, tools, workspace: server.workspace ?? 'none', image: server.image ?? '' }
}

function serverOf(draft: Draft): FileServer {
  const values = Object.fromEntries(draft.values.filter(({ name }) => name.trim() !== '').map(({ name, value }) => [name.trim(), value]))
  const patterns = patternsIn(draft.tools)
  const tools = patterns.length > 0 ? { tools: patterns } : {}
  if (draft.kind === 'url') return { url: draft.url.trim(), headers: values, ...tools }
  const [program = '', ...args] = draft.command
  return {
    command: [program.trim(), ...args],
    env: values,
    ...tools,
    ...(draft.workspace === 'ro' && { workspace: draft.workspace }),
    ...(draft.image.trim() !== '' && { image: draft.image.trim() }),
  }
}

/** One a line. */
export function patternsIn(text: string): string[] {
  return [...new Set(text.split('\n').map((line) => line.trim()))].filter((line) => line !== '')
}

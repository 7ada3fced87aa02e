import { useEffect, useMemo, useState } from 'preact/hooks'
import type { PolicyFileView, ProblemView } from '../../wire/policies.ts'
import { call } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ChangeDialog } from './change-dialog.tsx'
import { Editor, type EditorProblem } from './editor.tsx'
import { ProblemList } from './problem-list.tsx'
import { completeBySchema, type Schema } from './schema-completion.ts'

const NEW_TEXT = 'version: 1\n'
const unchanged = (): void => undefined

/** One file of the operator's, edited with a live check; what is saved is looked at first. */
export function FilePane({ file, onSaved }: { file: PolicyFileView; onSaved: () => void }) {
  const there = file.text ?? NEW_TEXT
  const [text, setText] = useState(there)
  const [problems, setProblems] = useState<readonly ProblemView[]>([])
  const [isSaving, setSaving] = useState(false)
  const { value: schema } = useResource<Schema>('/v1/policies/schema')
  const complete = useMemo(() => (schema === undefined ? undefined : completeBySchema(schema)), [schema])
  useEffect(() => setText(there), [there])
  const check = async (content: string): Promise<readonly EditorProblem[]> => {
    const found = (await call<{ problems: readonly ProblemView[] }>('POST', '/v1/policies/check', { layer: file.layer, content })).problems
    setProblems(found)
    return found.filter((one) => one.line > 0 && one.file === fileOf(found, file))
  }
  if (file.problem !== undefined)
    return (
      <section class="card stack" aria-label="File">
        <Title file={file} />
        <p class="note note-bad">
          <Exact text={file.problem} />
        </p>
      </section>
    )
  const isChanged = text !== (file.text ?? '')
  return (
    <section class="card stack" aria-label="File">
      <Title file={file} />
      <Editor value={text} onChange={setText} language="yaml" label="Policy" check={check} {...(complete && { complete })} />
      <ProblemList problems={problems} file={file.file} />
      <div class="row">
        <Button kind="main" disabled={!isChanged} onPress={() => setSaving(true)}>
          Save …
        </Button>
        <Button disabled={text === there} onPress={() => setText(there)}>
          Discard
        </Button>
        <span class="small quiet" role="status">
          {!isChanged ? 'as it is saved' : problems.some(({ severity }) => severity === 'error') ? 'has errors' : 'changed'}
        </span>
      </div>
      {isSaving && (
        <ChangeDialog
          layer={file.layer}
          edit={{ kind: 'content', content: text }}
          onDone={() => {
            setSaving(false)
            onSaved()
          }}
          onClose={() => setSaving(false)}
        />
      )}
    </section>
  )
}

/** Of a file that is not there yet the daemon alone knows the whole path. */
function fileOf(found: readonly ProblemView[], { file }: PolicyFileView): string | undefined {
  return found.find((one) => one.file === file || one.file.endsWith(`/${file}`))?.file ?? file
}

function Title({ file: { file, sessions } }: { file: PolicyFileView }) {
  return (
    <div>
      <h2>
        <Name text={file} />
      </h2>
      <p class="small quiet">
        {sessions.length === 0 ? (
          'No running session has it.'
        ) : (
          <Exact text={`Running with it: ${sessions.map(({ name }) => name).join(', ')}`} />
        )}
      </p>
    </div>
  )
}

/** A policy of the installation, to read: `extends` brings it into one of the operator's. */
export function PresetPane({ name }: { name: string }) {
  const { value, problem } = useResource<{ text: string }>(`/v1/policies/presets/${name}`)
  return (
    <section class="card stack" aria-label="File">
      <div>
        <h2>{name}</h2>
        <p class="small quiet">
          In a policy: <code>{name.startsWith('harness/') ? `network: {harness: ${name.slice(8)}}` : `extends: [${name}]`}</code>
        </p>
      </div>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {value !== undefined && <Editor value={value.text} onChange={unchanged} language="yaml" label={name} readOnly />}
    </section>
  )
}

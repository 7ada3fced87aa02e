import { useState } from 'preact/hooks'
import type { ActivityRemedy } from '../../wire/activity.ts'
import type { AllowFor, LayerRef, PolicyEdit } from '../../wire/policies.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { ChangeDialog } from '../policies/change-dialog.tsx'
import { sessionList } from '../sessions/session-list.ts'
import { nameOfSession } from './words.ts'

type Possible = Extract<ActivityRemedy, { isPossible: true }>
type Scope = LayerRef['kind']

const LENGTHS: Readonly<Record<AllowFor, string>> = {
  session: 'this session, until it ends',
  hour: 'one hour',
  day: 'one day',
  always: 'always, until a rule is changed',
}
/** How long what a layer says can hold: what ends by itself is for one session or workspace. */
const LENGTHS_OF: Readonly<Record<Scope, readonly AllowFor[]>> = {
  session: ['session', 'hour', 'day'],
  workspace: ['hour', 'day', 'always'],
  role: ['always'],
  global: ['always'],
}

/** What of the host is allowed: all of it, where nothing is said. */
type Narrow = { readonly isOneMethod: boolean; readonly path: string }

/** Asks for whom, how long and how narrowly, and then shows the change of the policy before it is made. */
export function AllowHost(props: {
  readonly remedy: Possible
  readonly session: string
  readonly onDone: () => void
  readonly onClose: () => void
}) {
  const { remedy, session, onDone, onClose } = props
  const layers = layersFor(session)
  const [layer, setLayer] = useState<LayerRef>(layers[0] ?? { kind: 'global' })
  const [length, setLength] = useState<AllowFor>(LENGTHS_OF[layer.kind][0] ?? 'always')
  const [narrow, setNarrow] = useState<Narrow>({ isOneMethod: false, path: '' })
  const [edit, setEdit] = useState<PolicyEdit>()
  const choose = (next: LayerRef): void => {
    setLayer(next)
    if (!LENGTHS_OF[next.kind].includes(length)) setLength(LENGTHS_OF[next.kind][0] ?? 'always')
  }
  if (edit !== undefined) return <ChangeDialog layer={layer} edit={edit} onDone={onDone} onClose={onClose} />
  return (
    <Dialog title="Allow this host" onClose={onClose}>
      <p>
        <code>
          <Name text={`${remedy.host}:${remedy.port}`} />
        </code>
      </p>
      <Choice
        legend="For"
        name="layer"
        options={layers.map((one) => ({ value: one.kind, text: scopeText(one) }))}
        chosen={layer.kind}
        onChoose={(kind) => choose(layers.find((one) => one.kind === kind) ?? layer)}
      />
      <Choice
        legend="How long"
        name="length"
        options={LENGTHS_OF[layer.kind].map((value) => ({ value, text: LENGTHS[value] }))}
        chosen={length}
        onChoose={(value) => setLength(value as AllowFor)}
      />
      <Narrower remedy={remedy} narrow={narrow} onNarrow={setNarrow} />
      <div class="dialog-foot">
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="main" onPress={() => setEdit(editOf(remedy, length, narrow))}>
          Look at the change
        </Button>
      </div>
    </Dialog>
  )
}

/** To whom it can be allowed, the narrowest first. */
function layersFor(session: string): LayerRef[] {
  const known = sessionList.value?.find(({ id }) => id === session)
  const isLive = known !== undefined && known.state !== 'ended' && known.state !== 'failed'
  return [
    ...(isLive ? [{ kind: 'session' as const, session }] : []),
    ...(known === undefined ? [] : [{ kind: 'workspace' as const, workspace: known.workspace }]),
    ...(known?.role === undefined ? [] : [{ kind: 'role' as const, role: known.role }]),
    { kind: 'global' },
  ]
}

function Narrower({ remedy, narrow, onNarrow }: { remedy: Possible; narrow: Narrow; onNarrow: (narrow: Narrow) => void }) {
  return (
    <>
      {remedy.method !== undefined && (
        <label class="row">
          <input
            type="checkbox"
            checked={narrow.isOneMethod}
            onChange={(event) => onNarrow({ ...narrow, isOneMethod: event.currentTarget.checked })}
          />
          <span>
            only <Name text={remedy.method} />
          </span>
        </label>
      )}
      {remedy.path !== undefined && (
        <Field
          label="Only below or at a path"
          hint="empty for every path; * stands for one segment, ** for any number"
          control={(attributes) => (
            <span class="row">
              <input
                {...attributes}
                class="input grow mono"
                spellcheck={false}
                value={narrow.path}
                onInput={(event) => onNarrow({ ...narrow, path: event.currentTarget.value })}
              />
              <Button onPress={() => onNarrow({ ...narrow, path: remedy.path ?? '' })}>This path</Button>
            </span>
          )}
        />
      )}
    </>
  )
}

function editOf({ host, port, method }: Possible, length: AllowFor, { isOneMethod, path: wanted }: Narrow): PolicyEdit {
  const path = wanted.trim()
  return {
    kind: 'allow_host',
    host,
    ports: [port],
    ...(isOneMethod && method !== undefined && { methods: [method] }),
    ...(path !== '' && { paths: [path] }),
    for: length,
  }
}

function scopeText(layer: LayerRef): string {
  switch (layer.kind) {
    case 'session':
      return `the session ${nameOfSession(layer.session)} alone`
    case 'workspace':
      return `sessions in ${layer.workspace}`
    case 'role':
      return `sessions with the role ${layer.role}`
    case 'global':
      return 'every session'
  }
}

function Choice(props: {
  readonly legend: string
  readonly name: string
  readonly options: readonly { readonly value: string; readonly text: string }[]
  readonly chosen: string
  readonly onChoose: (value: string) => void
}) {
  const { legend, name, options, chosen, onChoose } = props
  return (
    <fieldset class="activity-choice">
      <legend>{legend}</legend>
      {options.map(({ value, text }) => (
        <label key={value} class="row">
          <input type="radio" name={name} value={value} checked={value === chosen} onChange={() => onChoose(value)} />
          <Exact text={text} />
        </label>
      ))}
    </fieldset>
  )
}

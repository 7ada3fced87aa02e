import { useState } from 'preact/hooks'
import type { SecretsView, SecretView } from '../../wire/secrets.ts'
import { Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Field } from '../parts/field.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { act } from '../presence/act.ts'
import { ScopeField } from './scope-field.tsx'
import { tagsOf, TagsField } from './tags-field.tsx'

type Props = {
  readonly secret: SecretView
  readonly found: SecretsView
  readonly onDone: () => void
  readonly onClose: () => void
}

/** All but the value. Each change is a version too. */
export function DescribeDialog({ secret, found, onDone, onClose }: Props) {
  const [name, setName] = useState(secret.name)
  const [tags, setTags] = useState(secret.tags.join(' '))
  const [scope, setScope] = useState(secret.scopeFolder === undefined ? secret.scope : `workspace:${secret.scopeFolder}`)
  const [problem, setProblem] = useState<Problem>()
  const save = async (): Promise<void> => {
    setProblem(undefined)
    try {
      const path = `/v1/secrets/${encodeURIComponent(secret.key)}`
      await act('PATCH', path, { name, tags: tagsOf(tags), scope }, `change name, tags or scope of ${secret.key}`)
      onDone()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      setProblem(error)
    }
  }
  return (
    <Dialog title={`Name, tags and scope of ${secret.key}`} onClose={onClose}>
      {problem !== undefined && <ProblemNote problem={problem} />}
      <Field
        label="Name for people"
        control={(attributes) => (
          <input
            {...attributes}
            class="input"
            autocomplete="off"
            maxLength={200}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        )}
      />
      <TagsField value={tags} onChange={setTags} />
      <ScopeField
        label="For"
        hint="The vault gives it to no other session."
        value={scope}
        onChange={setScope}
        workspaces={found.workspaces}
        roles={found.roles}
      />
      <div class="dialog-foot">
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="main" onPress={save}>
          Save
        </Button>
      </div>
    </Dialog>
  )
}

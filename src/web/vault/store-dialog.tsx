import { useRef, useState } from 'preact/hooks'
import { SECRET_KEY } from '../../wire/secret-source.ts'
import type { SecretsView, SecretView } from '../../wire/secrets.ts'
import { Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Field } from '../parts/field.tsx'
import { notify, notifyFailure } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { act } from '../presence/act.ts'
import { ScopeField } from './scope-field.tsx'
import { tagsOf, TagsField } from './tags-field.tsx'
import { takeValue, ValueField } from './value-field.tsx'

const KEY_PROBLEM = 'letters, digits, "_", "." and "-", 128 at most, beginning with a letter or "_"'

type Props = {
  readonly found: SecretsView
  /** The secret that gets a new value; without one it is a new secret. */
  readonly replaces?: Pick<SecretView, 'key' | 'version'>
  readonly onStored: (key: string) => void
  readonly onClose: () => void
}

/** A new secret, or another value of one. */
export function StoreDialog({ found, replaces, onStored, onClose }: Props) {
  const value = useRef<HTMLTextAreaElement>(null)
  const [key, setKey] = useState('')
  const [tags, setTags] = useState('')
  const [scope, setScope] = useState('global')
  const [problem, setProblem] = useState<Problem>()
  const [keyProblem, setKeyProblem] = useState<string>()
  const [isBusy, setBusy] = useState(false)

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    const name = replaces?.key ?? key.trim()
    const wrong = SECRET_KEY.test(name) ? undefined : KEY_PROBLEM
    setKeyProblem(wrong)
    if (wrong !== undefined || isBusy || value.current?.value === '') return
    setBusy(true)
    setProblem(undefined)
    try {
      const described = replaces === undefined ? { tags: tagsOf(tags), scope } : {}
      const body = { value: takeValue(value.current), seen: replaces?.version ?? 0, ...described }
      const does = replaces === undefined ? `store the secret ${name}` : `replace the value of ${name}`
      const { version } = await act<SecretView>('PUT', `/v1/secrets/${encodeURIComponent(name)}`, body, does)
      notify(`${name}: version ${version} is stored. "Apply to sessions" gives it to those that run.`)
      onStored(name)
    } catch (error) {
      if (error instanceof Problem) setProblem(error)
      else notifyFailure(error)
      value.current?.focus()
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog title={replaces === undefined ? 'Add a secret' : `Replace the value of ${replaces.key}`} onClose={onClose}>
      <form class="stack" autocomplete="off" onSubmit={(event) => void submit(event)}>
        {problem !== undefined && <ProblemNote problem={problem} />}
        {replaces === undefined && <NameField value={key} error={keyProblem} onChange={setKey} />}
        <ValueField field={value} />
        {replaces === undefined && (
          <>
            <TagsField value={tags} onChange={setTags} />
            <ScopeField label="For" value={scope} onChange={setScope} workspaces={found.workspaces} roles={found.roles} />
          </>
        )}
        <div class="dialog-foot">
          <Button onPress={onClose}>Cancel</Button>
          <button type="submit" class="button button-main" disabled={isBusy} aria-busy={isBusy}>
            {replaces === undefined ? 'Store it' : 'Replace it'}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

function NameField({ value, error, onChange }: { value: string; error: string | undefined; onChange: (value: string) => void }) {
  return (
    <Field
      label="Name"
      error={error}
      hint="Policies call it vault:NAME."
      control={(attributes) => (
        <input
          {...attributes}
          class="input mono"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          maxLength={128}
          placeholder="GITHUB_TOKEN"
          required
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    />
  )
}

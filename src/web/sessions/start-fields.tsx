import type { StartChoices } from '../../wire/session-facts.ts'
import { Offers } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { useResource } from '../parts/use-resource.ts'
import type { Faults, StartWish } from './start-request.ts'

type Form = { readonly wish: StartWish; readonly faults: Faults; readonly change: (part: Partial<StartWish>) => void }

/** What can be wished of a new session: what everybody decides first, the rest behind `More`. */
export function StartFields(form: Form) {
  const { wish, change } = form
  const choices = useResource<StartChoices>('/v1/start-choices').value
  return (
    <>
      <Text
        form={form}
        name="workspace"
        label="Workspace"
        hint="the folder that the agent works on, by its whole path"
        options={choices?.workspaces}
      />
      <Field
        label="Harness"
        control={(attributes) => (
          <select {...attributes} class="input" value={wish.harness} onChange={(event) => change({ harness: event.currentTarget.value })}>
            <option value="">as the policy says</option>
            {(choices?.harnesses ?? []).map((name) => (
              <option key={name} value={name}>
                {name === 'plain' ? 'none: a shell' : name}
              </option>
            ))}
          </select>
        )}
      />
      <Text form={form} name="name" label="Name" hint="default: the workspace’s" />
      <Text form={form} name="role" label="Role" hint="its policy counts as well" options={choices?.roles} />
      <details class="session-more">
        <summary>More</summary>
        <div class="stack">
          <Lines
            form={form}
            name="policies"
            label="Policies of this session"
            hint="files over those of the operator, a whole path each line"
          />
          <Text form={form} name="image" label="Image" hint="default: the policy’s, the harness’s, else a plain one" />
          <Lines form={form} name="command" label="Command" hint="one argument a line; default: the harness’s own, else a shell" />
          <Lines
            form={form}
            name="environment"
            label="Environment"
            hint="NAME=value, one a line. The agent reads it: no place for a secret"
          />
          <label class="row">
            <input type="checkbox" checked={wish.selftest} onChange={(event) => change({ selftest: event.currentTarget.checked })} />
            Try every way out before the agent starts
          </label>
        </div>
      </details>
    </>
  )
}

type Of<Name> = { readonly form: Form; readonly name: Name; readonly label: string; readonly hint: string }

function Text(props: Of<'workspace' | 'role' | 'name' | 'image'> & { readonly options?: readonly string[] | undefined }) {
  const { form, name, label, hint, options = [] } = props
  return (
    <Field
      label={label}
      hint={hint}
      error={form.faults[name]}
      control={(attributes) => (
        <>
          <input
            {...attributes}
            class="input"
            type="text"
            value={form.wish[name]}
            autocomplete="off"
            spellcheck={false}
            {...(options.length > 0 && { list: `${attributes.id}-list` })}
            onInput={(event) => form.change({ [name]: event.currentTarget.value })}
          />
          {options.length > 0 && <Offers id={`${attributes.id}-list`} values={options} />}
        </>
      )}
    />
  )
}

function Lines({ form, name, label, hint }: Of<'policies' | 'command' | 'environment'>) {
  return (
    <Field
      label={label}
      hint={hint}
      error={form.faults[name]}
      control={(attributes) => (
        <textarea
          {...attributes}
          class="input session-lines-input"
          rows={2}
          spellcheck={false}
          value={form.wish[name]}
          onInput={(event) => form.change({ [name]: event.currentTarget.value })}
        />
      )}
    />
  )
}

import type { Ref } from 'preact'
import { useState } from 'preact/hooks'
import { Field } from '../parts/field.tsx'

/** A value as it is typed or pasted, of several lines too. It is in the field alone, covered unless it is asked to be seen. */
export function ValueField({ field, error }: { field: Ref<HTMLTextAreaElement>; error?: string | undefined }) {
  const [isShown, setShown] = useState(false)
  return (
    <div class="vault-value">
      <Field
        label="Value"
        error={error}
        hint="As the service gave it. One line end at its very end is not part of it."
        control={(attributes) => (
          <textarea
            {...attributes}
            ref={field}
            class={`input${isShown ? '' : ' vault-covered'}`}
            rows={3}
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            required
            // A file that is dropped would show its name, or leave the page.
            onDrop={(event) => event.preventDefault()}
          />
        )}
      />
      <label class="vault-check">
        <input type="checkbox" checked={isShown} onChange={(event) => setShown(event.currentTarget.checked)} />
        Show it while typing
      </label>
    </div>
  )
}

/** What the field has; it has nothing then. */
export function takeValue(field: HTMLTextAreaElement | null): string {
  if (field === null) return ''
  const { value } = field
  field.value = ''
  return value
}

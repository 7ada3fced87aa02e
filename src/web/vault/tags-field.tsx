import { Field } from '../parts/field.tsx'

export function TagsField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <Field
      label="Tags"
      hint="Words with a space between them."
      control={(attributes) => (
        <input
          {...attributes}
          class="input"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    />
  )
}

export function tagsOf(text: string): string[] {
  return text.split(/[\s,]+/).filter((tag) => tag !== '')
}

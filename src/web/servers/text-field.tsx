import { Field } from '../parts/field.tsx'

/** One line of text, or several, with its label. */
export function TextField(props: {
  readonly label: string
  readonly hint?: string
  readonly value: string
  readonly onValue: (value: string) => void
  readonly lines?: boolean
}) {
  const { label, hint, value, onValue, lines = false } = props
  return (
    <Field
      label={label}
      hint={hint}
      control={(attributes) => {
        const shared = { ...attributes, spellcheck: false, value }
        return lines ? (
          <textarea {...shared} class="input servers-arg" rows={2} onInput={(event) => onValue(event.currentTarget.value)} />
        ) : (
          <input {...shared} class="input" onInput={(event) => onValue(event.currentTarget.value)} />
        )
      }}
    />
  )
}

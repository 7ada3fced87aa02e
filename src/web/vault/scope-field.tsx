import { nameOf } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'

type Props = {
  readonly label: string
  readonly hint?: string
  /** `global`, `role:NAME` or `workspace:FOLDER`. */
  readonly value: string
  readonly onChange: (value: string) => void
  readonly workspaces: readonly string[]
  readonly roles: readonly string[]
}

/** For whose sessions something is. */
export function ScopeField({ label, hint, value, onChange, workspaces, roles }: Props) {
  const known = ['global', ...roles.map((role) => `role:${role}`), ...workspaces.map((folder) => `workspace:${folder}`)]
  const all = known.includes(value) ? known : [...known, value]
  return (
    <Field
      label={label}
      hint={hint}
      control={(attributes) => (
        <select {...attributes} class="input" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {all.map((one) => (
            <option key={one} value={one}>
              {one === 'global' ? 'every session' : nameOf(one.replace(/^(role|workspace):/, '$1 '))}
            </option>
          ))}
        </select>
      )}
    />
  )
}

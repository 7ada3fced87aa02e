import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

type Attributes = { readonly id: string; readonly 'aria-describedby'?: string; readonly 'aria-invalid'?: true }

/** A label with its control, a hint and what is wrong with it. `control` is given the attributes that tie them together. */
export function Field(props: {
  readonly label: string
  readonly hint?: ComponentChildren
  readonly error?: string | undefined
  readonly control: (attributes: Attributes) => ComponentChildren
}) {
  const id = useId()
  const below = props.error ?? props.hint
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.control({
        id,
        ...(below !== undefined && { 'aria-describedby': `${id}-below` }),
        ...(props.error !== undefined && { 'aria-invalid': true as const }),
      })}
      {below !== undefined && (
        <span id={`${id}-below`} class={props.error === undefined ? 'small quiet' : 'small bad-text'}>
          {below}
        </span>
      )}
    </div>
  )
}

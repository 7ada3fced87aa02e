import type { ComponentChildren } from 'preact'

/** A table that scrolls in itself where it is wide, by keyboard too. The rows are its children; the head of a column of buttons is `''`. */
export function Table(props: {
  readonly label: string
  readonly heads: readonly string[]
  readonly caption?: ComponentChildren
  /** Of the table, and of what it scrolls in. */
  readonly class?: string
  readonly around?: string
  readonly children: ComponentChildren
}) {
  return (
    <div class={`table-scroll ${props.around ?? ''}`.trimEnd()} tabIndex={0} role="region" aria-label={props.label}>
      <table class={`table ${props.class ?? ''}`.trimEnd()}>
        {props.caption !== undefined && <caption class="quiet small">{props.caption}</caption>}
        <thead>
          <tr>
            {props.heads.map((head) => (
              <th key={head} scope="col">
                {head === '' ? <span class="visually-hidden">Actions</span> : head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  )
}

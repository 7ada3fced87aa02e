import type { ComponentChildren } from 'preact'
import { Name } from './exact.tsx'

/** The head of a view: what it is, a line on it, and what can be done. */
export function ViewHead({ title, about, children }: { title: string; about?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="view-head">
      <div>
        <h1 tabIndex={-1}>
          <Name text={title} />
        </h1>
        {about !== undefined && <p class="quiet">{about}</p>}
      </div>
      {children !== undefined && <div class="row">{children}</div>}
    </header>
  )
}

import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { Name } from './exact.tsx'

/** A modal dialog. Escape closes it; the browser keeps the focus inside and gives it back. */
export function Dialog(props: {
  readonly title: string
  readonly wide?: boolean
  readonly onClose: () => void
  readonly children: ComponentChildren
}) {
  const element = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={element}
      class={`dialog${props.wide === true ? ' dialog-wide' : ''}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        props.onClose()
      }}
    >
      <div class="dialog-body">
        <h2 id={id}>
          <Name text={props.title} />
        </h2>
        {props.children}
      </div>
    </dialog>
  )
}

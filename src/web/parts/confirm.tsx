import type { ComponentChildren } from 'preact'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'

/** What is asked before it is done: `verb` does it. Closes when it was done. */
export function Confirm(props: {
  readonly title: string
  readonly verb: string
  readonly children: ComponentChildren
  readonly onConfirm: () => Promise<unknown>
  readonly onClose: () => void
}) {
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      {props.children}
      <div class="dialog-foot">
        <Button onPress={props.onClose}>Cancel</Button>
        <Button
          kind="bad"
          onPress={async () => {
            await props.onConfirm()
            props.onClose()
          }}
        >
          {props.verb}
        </Button>
      </div>
    </Dialog>
  )
}

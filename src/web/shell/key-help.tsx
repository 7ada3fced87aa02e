import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { keyHelp } from './keys.ts'

const NAMES: Readonly<Record<string, string>> = { ' ': 'space', Enter: 'enter', Escape: 'escape' }

/** All keys of what is shown, when `?` asks for them. */
export function KeyHelp() {
  if (!keyHelp.isOpen.value) return null
  return (
    <Dialog title="Keys" onClose={close}>
      <dl class="facts">
        {[...keyHelp.keys.value, { key: '?', does: 'these keys' }].map(({ key, does }) => (
          <div key={key} class="key-line">
            <dt>
              <kbd>{NAMES[key] ?? key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p class="small quiet">They are left alone where you write, and with Control, Alt or Command.</p>
      <div class="dialog-foot">
        <Button onPress={close}>Close</Button>
      </div>
    </Dialog>
  )
}

function close(): void {
  keyHelp.isOpen.value = false
}

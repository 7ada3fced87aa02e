import type { ComponentChildren, ComponentProps } from 'preact'
import { useState } from 'preact/hooks'
import { notifyFailure } from './notices.tsx'

type Props = Omit<ComponentProps<'button'>, 'onClick'> & {
  readonly kind?: 'main' | 'bad' | 'plain'
  /** While it goes on the button cannot be pressed again; what fails is said. */
  readonly onPress: () => unknown
  readonly children: ComponentChildren
}

export function Button({ kind, onPress, children, disabled, ...rest }: Props) {
  const [busy, setBusy] = useState(false)
  const press = async (): Promise<void> => {
    setBusy(true)
    try {
      await onPress()
    } catch (error) {
      notifyFailure(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <button
      type="button"
      {...rest}
      class={`button${kind === undefined ? '' : ` button-${kind}`}`}
      disabled={disabled === true || busy}
      aria-busy={busy}
      onClick={() => void press()}
    >
      {children}
    </button>
  )
}

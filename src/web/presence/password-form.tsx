import { useEffect, useId, useRef, useState } from 'preact/hooks'

/** Asks for the password. The value is in the field alone, and taken out of it when it is sent. */
export function PasswordForm(props: { readonly verb: string; readonly send: (password: string) => Promise<void> }) {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  const [isBusy, setBusy] = useState(false)
  useEffect(() => field.current?.focus(), [])
  const submit = async (): Promise<void> => {
    const password = field.current?.value ?? ''
    if (field.current === null || password === '' || isBusy) return
    field.current.value = ''
    setBusy(true)
    await props.send(password)
    setBusy(false)
    field.current?.focus()
  }
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
    >
      <label for={id}>Password of the operator</label>
      <div class="presence-line">
        <input ref={field} id={id} class="input" type="password" autocomplete="off" maxLength={1_024} required />
        <button type="submit" class="button button-main" disabled={isBusy} aria-busy={isBusy}>
          {props.verb}
        </button>
      </div>
    </form>
  )
}

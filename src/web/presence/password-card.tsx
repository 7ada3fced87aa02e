import { useRef, useState } from 'preact/hooks'
import type { Tier } from '../../wire/question.ts'
import { Problem } from '../api/client.ts'
import { Badge } from '../parts/badge.tsx'
import { Field } from '../parts/field.tsx'
import { notify, notifyFailure } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { act } from './act.ts'

const CHARS_MIN = 8
const CHARS_MAX = 1_024

/** Sets the password of the operator, or changes it. What is typed is in the fields alone, and taken out of them when it is sent. */
export function PasswordCard({ available, onChanged }: { available: readonly Tier[] | undefined; onChanged: () => void }) {
  const isSet = available?.includes('T1') === true
  const form = useRef<HTMLFormElement>(null)
  const [problem, setProblem] = useState<Problem>()
  const [isDifferent, setDifferent] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const submit = async (): Promise<void> => {
    const { old, next, again } = Object.fromEntries(new FormData(form.current ?? undefined)) as Record<string, string | undefined>
    setProblem(undefined)
    setDifferent(next !== again)
    if (next === undefined || next !== again || isBusy) return
    form.current?.reset()
    setBusy(true)
    try {
      await act('POST', '/v1/approver/password', { next, ...(isSet && { old }) }, 'Set the password of the operator')
      notify(isSet ? 'The password is changed.' : 'The password is set.')
      onChanged()
    } catch (error) {
      if (error instanceof Problem) setProblem(error)
      else notifyFailure(error)
    }
    setBusy(false)
  }
  return (
    <section class="card stack" aria-labelledby="presence-password">
      <div class="row">
        <h2 id="presence-password" class="grow">
          Password
        </h2>
        {available !== undefined && <Badge tone={isSet ? 'ok' : 'quiet'}>{isSet ? 'set' : 'not set'}</Badge>}
      </div>
      <p class="quiet">It proves T1, and lets you in without a link. Take none that you use elsewhere. No agent is ever told it.</p>
      {problem !== undefined && <ProblemNote problem={problem} />}
      <form
        ref={form}
        class="presence-line presence-fields"
        onSubmit={(event) => {
          event.preventDefault()
          void submit()
        }}
      >
        {isSet && <PasswordField label="Password until now" name="old" />}
        <PasswordField label="New password" name="next" minLength={CHARS_MIN} hint={`At least ${CHARS_MIN} characters.`} />
        <PasswordField label="New password again" name="again" error={isDifferent ? 'It is another one than the first.' : undefined} />
        <button type="submit" class="button button-main" disabled={isBusy || available === undefined} aria-busy={isBusy}>
          {isSet ? 'Change it' : 'Set it'}
        </button>
      </form>
    </section>
  )
}

function PasswordField(props: {
  readonly label: string
  readonly name: string
  readonly minLength?: number
  readonly hint?: string
  readonly error?: string | undefined
}) {
  const { label, name, minLength, hint, error } = props
  return (
    <Field
      label={label}
      hint={hint}
      error={error}
      control={(attributes) => (
        <input
          {...attributes}
          class="input"
          type="password"
          name={name}
          autocomplete="off"
          minLength={minLength}
          maxLength={CHARS_MAX}
          required
        />
      )}
    />
  )
}

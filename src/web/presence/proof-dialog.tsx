import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { PresenceProof, Tier } from '../../wire/question.ts'
import { Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { asked, leave, type Asked } from './prove.ts'
import './presence.css'

const DIGITS_SHOWN = 16

/** Asks who is there, for the first of what waits for it. */
export function ProofDialog() {
  const [first] = asked.value
  // It goes with the login.
  useEffect(() => () => asked.value.forEach(leave), [])
  return first === undefined ? null : <Proving key={first.key} ask={first} />
}

function Proving({ ask }: { ask: Asked }) {
  const approver = useResource<{ readonly available: readonly Tier[] }>('/v1/approver')
  const [problem, setProblem] = useState<Problem>()
  const available = approver.value?.available ?? []
  const takesPassword = ask.tier === 'T1' && available.includes('T1')

  const send = async (proof: PresenceProof): Promise<void> => {
    setProblem(undefined)
    try {
      ask.settle(await ask.send(proof))
    } catch (error) {
      if (error instanceof Problem && error.code === 'presence_failed') setProblem(error)
      else ask.fail(error)
    }
  }

  return (
    <Dialog title="Prove that it is you" onClose={() => leave(ask)}>
      <dl class="facts">
        <dt>For</dt>
        <dd>{ask.does}</dd>
        {ask.digest !== undefined && (
          <>
            <dt>Digest</dt>
            <dd class="mono">{ask.digest.slice(0, DIGITS_SHOWN)}</dd>
          </>
        )}
      </dl>
      {(problem ?? approver.problem) !== undefined && <ProblemNote problem={(problem ?? approver.problem) as Problem} />}
      {takesPassword && <PasswordForm send={send} />}
      {approver.value !== undefined && !takesPassword && <NoWay ask={ask} />}
      <div class="dialog-foot">
        <Button onPress={() => leave(ask)}>Leave it</Button>
      </div>
    </Dialog>
  )
}

/** The value is in the field alone, and taken out of it when it is sent. */
function PasswordForm({ send }: { send: (proof: PresenceProof) => Promise<void> }) {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  const [isBusy, setBusy] = useState(false)
  const submit = async (): Promise<void> => {
    const password = field.current?.value ?? ''
    if (field.current === null || password === '' || isBusy) return
    field.current.value = ''
    setBusy(true)
    await send({ kind: 'password', password })
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
        <input ref={field} id={id} class="input" type="password" autocomplete="off" maxLength={1_024} autofocus required />
        <button type="submit" class="button button-main" disabled={isBusy} aria-busy={isBusy}>
          Confirm
        </button>
      </div>
    </form>
  )
}

function NoWay({ ask: { tier, command } }: { ask: Asked }) {
  return (
    <div class="note note-warn">
      <p>
        {tier === 'T1' && 'This needs the operator’s password or a passkey, and there is none yet: set one under Access.'}
        {tier === 'T2' && 'The operating system has to ask you for this, which it does for a program in a terminal.'}
        {tier === 'T3' && 'This needs a passkey, and none is registered: register one under Access.'}
      </p>
      {tier === 'T2' && command !== undefined && (
        <p>
          Give this command there: <code>{command}</code>
        </p>
      )}
    </div>
  )
}

import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import type { SessionView } from '../../wire/operator.ts'
import { call } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Name, nameOf } from '../parts/exact.tsx'
import { notify } from '../parts/notices.tsx'
import { Lines } from './sandbox.tsx'
import { isUp } from './session-state.ts'

type Props = { readonly session: SessionView; readonly onDone?: () => void }

/** Ends a session, after a word on what that loses. */
export function StopButton({ session, onDone }: Props) {
  const { id, name, project } = session
  const [isAsked, setAsked] = useState(false)
  const stop = async (): Promise<void> => {
    const { planted: found } = await call<{ planted: readonly string[] }>('POST', `/v1/sessions/${id}/down`)
    notify(`${name} has ended`)
    planted.value = found
    onDone?.()
  }
  return (
    <>
      {isUp(session) && (
        <Button kind="bad" aria-label={`Stop ${nameOf(name)}`} onPress={() => setAsked(true)}>
          Stop
        </Button>
      )}
      {isAsked && (
        <Confirm title="Stop this session?" verb="Stop it" onConfirm={stop} onClose={() => setAsked(false)}>
          <p>
            <Name text={name} /> ends: its agent and all its programs, its containers and networks, and its leases.
          </p>
          <p>
            Lost is what is in the agent’s memory and in its home folder. The workspace stays as it is
            {project === undefined ? '' : '; docker compose brings the containers back with up'}, and the audit stays.
          </p>
        </Confirm>
      )}
    </>
  )
}

/** Of the session that was stopped last: its card is gone by then. */
const planted = signal<readonly string[]>([])
const forget = (): void => void (planted.value = [])

/** What changed in a workspace while its session ran, once it was stopped here. */
export function Planted() {
  if (planted.value.length === 0) return null
  return (
    <Dialog title="Look at this in the workspace" onClose={forget}>
      <p>While the session ran, this changed in the workspace, where a program of yours may run or read it:</p>
      <Lines lines={planted.value} />
      <div class="dialog-foot">
        <Button onPress={forget}>Close</Button>
      </div>
    </Dialog>
  )
}

/** Makes the agent’s container anew. */
export function ResetButton({ session: { id, name }, onDone }: Props) {
  const [isAsked, setAsked] = useState(false)
  const reset = async (): Promise<void> => {
    await call('POST', `/v1/sessions/${id}/reset`)
    notify(`The agent of ${name} was made anew`)
    onDone?.()
  }
  return (
    <>
      <Button onPress={() => setAsked(true)}>Reset agent…</Button>
      {isAsked && (
        <Confirm title="Make the agent anew?" verb="Reset it" onConfirm={reset} onClose={() => setAsked(false)}>
          <p>
            The agent’s container is thrown away and made again from its image, and its command starts anew. Its home folder, /tmp and all
            its programs are gone.
          </p>
          <p>The workspace, the gate, the leases and what was approved for the session stay.</p>
        </Confirm>
      )}
    </>
  )
}

/** Cuts a session off. `of`: the lease's or the session's id. */
export function RevokeButton({ of, name, onDone }: { readonly of: string; readonly name: string; readonly onDone?: () => void }) {
  const [isAsked, setAsked] = useState(false)
  const revoke = async (): Promise<void> => {
    await call('POST', `/v1/leases/${encodeURIComponent(of)}/revoke`)
    notify(`The leases of ${name} are revoked`)
    onDone?.()
  }
  return (
    <>
      <Button kind="bad" aria-label={`Revoke the lease of ${nameOf(name)}`} onPress={() => setAsked(true)}>
        Revoke…
      </Button>
      {isAsked && (
        <Confirm title="Revoke the lease?" verb="Revoke it" onConfirm={revoke} onClose={() => setAsked(false)}>
          <p>
            Every lease of <Name text={name} /> is good for nothing from now on: its connections are cut, its secrets are wiped from the
            gate, and nothing it asks for is answered. Its agent goes on without a way out.
          </p>
          <p>This is not taken back: for a new lease, start a new session.</p>
        </Confirm>
      )}
    </>
  )
}

type Applied = {
  readonly sessions: number
  readonly failed: readonly { readonly name: string; readonly code: string; readonly detail: string }[]
}

/** Gives every session the secrets and the policy as they are now. */
export function ApplyButton() {
  return <Button onPress={apply}>Apply to sessions</Button>
}

async function apply(): Promise<void> {
  const { sessions, failed } = await call<Applied>('POST', '/v1/secrets/apply', {})
  notify(`${sessions === 1 ? 'One session has' : `${sessions} sessions have`} the secrets and the policy as they are now`)
  for (const { name, code, detail } of failed) notify(`${name}: ${code}: ${detail}`, 'bad')
}

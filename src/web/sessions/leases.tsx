import { useState } from 'preact/hooks'
import type { LeaseView } from '../../wire/session-facts.ts'
import { call } from '../api/client.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Name } from '../parts/exact.tsx'
import { notify } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { RevokeButton } from './actions.tsx'
import { Table } from '../parts/table.tsx'

const TONES: Readonly<Record<LeaseView['state'], Tone>> = { live: 'ok', revoked: 'bad', ended: 'quiet' }
/** Of those that have ended only the last are of interest here. */
const ENDED_SHOWN_MAX = 20

/** What sessions prove themselves with. Read when it is opened. */
export function Leases() {
  const [isOpen, setOpen] = useState(false)
  return (
    <details class="session-leases" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Leases</summary>
      {isOpen && <LeaseTable />}
    </details>
  )
}

function LeaseTable() {
  const { value, problem, reload } = useResource<{ leases: readonly LeaseView[] }>('/v1/leases')
  if (problem !== undefined) return <ProblemNote problem={problem} />
  const all = value?.leases ?? []
  const live = all.filter(({ state }) => state !== 'ended')
  const shown = [...live, ...all.filter(({ state }) => state === 'ended').slice(0, ENDED_SHOWN_MAX)]
  return (
    <div class="stack">
      <p class="quiet">
        A lease is what a session’s agent and gate show for what they ask. It has no end but its session’s, or yours. Revoking one revokes
        all of its session.
      </p>
      <Table label="Leases" heads={['State', 'For', 'Session', 'Agent', 'Workspace', 'Action']}>
        {shown.map(({ id, session, audience, agent, role, workspace, state }) => (
          <tr key={id}>
            <td>
              <Badge tone={TONES[state]}>{state}</Badge>
            </td>
            <td>{audience === 'sidecar' ? 'gate' : 'agent'}</td>
            <td class="mono">{session}</td>
            <td>
              <Name text={agent} />
              {role !== undefined && (
                <>
                  {' '}
                  as <Name text={role} />
                </>
              )}
            </td>
            <td>
              <Name text={workspace} />
            </td>
            <td>{state === 'live' && audience === 'agent' && <RevokeButton of={id} name={session} onDone={reload} />}</td>
          </tr>
        ))}
      </Table>
      <RotateKey onDone={reload} />
    </div>
  )
}

function RotateKey({ onDone }: { onDone: () => void }) {
  const [asked, setAsked] = useState<'later' | 'now' | undefined>()
  const rotate = async (): Promise<void> => {
    await call('POST', '/v1/leases/rotate-key', { now: asked === 'now' })
    notify('leases are signed with a new key from now on')
    onDone()
  }
  return (
    <div class="row">
      <Button onPress={() => setAsked('later')}>Rotate the signing key…</Button>
      <Button kind="bad" onPress={() => setAsked('now')}>
        Rotate it and end all leases…
      </Button>
      {asked !== undefined && (
        <Confirm
          title={asked === 'now' ? 'A new key, and no lease of the old one?' : 'A new key for leases?'}
          verb="Rotate it"
          onConfirm={rotate}
          onClose={() => setAsked(undefined)}
        >
          <p>
            {asked === 'now'
              ? 'No lease that was signed before is valid any more: every session that runs is cut off from the gate’s methods and has to be started anew.'
              : 'New sessions get leases of the new key. Those that run keep theirs.'}
          </p>
        </Confirm>
      )}
    </div>
  )
}

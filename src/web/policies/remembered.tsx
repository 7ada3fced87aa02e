import { useState } from 'preact/hooks'
import type { PolicyListing, RememberedView } from '../../wire/policies.ts'
import { call } from '../api/client.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { Exact, Name, nameOf } from '../parts/exact.tsx'
import { notify } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago, now } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ChangeDialog } from './change-dialog.tsx'
import { Table } from '../parts/table.tsx'

const KINDS = { host_command: 'command', network: 'request', timed: 'network' } as const

/** What was answered with "remember", and what was allowed for a time. */
export function Remembered() {
  const { value, problem, reload } = useResource<PolicyListing>('/v1/policies')
  const [taken, setTaken] = useState<RememberedView>()
  const forget = async (one: RememberedView): Promise<void> => {
    if (one.layer !== undefined) return setTaken(one)
    await call('POST', `/v1/policies/remembered/${encodeURIComponent(one.id)}/forget`, {})
    notify('It is forgotten: the next time you are asked again')
    reload()
  }
  if (problem !== undefined) return <ProblemNote problem={problem} />
  if (value === undefined) return <p class="quiet">…</p>
  const rules = value.remembered.filter(({ expiresAt }) => expiresAt === undefined || expiresAt > now.value)
  if (rules.length === 0)
    return (
      <Empty title="Nothing holds for a time">
        <p>Answers with “remember”, and hosts that are allowed for a session, an hour or a day, stand here until they end.</p>
      </Empty>
    )
  return (
    <>
      <section class="card" aria-label="Rules for a time">
        <Table label="Rules for a time, table" heads={['Rule', 'About', 'For', 'Ends', '']}>
          {rules.map((one) => (
            <Row key={`${one.kind} ${one.id}`} one={one} onTake={() => forget(one)} />
          ))}
        </Table>
      </section>
      {taken?.layer !== undefined && (
        <ChangeDialog
          layer={taken.layer}
          edit={{ kind: 'remove_rule', id: taken.id, isTimed: true }}
          onDone={() => {
            setTaken(undefined)
            reload()
          }}
          onClose={() => setTaken(undefined)}
        />
      )}
    </>
  )
}

function Row({ one, onTake }: { one: RememberedView; onTake: () => unknown }) {
  return (
    <tr>
      <td>
        <code>
          <Exact text={one.rule} />
        </code>
      </td>
      <td>
        <Badge tone="quiet">{KINDS[one.kind]}</Badge>
      </td>
      <td>
        <Name text={one.session?.name ?? one.workspace ?? ''} />
      </td>
      <td>{one.expiresAt === undefined ? 'with the session' : <Ago at={one.expiresAt} />}</td>
      <td>
        <Button kind="bad" onPress={onTake} aria-label={`Take back ${nameOf(one.rule)}`}>
          Take back
        </Button>
      </td>
    </tr>
  )
}

import { useState } from 'preact/hooks'
import type { ChangeDetail, ChangeDone, HistoryEntry, HistoryView } from '../../wire/policies.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Diff } from '../parts/diff.tsx'
import { Empty } from '../parts/empty.tsx'
import { Name, nameOf } from '../parts/exact.tsx'
import { notify } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'
import { act } from '../presence/act.ts'
import { Table } from '../parts/table.tsx'

/** What became of policies, from the audit; the change itself where it is kept. */
export function History() {
  const { value, problem, reload } = useResource<HistoryView>('/v1/policies/history')
  const [open, setOpen] = useState<HistoryEntry>()
  if (problem !== undefined) return <ProblemNote problem={problem} />
  if (value === undefined) return <p class="quiet">…</p>
  if (value.entries.length === 0)
    return (
      <Empty title="No policy was changed yet">
        <p>Changes on this page, by proposals and of trust are recorded in the audit and listed here.</p>
      </Empty>
    )
  return (
    <>
      <section class="card" aria-label="Changes">
        <Table label="Changes, table" heads={['When', 'What', 'Did', 'By', 'SHA-256 then', '']}>
          {value.entries.map((entry, index) => (
            <Row key={`${index} ${entry.at}`} entry={entry} onLook={() => setOpen(entry)} />
          ))}
        </Table>
      </section>
      {open?.id !== undefined && (
        <Change
          id={open.id}
          onClose={() => setOpen(undefined)}
          onReverted={() => {
            setOpen(undefined)
            reload()
          }}
        />
      )}
    </>
  )
}

function Row({ entry, onLook }: { entry: HistoryEntry; onLook: () => void }) {
  return (
    <tr>
      <td>
        <Ago at={entry.at} />
      </td>
      <td>
        <Name text={entry.what} />
      </td>
      <td>
        <Name text={entry.did} /> {entry.isReverted === true && entry.did === 'applied' && <Badge tone="quiet">taken back</Badge>}
      </td>
      <td>
        <Name text={entry.by} />
      </td>
      <td>
        <code title={nameOf(entry.digest ?? '')}>
          <Name text={entry.digest?.slice(0, 12) ?? ''} />
        </code>
      </td>
      <td>
        {entry.id !== undefined && (
          <Button onPress={onLook} aria-label={`Look at the change ${nameOf(entry.id)}`}>
            Look
          </Button>
        )}
      </td>
    </tr>
  )
}

function Change({ id, onClose, onReverted }: { id: string; onClose: () => void; onReverted: () => void }) {
  const { value, problem } = useResource<ChangeDetail>(`/v1/policies/history/${encodeURIComponent(id)}`)
  const revert = async (): Promise<void> => {
    const path = `/v1/${value?.isProposed === true ? 'proposals' : 'policies/history'}/${encodeURIComponent(id)}/revert`
    const { notTaken = [] } = await act<Partial<ChangeDone>>('POST', path, {}, `take back the change of ${value?.target ?? 'a policy'}`)
    for (const { name, why } of notTaken) notify(`The session ${name} keeps the policy that it had: ${why}`, 'bad')
    notify('The change is taken back')
    onReverted()
  }
  return (
    <Dialog title="A change of a policy" wide onClose={onClose}>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {value !== undefined && (
        <>
          <p>
            <Name text={value.target} />, <Ago at={value.appliedAt} />
            {value.revertedAt !== undefined && (
              <>
                , taken back <Ago at={value.revertedAt} />
              </>
            )}
          </p>
          <Diff text={value.diff.lines.join('\n')} label="The change" />
        </>
      )}
      <div class="dialog-foot">
        <Button onPress={onClose}>Close</Button>
        {value !== undefined && value.revertedAt === undefined && (
          <Button kind="bad" onPress={revert}>
            Take back
          </Button>
        )}
      </div>
    </Dialog>
  )
}

import { useState } from 'preact/hooks'
import type { TriedWay } from '../../wire/session-facts.ts'
import { call } from '../api/client.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Exact } from '../parts/exact.tsx'
import { Table } from '../parts/table.tsx'

/** Tries every way out of a session that runs, and shows what came of it. */
export function Selftest({ session }: { session: string }) {
  const [rows, setRows] = useState<readonly TriedWay[] | undefined>()
  const run = async (): Promise<void> => setRows(await call<readonly TriedWay[]>('POST', `/v1/sessions/${session}/selftest`))
  const open = rows?.filter(({ ok }) => !ok) ?? []
  return (
    <section class="card stack" aria-label="Selftest">
      <div class="row">
        <h2 class="grow">Selftest</h2>
        <Button onPress={run}>Try every way out</Button>
      </div>
      <p class="quiet">
        Puts a probe beside the agent, in a container like its own, and tries what is known to lead out. It takes some seconds.
      </p>
      <div aria-live="polite">
        {rows !== undefined && (
          <p>
            {open.length === 0 ? (
              <Badge tone="ok">all {rows.length} shut</Badge>
            ) : (
              <Badge tone="bad">
                {open.length} of {rows.length} open
              </Badge>
            )}
          </p>
        )}
      </div>
      {rows !== undefined && (
        <Table label="Ways out" heads={['Result', 'Way', 'Tried', 'Found']}>
          {[...open, ...rows.filter(({ ok }) => ok)].map(({ id, what, why, ok, detail }) => (
            <tr key={id}>
              <td>
                <Badge tone={ok ? 'ok' : 'bad'}>{ok ? 'shut' : 'open'}</Badge>
              </td>
              <td class="mono">{id}</td>
              <td title={why}>{what}</td>
              <td>
                <Exact text={detail} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  )
}

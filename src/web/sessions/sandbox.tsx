import { useState } from 'preact/hooks'
import type { SessionView } from '../../wire/operator.ts'
import type { SandboxView } from '../../wire/session-facts.ts'
import { Badge } from '../parts/badge.tsx'
import { Exact } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago, now } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'

/** What holds a session, in a word. */
export function SandboxBadge({ session: { project, selftestAt } }: { session: SessionView }) {
  if (project !== undefined) return <Badge tone="quiet">Container of docker compose</Badge>
  return (
    <>
      <Badge tone="ok">Hardened container</Badge>
      {selftestAt === undefined && <Badge tone="warn">ways out not tried</Badge>}
    </>
  )
}

/** The same with what was found, which is looked up when it is opened. */
export function SandboxDetails({ session }: { session: SessionView }) {
  const [isOpen, setOpen] = useState(false)
  if (session.project !== undefined || session.state !== 'running') return <SandboxBadge session={session} />
  return (
    <details class="session-sandbox" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <SandboxBadge session={session} />
      </summary>
      {isOpen && <SandboxFlags session={session} />}
    </details>
  )
}

/** What the engine shows of it now. */
export function SandboxFlags({ session: { id, selftestAt } }: { session: SessionView }) {
  const { value, problem } = useResource<SandboxView>(`/v1/sessions/${id}/sandbox`)
  if (problem !== undefined) return <ProblemNote problem={problem} />
  if (value === undefined) return <p class="quiet">…</p>
  return (
    <div class="stack session-verified">
      {value.differences.length > 0 && (
        <div class="note note-bad">
          <p>It is not what was asked for:</p>
          <Lines lines={value.differences} />
        </div>
      )}
      <ul class="session-flags" aria-label="What holds it">
        {value.flags.map(({ id: flag, what, found, holds }) => (
          <li key={flag} data-flag={flag}>
            <span class={`session-holds session-holds-${String(holds)}`}>{holds === null ? 'none' : holds ? 'holds' : 'open'}</span>
            <span>{what}</span>
            <span class="quiet">
              <Exact text={found} />
            </span>
          </li>
        ))}
        <li data-flag="selftest">
          <span class={`session-holds session-holds-${String(selftestAt !== undefined)}`}>
            {selftestAt === undefined ? 'open' : 'holds'}
          </span>
          <span>Selftest</span>
          <span class="quiet">{selftestAt === undefined ? 'left out at the start' : <TriedAt at={selftestAt} />}</span>
        </li>
      </ul>
      <p class="small quiet">
        Read from the engine <Ago at={Math.min(value.at, now.value)} />.
      </p>
    </div>
  )
}

function TriedAt({ at }: { at: number }) {
  return (
    <>
      every way out was found shut, <Ago at={at} />
    </>
  )
}

/** Lines that somebody else may have had a hand in. */
export function Lines({ lines }: { lines: readonly string[] }) {
  return (
    <ul class="session-lines">
      {lines.map((line, index) => (
        <li key={index}>
          <Exact text={line} />
        </li>
      ))}
    </ul>
  )
}

import type { SessionView } from '../../wire/operator.ts'
import { Badge } from '../parts/badge.tsx'
import { Name, nameOf } from '../parts/exact.tsx'
import { duration, now } from '../parts/time.tsx'
import { hrefOf } from '../shell/route.ts'
import { StopButton } from './actions.tsx'
import { SessionFigures } from './figures.tsx'
import { Lines, SandboxDetails } from './sandbox.tsx'
import { isUp, stateOf } from './session-state.ts'

/** Every session, the last one first. */
export function SessionCards({ sessions }: { sessions: readonly SessionView[] }) {
  const ordered = sessions.toSorted((a, b) => b.createdAt - a.createdAt)
  return (
    <ul class="session-cards" aria-label="Sessions">
      {ordered.map((session) => (
        <li key={session.id} class="card session-card" data-session={session.id}>
          <SessionCard session={session} />
        </li>
      ))}
    </ul>
  )
}

function SessionCard({ session }: { session: SessionView }) {
  const { id, name, harness, role, project, workspace, image, createdAt, warnings, alerts } = session
  const { text, tone } = stateOf(session)
  return (
    <>
      <div class="row">
        <h2 class="grow session-name">
          <a href={hrefOf('sessions', [id])}>
            <Name text={name} />
          </a>
        </h2>
        <Badge tone={tone}>{text}</Badge>
      </div>
      <p class="small quiet session-place">
        <Name text={workspace} />
      </p>
      <p class="row small">
        <span>{harness === null ? project === undefined ? 'no harness' : 'docker compose' : <Name text={harness} />}</span>
        {role !== undefined && (
          <span>
            role <Name text={role} />
          </span>
        )}
        {image !== undefined && (
          <span class="quiet">
            <Name text={image} />
          </span>
        )}
        <span class="quiet">up {duration(now.value - createdAt)}</span>
      </p>
      {alerts.length > 0 && (
        <div class="note note-bad">
          <p>This came to be wrong while it ran:</p>
          <Lines lines={alerts} />
        </div>
      )}
      {warnings.length > 0 && (
        <details class="note note-warn">
          <summary>{warnings.length === 1 ? 'one warning' : `${warnings.length} warnings`}</summary>
          <Lines lines={warnings} />
        </details>
      )}
      <SessionFigures session={id} />
      <div class="session-foot">
        <SandboxDetails session={session} />
        {isUp(session) && (
          <div class="row">
            {project === undefined && (
              <a class="button" href={hrefOf('sessions', [id, 'terminal'])} aria-label={`Terminal of ${nameOf(name)}`}>
                Terminal
              </a>
            )}
            <a class="button" href={hrefOf('activity', [], { session: id })} aria-label={`Activity of ${nameOf(name)}`}>
              Activity
            </a>
            <StopButton session={session} />
          </div>
        )}
      </div>
    </>
  )
}

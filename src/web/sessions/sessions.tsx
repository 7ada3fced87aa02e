import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { ViewHead } from '../parts/view-head.tsx'
import { go, hrefOf, route } from '../shell/route.ts'
import { ApplyButton, Planted } from './actions.tsx'
import { Leases } from './leases.tsx'
import { SessionCards } from './session-cards.tsx'
import { SessionDetail } from './session-detail.tsx'
import { sessionList } from './session-list.ts'
import { StartForm } from './start-form.tsx'
import { Starting } from './starting.tsx'
import { useStats } from './stats.ts'
import './sessions.css'

/** `#/sessions`, `#/sessions/new` and `#/sessions/ID/TAB`. */
export function Sessions() {
  useStats()
  const [id, tab] = route.value.rest
  return (
    <>
      <Planted />
      {id === undefined ? <All /> : id === 'new' ? <StartForm /> : <SessionDetail key={id} id={id} tab={tab ?? 'overview'} />}
    </>
  )
}

function All() {
  const all = sessionList.value
  return (
    <>
      <ViewHead title="Sessions" about="Agents, each in a container of its own, behind a gate of its own.">
        {all !== undefined && all.length > 0 && <ApplyButton />}
        <Button kind="main" onPress={() => go('sessions', ['new'])}>
          New session
        </Button>
      </ViewHead>
      <div class="stack">
        <Starting />
        {all === undefined && <p class="quiet">…</p>}
        {all?.length === 0 && (
          <Empty title="No session runs">
            <p>
              A session is an agent in a hardened container of its own, behind a gate of its own.{' '}
              <a href={hrefOf('sessions', ['new'])}>Start one here</a>, or in a terminal: <code>sallyport up</code>
            </p>
          </Empty>
        )}
        {all !== undefined && all.length > 0 && <SessionCards sessions={all} />}
        <Leases />
      </div>
    </>
  )
}

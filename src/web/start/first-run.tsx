import { effect, signal } from '@preact/signals'
import type { StartView } from '../../wire/first-run.ts'
import { access, call } from '../api/client.ts'
import { Empty } from '../parts/empty.tsx'
import { sessionList } from '../sessions/session-list.ts'
import { hrefOf } from '../shell/route.ts'

/** Whether no session of this home has run yet; undefined until the daemon said so. */
const isFirstRun = signal<boolean | undefined>(undefined)

/** Looks once, when this tab is let in. */
export function keepFirstRun(): () => void {
  return effect(() => {
    if (sessionList.value !== undefined && sessionList.value.length > 0) isFirstRun.value = false
    if (access.value !== 'in' || isFirstRun.peek() !== undefined) return
    call<StartView>('GET', '/v1/start').then(
      ({ isFirst }) => (isFirstRun.value = isFirst),
      // Then the views are as always.
      () => undefined,
    )
  })
}

/** What leads to a first session, above views that have nothing to show before it. */
export function FirstRun() {
  if (isFirstRun.value !== true) return null
  return (
    <div class="card">
      <Empty title="No agent has run here yet">
        <p>Three steps lead to the first one: this machine, a policy for a folder, and the start.</p>
        <a class="button button-main" href={hrefOf('start')}>
          Begin
        </a>
      </Empty>
    </div>
  )
}

import { route } from '../shell/route.ts'
import { ViewHead } from '../parts/view-head.tsx'
import { Logs } from './logs.tsx'
import { sessionList } from './session-list.ts'
import { Terminal } from './terminal.tsx'

export function Sessions() {
  const [id, tab] = route.value.rest
  const session = sessionList.value?.find((one) => one.id === id)
  return (
    <>
      <ViewHead title="Sessions" />
      {session !== undefined && tab === 'terminal' && <Terminal session={session} />}
      {session !== undefined && tab === 'logs' && <Logs session={session} />}
    </>
  )
}

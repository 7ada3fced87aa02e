import { useEffect } from 'preact/hooks'
import { access } from '../api/client.ts'
import { keepFeed } from '../api/feed.ts'
import { keepStanding } from '../audit/standing.ts'
import { keepBackground } from '../inbox/background.ts'
import { keepQuestions } from '../inbox/questions.ts'
import { Notices } from '../parts/notices.tsx'
import { LogIn } from '../presence/log-in.tsx'
import { ProofDialog } from '../presence/proof-dialog.tsx'
import { keepFirstRun } from '../start/first-run.tsx'
import { keepSessions } from '../sessions/session-list.ts'
import { Frame } from './frame.tsx'
import { KeyHelp } from './key-help.tsx'
import { keepKeys } from './keys.ts'

export function App() {
  useEffect(() => {
    const stops = [keepQuestions(), keepSessions(), keepFirstRun(), keepStanding(), keepKeys(), keepBackground(), keepFeed()]
    return () => stops.forEach((stop) => stop())
  }, [])
  return (
    <>
      {access.value === 'in' && <Frame />}
      {access.value === 'out' && <LogIn />}
      {access.value === 'in' && <ProofDialog />}
      {access.value === 'in' && <KeyHelp />}
      <Notices />
    </>
  )
}

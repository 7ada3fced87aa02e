import { useSignal } from '@preact/signals'
import { useState } from 'preact/hooks'
import type { UpRequest } from '../../wire/operator.ts'
import type { SessionPreview } from '../../wire/session-facts.ts'
import { call, Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { ViewHead } from '../parts/view-head.tsx'
import { go, route } from '../shell/route.ts'
import { PreviewView } from './preview.tsx'
import { StartFields } from './start-fields.tsx'
import { NO_WISH, requestOf, type Faults, type StartWish } from './start-request.ts'
import { start, startRun } from './start-run.ts'
import { Starting } from './starting.tsx'

type Looked = { readonly request: UpRequest; readonly preview?: SessionPreview; readonly problem?: Problem }

/** Of a form that was left for another view, as for a secret that is missing. */
let left = NO_WISH

function beginWish(query: URLSearchParams): StartWish {
  const workspace = query.get('workspace')
  if (workspace === null) return left
  return { ...(left.workspace === workspace ? left : NO_WISH), workspace, harness: query.get('harness') ?? '' }
}

/** A new session: what is wished, what would come of it, and then the start. */
export function StartForm() {
  const wish = useSignal<StartWish>(beginWish(route.value.query))
  const [faults, setFaults] = useState<Faults>({})
  const [looked, setLooked] = useState<Looked | undefined>()
  const change = (part: Partial<StartWish>): void => {
    wish.value = left = { ...wish.value, ...part }
    // What was shown is not what would be started any more.
    setLooked(undefined)
  }
  const checked = (): UpRequest | undefined => {
    const read = requestOf(wish.value)
    setFaults('faults' in read ? read.faults : {})
    return 'request' in read ? read.request : undefined
  }
  const look = async (): Promise<void> => {
    const request = checked()
    if (request === undefined) return
    try {
      setLooked({ request, preview: await call<SessionPreview>('POST', '/v1/sessions/preview', request) })
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      setLooked({ request, problem: error })
    }
  }
  const begin = async (): Promise<void> => {
    const request = checked()
    if (request === undefined) return
    const session = await start(request)
    if (session !== undefined) left = NO_WISH
    // Only from here: who looks at something else meanwhile is left there.
    if (session !== undefined && route.value.rest[0] === 'new') go('sessions', [session.id])
  }
  const isStarting = startRun.value !== undefined && startRun.value.problem === undefined
  return (
    <>
      <ViewHead title="New session" about="An agent in a container of its own, behind a gate of its own.">
        <Button onPress={() => go('sessions')}>Back to sessions</Button>
      </ViewHead>
      <div class="session-start">
        <form class="card stack" aria-label="New session" onSubmit={(event) => (event.preventDefault(), void look())}>
          <StartFields wish={wish.value} faults={faults} change={change} />
          <div class="row">
            <button type="submit" class="button">
              Preview
            </button>
            <Button kind="main" disabled={isStarting} onPress={begin}>
              Start
            </Button>
          </div>
        </form>
        <div class="stack" aria-live="polite">
          <Starting />
          {looked?.problem !== undefined && <ProblemNote problem={looked.problem} />}
          {looked?.preview !== undefined && <PreviewView preview={looked.preview} />}
          {looked === undefined && !isStarting && (
            <p class="quiet">Preview shows what the session could reach, use and see. It starts nothing.</p>
          )}
        </div>
      </div>
    </>
  )
}

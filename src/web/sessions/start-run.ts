import { signal } from '@preact/signals'
import type { PullView, SessionView, UpRequest } from '../../wire/operator.ts'
import { Problem, send } from '../api/client.ts'
import { jsonLinesOf } from '../api/events.ts'

/** A session on its way up, in this tab: it goes on when another view is looked at, and is undone when the tab goes. */
export type StartRun = {
  readonly request: UpRequest
  readonly steps: readonly string[]
  readonly pulls: Readonly<Record<string, PullView>>
  readonly problem?: Problem
  readonly session?: SessionView
  readonly cancel: () => void
}

type Line = {
  readonly step?: string
  readonly pull?: PullView
  readonly session?: SessionView
  readonly problem?: { readonly status: number; readonly code: string; readonly detail: string; readonly hint?: string }
}

export const startRun = signal<StartRun | undefined>(undefined)

/** Starts a session; what becomes of it is in `startRun`. The answer is it, or undefined where it failed or was called off. */
export async function start(request: UpRequest): Promise<SessionView | undefined> {
  const stop = new AbortController()
  const change = (next: Partial<StartRun>): void => {
    if (startRun.value !== undefined) startRun.value = { ...startRun.value, ...next }
  }
  startRun.value = { request, steps: [], pulls: {}, cancel: () => stop.abort() }
  try {
    const { body } = await send('POST', '/v1/sessions', request, stop.signal)
    if (body === null) throw new TypeError('the answer has no body')
    for await (const one of jsonLinesOf(body)) {
      const { step, pull, session, problem } = one as Line
      const before = startRun.value
      if (step !== undefined && before !== undefined) change({ steps: [...before.steps, step] })
      if (pull !== undefined && before !== undefined) change({ pulls: { ...before.pulls, [pull.image]: pull } })
      if (problem !== undefined) throw new Problem(problem.status, problem.code, problem.detail, problem.hint)
      if (session !== undefined) {
        startRun.value = undefined
        return session
      }
    }
    throw new Problem(
      0,
      'daemon_unavailable',
      'the daemon ended before the session was up',
      'see its log; start it again: sallyport daemon',
    )
  } catch (error) {
    if (stop.signal.aborted) startRun.value = undefined
    else if (error instanceof Problem) change({ problem: error })
    else change({ problem: new Problem(0, 'daemon_unavailable', 'the daemon was lost while the session came up: nothing of it is left') })
    return undefined
  }
}

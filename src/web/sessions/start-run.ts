import { signal } from '@preact/signals'
import type { PullView, SessionView, UpRequest } from '../../wire/operator.ts'
import { call, Problem, send } from '../api/client.ts'
import { jsonLinesOf } from '../api/events.ts'
import { prove } from '../presence/prove.ts'

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
    const { body } = await sent(request, stop.signal)
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
    if (stop.signal.aborted || isLeft(error)) startRun.value = undefined
    else if (error instanceof Problem) change({ problem: error })
    else change({ problem: new Problem(0, 'daemon_unavailable', 'the daemon was lost while the session came up: nothing of it is left') })
    return undefined
  }
}

/** Files for its policy are the operator's wish only with a proof, where there is something to prove it with. */
async function sent(request: UpRequest, stop: AbortSignal): Promise<Response> {
  const [verb, path] = ['POST', '/v1/sessions'] as const
  try {
    return await send(verb, path, request, stop)
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'presence_required') throw error
  }
  return await prove({
    does: 'Start a session with policy files of its own',
    ways: () => call('POST', '/v1/presence/challenge', { method: verb, path, body: request }),
    send: (proof) => send(verb, path, { ...request, proof }, stop),
  })
}

/** The operator left the dialog: nothing was started. */
function isLeft(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

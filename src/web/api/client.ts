import { signal } from '@preact/signals'

/** What the daemon says of a call that failed (RFC 9457): the code and hint are the ones that the commands print. */
export class Problem extends Error {
  readonly code: string
  readonly status: number
  readonly hint: string | undefined

  constructor(status: number, code: string, detail: string, hint?: string) {
    super(detail)
    this.status = status
    this.code = code
    this.hint = hint
  }
}

/** Whether this tab is let in: `unknown` until the first look. */
export const access = signal<'unknown' | 'in' | 'out'>('unknown')
/** Id of this tab's login, for the list of them. */
export const loginId = signal('')
/** It was let in, and is not any more. */
export const hasLoginEnded = signal(false)

// I87: In this tab's memory and nowhere else: storage and cookies are read by whatever else runs at localhost.
let token: string | undefined

export function letIn(login: { readonly id: string; readonly token: string }): void {
  token = login.token
  loginId.value = login.id
  hasLoginEnded.value = false
  access.value = 'in'
}

export function forgetLogin(): void {
  token = undefined
  loginId.value = ''
  access.value = 'out'
}

/** Of one call: what takes longer streams. */
const CALL_MS = 60_000

export type Verb = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * Calls the daemon.
 * @throws Problem, also where the daemon cannot be reached (`daemon_unavailable`, status 0)
 */
export async function call<T>(verb: Verb, path: string, body?: unknown, stop?: AbortSignal): Promise<T> {
  const late = AbortSignal.timeout(CALL_MS)
  try {
    const response = await send(verb, path, body, stop === undefined ? late : AbortSignal.any([stop, late]))
    const text = await response.text()
    return (text === '' ? undefined : JSON.parse(text)) as T
  } catch (error) {
    if (!late.aborted || stop?.aborted === true) throw error
    throw new Problem(
      0,
      'daemon_unavailable',
      'the daemon did not answer within a minute',
      'what was asked may be done all the same: look first',
    )
  }
}

/** The same for what streams or is a file: its head, with success for a status. @throws Problem */
export async function send(verb: Verb, path: string, body?: unknown, stop?: AbortSignal): Promise<Response> {
  const sentWith = token
  let response: Response
  try {
    response = await fetch(path, {
      method: verb,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(stop !== undefined && { signal: stop }),
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
    })
  } catch (error) {
    if (stop?.aborted === true) throw error
    throw new Problem(0, 'daemon_unavailable', 'the daemon does not answer', 'is it running? sallyport daemon')
  }
  if (response.ok) return response
  const problem = await problemOf(response)
  // Another login may have begun while this call was on its way.
  if (problem.code === 'login_required' && token === sentWith && sentWith !== undefined) {
    forgetLogin()
    hasLoginEnded.value = true
  }
  throw problem
}

async function problemOf(response: Response): Promise<Problem> {
  const said: unknown = await response.json().catch(() => undefined)
  const { code, detail, hint } = (typeof said === 'object' && said !== null ? said : {}) as Record<string, unknown>
  return new Problem(
    response.status,
    typeof code === 'string' ? code : 'internal',
    typeof detail === 'string' ? detail : `the daemon answered ${response.status}`,
    typeof hint === 'string' ? hint : undefined,
  )
}

import { signal } from '@preact/signals'
import { access, call, forgetLogin, letIn, loginId, Problem } from './client.ts'

/** Why the last try to log in failed. */
export const loginProblem = signal<Problem | undefined>(undefined)

type Login = { readonly id: string; readonly token: string }

/** Takes the ticket out of the address before anything else happens: it is in no history, and good once. */
export async function beginLogin(): Promise<void> {
  await redeemTicket()
  // `sallyport open` in the same tab changes the part behind the # alone.
  addEventListener('hashchange', () => void redeemTicket())
}

async function redeemTicket(): Promise<void> {
  const ticket = /^#ticket=([\w-]{1,256})$/.exec(location.hash)?.[1]
  if (ticket === undefined) {
    if (access.value === 'unknown') forgetLogin()
    return
  }
  history.replaceState(null, '', '/#/inbox')
  await logIn('/v1/login', { ticket })
}

/** Whether it let this tab in. */
export async function logIn(path: string, body: unknown): Promise<boolean> {
  try {
    letIn(await call<Login>('POST', path, body))
    loginProblem.value = undefined
    return true
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    forgetLogin()
    loginProblem.value = error
    return false
  }
}

/** Ends this tab's login at the daemon too. */
export async function logOut(): Promise<void> {
  await call('DELETE', `/v1/logins/${encodeURIComponent(loginId.value)}`).catch(() => undefined)
  forgetLogin()
}

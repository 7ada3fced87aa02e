import type { LoginWays, PasskeyRequest } from '../../wire/passkeys.ts'
import { call, hasLoginEnded, Problem } from '../api/client.ts'
import { logIn, loginProblem } from '../api/login.ts'
import { Button } from '../parts/button.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { showPasskey } from './authenticator.ts'
import { PasswordForm } from './password-form.tsx'
import './presence.css'

/** How a tab is let in: by a link, and by what its operator has set up. */
export function LogIn() {
  const ways = useResource<LoginWays>('/v1/login/ways').value
  const problem = loginProblem.value
  const hasOther = ways?.password === true || ways?.passkey === true
  return (
    <main class="log-in">
      <div class="card stack log-in-card">
        <h1>Sallyport</h1>
        {hasLoginEnded.value && (
          <p class="note" role="status">
            The login of this tab has ended: the daemon began anew, nobody used it for a while, or somebody ended it. Sessions are not
            touched by that.
          </p>
        )}
        {problem !== undefined && <ProblemNote problem={problem} />}
        {ways?.password === true && (
          <PasswordForm verb="Log in" send={async (password) => void (await logIn('/v1/login/password', { password }))} />
        )}
        {ways?.passkey === true && <Button onPress={logInByPasskey}>Log in with a passkey</Button>}
        <p class={hasOther ? 'quiet' : ''}>
          {hasOther ? 'Or run ' : 'To open this page, run '}
          <code>sallyport open</code> in a terminal on this machine.
        </p>
      </div>
    </main>
  )
}

async function logInByPasskey(): Promise<void> {
  try {
    const request = await call<PasskeyRequest>('POST', '/v1/login/passkey/challenge', {})
    await logIn('/v1/login/passkey', { response: await showPasskey(request) })
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    loginProblem.value = error
  }
}

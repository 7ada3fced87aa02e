import type { LoginView, LoginWay } from '../../wire/operator.ts'
import { call, loginId } from '../api/client.ts'
import { logOut } from '../api/login.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Name } from '../parts/exact.tsx'
import { notify } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'

const WAYS: Readonly<Record<LoginWay, string>> = { link: 'by a link', password: 'by password', passkey: 'by passkey' }

/** The tabs that are let in. */
export function LoginList() {
  const found = useResource<readonly LoginView[]>('/v1/logins')
  const logins = found.value ?? []
  const others = logins.filter(({ id }) => id !== loginId.value)
  const end = async (...ended: readonly LoginView[]): Promise<void> => {
    await Promise.all(ended.map(({ id }) => call('DELETE', `/v1/logins/${encodeURIComponent(id)}`)))
    notify(ended.length === 1 ? 'That login has ended.' : `${ended.length} logins have ended.`)
    found.reload()
  }
  return (
    <section class="card stack" aria-labelledby="presence-logins">
      <div class="row">
        <h2 id="presence-logins" class="grow">
          Logins
        </h2>
        <Button onPress={found.reload}>Refresh</Button>
        {others.length > 1 && (
          <Button kind="bad" onPress={() => end(...others)}>
            End all others
          </Button>
        )}
      </div>
      <p class="quiet">Each tab has a login of its own, in its memory alone: it ends with the tab, with this daemon, or here.</p>
      {found.problem !== undefined && <ProblemNote problem={found.problem} />}
      <ul class="presence-list">
        {logins.map((login) => (
          <li key={login.id} class="presence-item">
            <div class="grow">
              <h3 class="row">
                <span>
                  <code>{login.id}</code> {WAYS[login.way]}
                </span>
                {login.id === loginId.value && <Badge tone="ok">this tab</Badge>}
              </h3>
              <p class="quiet small">
                <Name text={login.browser === '' ? 'no name' : login.browser} />
              </p>
              <p class="quiet small">
                Since <Ago at={login.createdAt} />, used <Ago at={login.usedAt} />, ends <Ago at={login.endsAt} /> if nothing is done
              </p>
            </div>
            <Button kind="bad" aria-label={`End login ${login.id}`} onPress={() => (login.id === loginId.value ? logOut() : end(login))}>
              End
            </Button>
          </li>
        ))}
      </ul>
    </section>
  )
}

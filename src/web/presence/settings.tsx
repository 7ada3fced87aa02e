import type { PasskeysView } from '../../wire/passkeys.ts'
import type { Tier } from '../../wire/question.ts'
import { ViewHead } from '../parts/view-head.tsx'
import { useResource } from '../parts/use-resource.ts'
import { Levels } from './levels.tsx'
import { LoginList } from './login-list.tsx'
import { PasskeyList } from './passkey-list.tsx'
import { PasswordCard } from './password-card.tsx'
import './presence.css'

/** Who may use this page, and how they prove who they are. */
export function Settings() {
  const approver = useResource<{ readonly available: readonly Tier[] }>('/v1/approver')
  const passkeys = useResource<PasskeysView>('/v1/passkeys')
  const reload = (): void => {
    approver.reload()
    passkeys.reload()
  }
  return (
    <>
      <ViewHead title="Access" about="Who may use this page, and how you prove that it is you." />
      <div class="stack presence-cards">
        <LoginList />
        <PasskeyList found={passkeys} onChanged={reload} />
        <PasswordCard available={approver.value?.available} onChanged={reload} />
        <Levels available={approver.value?.available} />
      </div>
    </>
  )
}

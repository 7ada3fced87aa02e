import { useEffect, useRef, useState } from 'preact/hooks'
import type { AppliedSecrets, SecretsView } from '../../wire/secrets.ts'
import { call } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ViewHead } from '../parts/view-head.tsx'
import { go, route } from '../shell/route.ts'
import { AppliedNote } from './applied-note.tsx'
import { Providers } from './providers.tsx'
import { SecretDetail } from './secret-detail.tsx'
import { SecretList } from './secret-list.tsx'
import { StoreDialog } from './store-dialog.tsx'
import { VaultState } from './vault-state.tsx'
import './vault.css'

/** Secrets by name, never their values; what uses them, and where they go. */
export function Vault() {
  const [key] = route.value.rest
  const { value: found, problem, isLoading, reload } = useResource<SecretsView>('/v1/secrets')
  useEffect(() => {
    // A command may have changed it while the page was in the background.
    const look = (): void => void (document.visibilityState === 'visible' && reload())
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [reload])
  const shown = useRef(key)
  useEffect(() => {
    if (shown.current !== key) reload()
    shown.current = key
  }, [key, reload])
  if (found === undefined) {
    return (
      <>
        <ViewHead title="Vault" />
        {problem === undefined ? <p class="quiet">…</p> : <ProblemNote problem={problem} />}
      </>
    )
  }
  return key === undefined ? (
    <Overview found={found} reload={reload} />
  ) : (
    <SecretDetail key={key} name={key} found={found} isLoading={isLoading} reload={reload} />
  )
}

function Overview({ found, reload }: { found: SecretsView; reload: () => void }) {
  const [isAdding, setAdding] = useState(false)
  const [applied, setApplied] = useState<AppliedSecrets>()
  const { vault, secrets, problems } = found
  const isEmpty = secrets.length === 0 && problems.length === 0
  const apply = async (): Promise<void> => setApplied(await call<AppliedSecrets>('POST', '/v1/secrets/apply', {}))
  return (
    <>
      <ViewHead title="Vault" about="What agents never have: the gate writes it into requests. Values are not shown here.">
        <Button onPress={apply}>Apply to sessions</Button>
        {vault.state !== 'closed' && (
          <Button kind="main" onPress={() => setAdding(true)}>
            Add a secret
          </Button>
        )}
      </ViewHead>
      <div class="stack">
        {applied !== undefined && <AppliedNote applied={applied} onClose={() => setApplied(undefined)} />}
        <VaultState vault={vault} onOpened={reload} />
        {vault.state !== 'closed' && isEmpty && (
          <Empty title="No secrets yet">
            <p>
              Store a key or a token here, then say which hosts get it. Agents work with it without ever having it.
              {vault.state === 'none' && ' The first one makes the vault on this machine.'}
            </p>
            <p>
              What was exported elsewhere comes in with <code>sallyport secret import FILE</code>.
            </p>
          </Empty>
        )}
        {!isEmpty && <SecretList found={found} />}
        <Providers />
        <p class="small quiet">
          Exports and imports, another lock and a new key are commands: <code>sallyport secret export</code>, <code>import</code>,{' '}
          <code>rotate-key</code>.
        </p>
      </div>
      {isAdding && (
        <StoreDialog
          found={found}
          onClose={() => setAdding(false)}
          onStored={(stored) => {
            setAdding(false)
            go('vault', [stored])
          }}
        />
      )}
    </>
  )
}

import { useId, useRef, useState } from 'preact/hooks'
import type { VaultStateView } from '../../wire/secrets.ts'
import { Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Exact } from '../parts/exact.tsx'
import { notify, notifyFailure } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { act } from '../presence/act.ts'

const LOCKS: Readonly<Record<string, string>> = { keyring: 'the keyring', passphrase: 'a passphrase', 'key-file': 'a key file' }

/** Why the vault does not answer, and what opens it. Of an open one, what it is locked with. */
export function VaultState({ vault, onOpened }: { vault: VaultStateView; onOpened: () => void }) {
  if (vault.state === 'none') return null
  if (vault.state === 'open') return <p class="small quiet">The vault is open; on the disk it is locked with {LOCKS[vault.method]}.</p>
  const { code, message, hint, method } = vault
  return (
    <section class="card stack" aria-labelledby="vault-closed">
      <h2 id="vault-closed">The vault is closed</h2>
      <div class="note note-warn">
        <p>
          <code>{code}</code> <Exact text={message} />
        </p>
        {hint !== undefined && (
          <p class="quiet">
            <Exact text={hint} />
          </p>
        )}
      </div>
      <p>
        Sessions that need nothing of it start; those that do are refused. {method !== undefined && `It is locked with ${LOCKS[method]}.`}
      </p>
      {method === 'passphrase' ? <PassphraseForm onOpened={onOpened} /> : <TryAgain onOpened={onOpened} />}
    </section>
  )
}

async function unlock(body: { readonly passphrase?: string }, onOpened: () => void): Promise<void> {
  await act('POST', '/v1/vault/unlock', body, 'unlock the vault')
  notify('The vault is open. "Apply to sessions" gives its secrets to those that run.')
  onOpened()
}

function TryAgain({ onOpened }: { onOpened: () => void }) {
  return (
    <div class="row">
      <Button kind="main" onPress={() => unlock({}, onOpened)}>
        Try again
      </Button>
      <span class="quiet small">once what unlocks it is there again</span>
    </div>
  )
}

/** The passphrase is in the field alone, and taken out of it when it is sent. */
function PassphraseForm({ onOpened }: { onOpened: () => void }) {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem>()
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    const passphrase = field.current?.value ?? ''
    if (field.current === null || passphrase === '' || isBusy) return
    field.current.value = ''
    setBusy(true)
    setProblem(undefined)
    try {
      await unlock({ passphrase }, onOpened)
    } catch (error) {
      if (error instanceof Problem) setProblem(error)
      else notifyFailure(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <form class="field vault-unlock" onSubmit={(event) => void submit(event)}>
      <label for={id}>Passphrase of the vault</label>
      <div class="vault-line">
        <input ref={field} id={id} class="input" type="password" autocomplete="off" maxLength={1_024} required />
        <button type="submit" class="button button-main" disabled={isBusy} aria-busy={isBusy}>
          Unlock
        </button>
      </div>
      {problem !== undefined && <ProblemNote problem={problem} />}
    </form>
  )
}

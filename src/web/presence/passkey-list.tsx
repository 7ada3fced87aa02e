import { useRef, useState } from 'preact/hooks'
import type { PasskeyCreation, PasskeysView, PasskeyView } from '../../wire/passkeys.ts'
import { call } from '../api/client.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Name, nameOf } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { notify } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago } from '../parts/time.tsx'
import type { Resource } from '../parts/use-resource.ts'
import { act } from './act.ts'
import { makePasskey } from './authenticator.ts'

const NAME_CHARS_MAX = 64

type Done = () => void

export function PasskeyList({ found, onChanged }: { found: Resource<PasskeysView>; onChanged: Done }) {
  const [open, setOpen] = useState<{ readonly what: 'rename' | 'remove'; readonly passkey: PasskeyView }>()
  const passkeys = found.value?.passkeys ?? []
  const done = (): void => {
    setOpen(undefined)
    onChanged()
  }
  return (
    <section class="card stack" aria-labelledby="presence-passkeys">
      <h2 id="presence-passkeys">Passkeys</h2>
      <p class="quiet">
        They prove the highest level (T3), and let you in without a link. Register two, on different devices: the one that is left is how
        you replace the one that is lost.
      </p>
      {found.problem !== undefined && <ProblemNote problem={found.problem} />}
      {found.value?.problem !== undefined && (
        <div class="note note-bad" role="alert">
          <p>{found.value.problem}</p>
          <p class="quiet">Until then nothing is proven by passkey, and none is registered. The daemon says in its log what to do.</p>
        </div>
      )}
      {found.value?.problem === undefined && passkeys.length === 0 && found.value !== undefined && <p>None is registered.</p>}
      <ul class="presence-list">
        {passkeys.map((passkey) => (
          <li key={passkey.id} class="presence-item">
            <div class="grow">
              <h3 class="row">
                <Name text={passkey.name} />
                {passkey.isCopied && <Badge tone="quiet">kept in step over devices</Badge>}
              </h3>
              <p class="quiet small">
                Registered <Ago at={passkey.createdAt} />,{' '}
                {passkey.usedAt === undefined ? (
                  'not used yet'
                ) : (
                  <>
                    last used <Ago at={passkey.usedAt} />
                  </>
                )}
              </p>
            </div>
            <Button aria-label={`Rename ${nameOf(passkey.name)}`} onPress={() => setOpen({ what: 'rename', passkey })}>
              Rename
            </Button>
            <Button kind="bad" aria-label={`Remove ${nameOf(passkey.name)}`} onPress={() => setOpen({ what: 'remove', passkey })}>
              Remove
            </Button>
          </li>
        ))}
      </ul>
      {found.value !== undefined && found.value.problem === undefined && <Register count={passkeys.length} onDone={onChanged} />}
      {open?.what === 'rename' && <Rename passkey={open.passkey} onDone={done} onClose={() => setOpen(undefined)} />}
      {open?.what === 'remove' && (
        <Remove passkey={open.passkey} isLast={passkeys.length === 1} onDone={done} onClose={() => setOpen(undefined)} />
      )}
    </section>
  )
}

function Register({ count, onDone }: { count: number; onDone: Done }) {
  const field = useRef<HTMLInputElement>(null)
  const register = async (): Promise<void> => {
    const name = field.current?.value.trim() ?? ''
    if (name === '') return field.current?.focus()
    const response = await makePasskey(await call<PasskeyCreation>('POST', '/v1/passkeys/challenge', {}))
    await act('POST', '/v1/passkeys', { name, response }, 'Register a passkey')
    if (field.current !== null) field.current.value = ''
    notify('The passkey is registered.')
    onDone()
  }
  return (
    <div class="presence-line presence-fields">
      <Field
        label="Name of a new passkey"
        hint={count === 0 ? 'Your word for it, as “laptop” or “blue key”.' : 'One that is registered is asked for, to let another in.'}
        control={(attributes) => <input {...attributes} ref={field} class="input" autocomplete="off" maxLength={NAME_CHARS_MAX} />}
      />
      <Button kind="main" onPress={register}>
        Register a passkey
      </Button>
    </div>
  )
}

type OpenProps = { readonly passkey: PasskeyView; readonly onDone: Done; readonly onClose: Done }

function Rename({ passkey, onDone, onClose }: OpenProps) {
  const field = useRef<HTMLInputElement>(null)
  const rename = async (): Promise<void> => {
    const name = field.current?.value.trim() ?? ''
    if (name === '') return field.current?.focus()
    await act('PATCH', pathOf(passkey), { name }, 'Rename a passkey')
    onDone()
  }
  return (
    <Dialog title="Rename a passkey" onClose={onClose}>
      <Field
        label="Name"
        control={(attributes) => (
          <input {...attributes} ref={field} class="input" autocomplete="off" maxLength={NAME_CHARS_MAX} defaultValue={passkey.name} />
        )}
      />
      <div class="dialog-foot">
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="main" onPress={rename}>
          Rename
        </Button>
      </div>
    </Dialog>
  )
}

function Remove({ passkey, isLast, onDone, onClose }: OpenProps & { readonly isLast: boolean }) {
  const remove = async (): Promise<void> => {
    await act('DELETE', pathOf(passkey), {}, 'Remove a passkey')
    notify('The passkey is removed. Your device may still list it: it opens nothing here.')
    onDone()
  }
  return (
    <Confirm title="Remove this passkey?" verb="Remove" onConfirm={remove} onClose={onClose}>
      <p>
        <Name text={passkey.name} /> will prove nothing any more, and let nobody in.
      </p>
      {isLast && (
        <p class="note note-warn">
          It is the last one: what a policy wants T3 for cannot be allowed until another is registered, only denied.
        </p>
      )}
    </Confirm>
  )
}

function pathOf({ id }: PasskeyView): string {
  return `/v1/passkeys/${encodeURIComponent(id)}`
}

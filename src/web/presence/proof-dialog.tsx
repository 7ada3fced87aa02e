import { useCallback, useEffect, useState } from 'preact/hooks'
import type { PasskeyRequest, ProofAsked } from '../../wire/passkeys.ts'
import type { PresenceProof } from '../../wire/question.ts'
import { Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { showPasskey } from './authenticator.ts'
import { PasswordForm } from './password-form.tsx'
import { asked, leave, type Asked } from './prove.ts'
import './presence.css'

const DIGITS_SHOWN = 16

/** Asks who is there, for the first of what waits for it. */
export function ProofDialog() {
  const [first] = asked.value
  // It goes with the login.
  useEffect(() => () => asked.value.forEach(leave), [])
  return first === undefined ? null : <Proving key={first.key} ask={first} />
}

function Proving({ ask }: { ask: Asked }) {
  const [ways, setWays] = useState<ProofAsked>()
  const [problem, setProblem] = useState<Problem>()
  // A challenge is good for one try.
  const begin = useCallback(() => ask.ways().then(setWays, ask.fail), [ask])
  useEffect(() => void begin(), [begin])

  const send = async (proof: () => Promise<PresenceProof>): Promise<void> => {
    setProblem(undefined)
    try {
      ask.settle(await ask.send(await proof()))
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'presence_failed') return ask.fail(error)
      setProblem(error)
      await begin()
    }
  }
  const sendPasskey = (request: PasskeyRequest): Promise<void> =>
    send(async () => ({ kind: 'passkey', response: await showPasskey(request) }))

  return (
    <Dialog title="Prove that it is you" onClose={() => leave(ask)}>
      <dl class="facts">
        <dt>For</dt>
        <dd>
          <Name text={ask.does} />
        </dd>
        <dt>Digest</dt>
        <dd class="mono">{ways?.digest.slice(0, DIGITS_SHOWN) ?? '…'}</dd>
      </dl>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {ways?.password === true && <PasswordForm verb="Confirm" send={(password) => send(async () => ({ kind: 'password', password }))} />}
      {ways !== undefined && <Elsewhere ways={ways} command={ask.command} />}
      <div class="dialog-foot">
        <Button onPress={() => leave(ask)}>Cancel</Button>
        <PasskeyButton ways={ways} use={sendPasskey} />
      </div>
    </Dialog>
  )
}

function PasskeyButton({ ways, use }: { ways: ProofAsked | undefined; use: (request: PasskeyRequest) => Promise<void> }) {
  const request = ways?.passkey
  if (ways === undefined || request === undefined) return null
  return (
    <Button {...(!ways.password && { kind: 'main' })} onPress={() => use(request)}>
      Use a passkey
    </Button>
  )
}

/** What to do where this page, or this operator, has no way. */
function Elsewhere({ ways: { tier, password, passkey }, command }: { ways: ProofAsked; command: string | undefined }) {
  if (tier !== 'T2' && (password || passkey !== undefined)) return null
  return (
    <div class="note note-warn">
      <p>
        {tier === 'T1' && 'This needs the operator’s password or a passkey, and there is none yet: set one under Access.'}
        {tier === 'T2' && 'The operating system has to ask you for this, which it does for a program in a terminal.'}
        {tier === 'T3' && 'This needs a passkey, and none can be used: register one under Access.'}
      </p>
      {tier === 'T2' && command !== undefined && (
        <p>
          Give this command there: <code>{command}</code>
          {passkey !== undefined && '. A passkey proves more, and is taken too.'}
        </p>
      )}
    </div>
  )
}

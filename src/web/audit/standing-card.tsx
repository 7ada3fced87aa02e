import type { AuditStanding } from '../../wire/audit-views.ts'
import { call } from '../api/client.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Exact } from '../parts/exact.tsx'
import { Ago } from '../parts/time.tsx'
import { standing } from './standing.ts'

/** What verifying the audit found, and when. */
export function StandingCard() {
  const now = standing.value
  return (
    <section class="card audit-standing" aria-label="Verification">
      <div class="audit-standing-text" role="status">
        <Found now={now} />
      </div>
      <Button onPress={async () => (standing.value = await call<AuditStanding>('POST', '/v1/audit/verify', {}))}>Verify now</Button>
    </section>
  )
}

function Found({ now }: { now: AuditStanding }) {
  if (now.state === 'checking') return <p class="quiet">It is being looked at for the first time since this page was opened.</p>
  if (now.state === 'broken')
    return (
      <div class="note note-bad">
        <p>
          <Badge tone="bad">does not hold</Badge> <code>{now.code}</code>
        </p>
        <p>
          <Exact text={now.message} />
        </p>
        <p>
          Looked at <Ago at={now.at} />. Keep a copy of the folder as it is before anything else.
        </p>
      </div>
    )
  return (
    <>
      <p>
        <Badge tone="ok">holds</Badge> Every line, link and signature; looked at <Ago at={now.at} />
      </p>
      <details>
        <summary class="small">What was found</summary>
        <dl class="facts small">
          <dt>events</dt>
          <dd>
            {now.events} of the controller, {now.sessionEvents} in {now.chains} chains of sessions
          </dd>
          <dt>checkpoints</dt>
          <dd>
            {now.checkpoints}; {now.unsigned} lines behind the last one, {now.uncountersigned} of sessions not countersigned yet
          </dd>
          <dt>head</dt>
          <dd class="mono">{now.head}</dd>
          {now.key !== undefined && (
            <>
              <dt>signed by</dt>
              <dd class="mono">{now.key}</dd>
            </>
          )}
        </dl>
        <p class="small quiet">
          Who may write the audit may write its key too: compare the thumbprint with one that you keep elsewhere (
          <code>sallyport audit key</code>).
        </p>
      </details>
    </>
  )
}

import { useEffect, useRef, useState } from 'preact/hooks'
import type { ActivityDetail, ActivityLine, ActivityTrace } from '../../wire/activity.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago, At, bytes, duration } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'
import { hrefOf } from '../shell/route.ts'
import { AllowHost } from './allow-host.tsx'
import { DECISIONS, kindOf, LANES, nameOfSession, placeOf, PLANES } from './words.ts'

/** Everything about one request: what it was, how it was decided, what the audit has of it, and what can be done. */
export function Panel(props: { readonly session: string; readonly request: string; readonly state: string; readonly onClose: () => void }) {
  const { session, request, state, onClose } = props
  const { value, problem, reload } = useResource<ActivityDetail>(
    `/v1/activity/${encodeURIComponent(session)}/${encodeURIComponent(request)}`,
  )
  const head = useRef<HTMLHeadingElement>(null)
  const known = useRef(state)
  useEffect(() => head.current?.focus(), [session, request])
  useEffect(() => {
    if (known.current !== state) reload()
    known.current = state
  }, [state, reload])
  return (
    <aside class="activity-panel card" aria-label="One request">
      <header class="activity-panel-head">
        <h2 ref={head} tabIndex={-1}>
          {value === undefined ? 'Request' : <Name text={[value.line.method, placeOf(value.line)].filter(Boolean).join(' ')} />}
        </h2>
        <Button kind="plain" onPress={onClose}>
          Close
        </Button>
      </header>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {value !== undefined && <Detail detail={value} onChanged={reload} />}
    </aside>
  )
}

function Detail({ detail, onChanged }: { detail: ActivityDetail; onChanged: () => void }) {
  const { line, trace, traceProblem } = detail
  return (
    <div class="stack">
      <Facts line={line} />
      <Remedy detail={detail} onChanged={onChanged} />
      <section class="stack activity-part">
        <h3>How it is decided</h3>
        {trace === undefined ? (
          <p class="quiet">
            <Exact text={traceProblem ?? ''} />
          </p>
        ) : (
          <Trace trace={trace} line={line} layers={detail.layers} />
        )}
      </section>
      <Events detail={detail} />
    </div>
  )
}

function Facts({ line }: { line: ActivityLine }) {
  const { word, tone } = DECISIONS[line.decision]
  return (
    <dl class="facts">
      <dt>Decision</dt>
      <dd>
        <Badge tone={tone}>{word}</Badge> {line.isAsked === true && 'the operator was asked '}
        {line.rule !== undefined && (
          <>
            by <Name text={line.rule} />
          </>
        )}
      </dd>
      {line.code !== undefined && (
        <>
          <dt>Why</dt>
          <dd>
            <code>{line.code}</code>
          </dd>
        </>
      )}
      <dt>When</dt>
      <dd>
        <Ago at={line.at} /> (<At at={line.at} />)
      </dd>
      <dt>Session</dt>
      <dd>
        <a href={hrefOf('sessions', [line.session])}>
          <Name text={nameOfSession(line.session)} />
        </a>
      </dd>
      <dt>Way</dt>
      <dd>
        {LANES[line.lane]} ({kindOf(line)}), {PLANES[line.plane].toLowerCase()}
        {line.network !== undefined && (
          <>
            , from <Exact text={line.network} />
          </>
        )}
      </dd>
      {line.path !== undefined && (
        <>
          <dt>{line.lane === 'mcp' ? 'Tool' : 'Path'}</dt>
          <dd class="mono">
            <Name text={line.path} />
          </dd>
        </>
      )}
      <dt>Credentials</dt>
      <dd>{line.credentials.length === 0 ? 'none' : <Name text={line.credentials.join(', ')} />}</dd>
      <Outcome line={line} />
    </dl>
  )
}

function Outcome({ line }: { line: ActivityLine }) {
  const { status, address, bytesUp, bytesDown, durationMs, scrubbed, state } = line
  return (
    <>
      <dt>Outcome</dt>
      <dd>
        {status === undefined ? '' : `status ${status}, `}
        {state === 'open' ? 'under way' : state === 'lost' ? 'its session ended before it was recorded how it ended' : 'over'}
      </dd>
      {durationMs !== undefined && (
        <>
          <dt>Took</dt>
          <dd>{duration(durationMs)}</dd>
        </>
      )}
      {(bytesUp !== undefined || bytesDown !== undefined) && (
        <>
          <dt>Sent, received</dt>
          <dd>
            {bytes(bytesUp ?? 0)}, {bytes(bytesDown ?? 0)}
          </dd>
        </>
      )}
      {address !== undefined && (
        <>
          <dt>Address</dt>
          <dd class="mono">
            <Exact text={address} />
          </dd>
        </>
      )}
      {scrubbed !== undefined && (
        <>
          <dt>Secrets written over</dt>
          <dd>{scrubbed} in the answer</dd>
        </>
      )}
    </>
  )
}

function Remedy({ detail: { remedy, line }, onChanged }: { detail: ActivityDetail; onChanged: () => void }) {
  const [isOpen, setOpen] = useState(false)
  if (remedy === undefined) return null
  if (!remedy.isPossible)
    return (
      <p class="note">
        A rule that allows it would not help: <Exact text={remedy.why} />
      </p>
    )
  return (
    <div>
      <Button kind="main" onPress={() => setOpen(true)}>
        Allow this host for…
      </Button>
      {isOpen && (
        <AllowHost
          remedy={remedy}
          session={line.session}
          onDone={() => {
            setOpen(false)
            onChanged()
          }}
          onClose={() => setOpen(false)}
        />
      )}
    </div>
  )
}

function Trace({ trace, line, layers }: { trace: ActivityTrace; line: ActivityLine; layers: ActivityDetail['layers'] }) {
  const { word, tone } = DECISIONS[trace.decision]
  return (
    <>
      {trace.isChanged === true && <p class="note note-warn">The policy of the session was changed since: this is how it decides now.</p>}
      {trace.isChanged === undefined && <p class="small quiet">This is how the session’s policy decides now.</p>}
      <p>
        <Badge tone={tone}>{word}</Badge> <Exact text={trace.why} />
        {trace.rule !== undefined && (
          <>
            {' '}
            (<Exact text={trace.rule.at} />)
          </>
        )}
      </p>
      {trace.hint !== undefined && (
        <p class="quiet">
          <Exact text={trace.hint} />
        </p>
      )}
      {trace.candidates.length === 0 ? (
        <p class="quiet">No rule is about {line.host === undefined ? 'it' : 'this host'}.</p>
      ) : (
        <ol class="activity-rules">
          {trace.candidates.map(({ id, at, action, matches, why }) => (
            <li key={`${id} ${at}`} class={matches ? 'activity-rule-matches' : ''}>
              <span>
                <b>{matches ? 'matches' : 'does not match'}</b>: {action}, <Name text={id} />
              </span>
              <span class="small quiet">
                <Exact text={at} />: <Exact text={why} />
              </span>
            </li>
          ))}
        </ol>
      )}
      {trace.credentials.map((credential) => (
        <p key={credential.id}>
          Credential <Name text={credential.id} /> of secret <Name text={credential.secret} />: <Name text={credential.place} />{' '}
          <span class="quiet">
            (<Name text={credential.at} />)
          </span>
        </p>
      ))}
      {trace.notes.map((note) => (
        <p key={note} class="small quiet">
          <Exact text={note} />
        </p>
      ))}
      <p class="small quiet">
        Layers with rules of their own:{' '}
        {layers.length === 0 ? 'none' : <Exact text={[...new Set(layers.map(({ layer }) => layer))].join(', ')} />}
      </p>
    </>
  )
}

function Events({ detail: { events, eventsProblem } }: { detail: ActivityDetail }) {
  return (
    <section class="stack activity-part">
      <h3>In the audit</h3>
      {eventsProblem !== undefined && (
        <p class="note note-warn">
          <Exact text={eventsProblem} />
        </p>
      )}
      {events.map(({ chain, seq, fields }) => (
        <details key={`${chain} ${seq}`}>
          <summary>
            <code>{String(fields['event'])}</code>, line {seq} of <Name text={chain} />
          </summary>
          <dl class="facts small">
            {Object.entries(fields).map(([name, value]) => (
              <Fact key={name} name={name} value={String(value)} />
            ))}
          </dl>
        </details>
      ))}
    </section>
  )
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>
        <Name text={name} />
      </dt>
      <dd class="mono">
        <Exact text={value} />
      </dd>
    </>
  )
}

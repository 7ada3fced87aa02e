import type { AuditEntryView, AuditStory } from '../../wire/audit-views.ts'
import { Exact, Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { At } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'
import { hrefOf, route } from '../shell/route.ts'

/** What each event says has happened. */
const STEPS: Readonly<Record<string, string>> = {
  decided: 'A request came, and was decided',
  finished: 'The request ended',
  command_decided: 'The agent asked for a command, and the policy was looked at',
  command_finished: 'The command ended',
  secret_requested: 'The agent asked for a secret',
  secret_granted: 'It was given a handle',
  use_decided: 'The agent asked for a command with secrets',
  use_finished: 'That command ended',
  question_asked: 'The operator was asked',
  question_settled: 'The question was settled',
  question_consumed: 'The approval was used: it is good once',
  question_finished: 'What was approved is over',
}

/** Members that are the chain's own. */
const CHAIN: ReadonlySet<string> = new Set(['chain', 'seq', 'time', 'event', 'prev', 'hash', 'signature'])

/** One event with all that belongs to it, from the request to the digest of what was printed. */
export function Story({ id }: { id: string }) {
  const { value, problem } = useResource<AuditStory>(`/v1/audit/story/${encodeURIComponent(id)}`)
  return (
    <section class="card audit-story" aria-label="Story of the event">
      <div class="row">
        <h2 class="grow">Story</h2>
        <a class="button" href={hrefOf('audit', [], Object.fromEntries(route.value.query))}>
          Close
        </a>
      </div>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {value !== undefined && (
        <>
          <ol class="audit-steps">
            {value.entries.map((entry) => (
              <Step key={`${entry.chain}:${entry.seq}`} entry={entry} />
            ))}
          </ol>
          <h3>Signed by</h3>
          {value.signedBy.length === 0 ? (
            <p class="quiet">No checkpoint is behind it yet: the next one will be, within seconds of the next events or at the end.</p>
          ) : (
            <ul class="small">
              {value.signedBy.map(({ chain, seq, event, time }) => (
                <li key={`${chain}:${seq}`} class="mono">
                  <Exact text={`${chain}:${seq} ${event} ${time}`} />
                </li>
              ))}
            </ul>
          )}
        </>
      )}
    </section>
  )
}

function Step({ entry }: { entry: AuditEntryView }) {
  const { chain, seq, time, event, fields } = entry
  return (
    <li class="audit-step">
      <h3>{STEPS[event] ?? <Name text={event} />}</h3>
      <p class="small quiet">
        <At at={Date.parse(time)} /> · <Exact text={`${chain}:${seq}`} />
      </p>
      <dl class="facts small">
        {Object.entries(fields)
          .filter(([name]) => !CHAIN.has(name))
          .map(([name, value]) => (
            <div key={name} class="audit-fact">
              <dt>
                <Name text={name} />
              </dt>
              <dd class="mono">
                <Exact text={typeof value === 'string' ? value : JSON.stringify(value)} />
              </dd>
            </div>
          ))}
      </dl>
    </li>
  )
}

import type { Section } from '../../wire/section.ts'
import { Diff } from '../parts/diff.tsx'
import { Exact } from '../parts/exact.tsx'

/** What belongs to every question and is seldom what decides: shown last, in one table. */
const FACTS: ReadonlySet<string> = new Set([
  'session',
  'workspace',
  'role',
  'agent',
  'rule',
  'near_miss',
  'tier',
  'remember',
  'before',
  'after',
  'expires',
  'id',
  'digest',
])
/** Said by controls of the page. */
const ELSEWHERE: ReadonlySet<string> = new Set(['bundle', 'offer'])

/** A question in the words of the daemon, all of it. */
export function Sections({ sections }: { sections: readonly Section[] }) {
  const shown = sections.filter(({ name }) => !ELSEWHERE.has(name))
  return (
    <>
      {shown
        .filter(({ name }) => !FACTS.has(name))
        .map((section) => (
          <Shown key={section.name} section={section} />
        ))}
      <dl class="facts inbox-facts">
        {shown
          .filter(({ name }) => FACTS.has(name))
          .map(({ name, label, lines }) => (
            <div key={name} class="inbox-fact">
              <dt>{label}</dt>
              <dd class="mono">
                <Exact text={lines.join('\n')} />
              </dd>
            </div>
          ))}
      </dl>
    </>
  )
}

function Shown({ section: { name, label, lines, isWarning } }: { section: Section }) {
  return (
    <section class={`inbox-section${isWarning === true ? ' note note-bad' : ''}${name === 'reason' ? ' inbox-reason' : ''}`}>
      <h3>{label}</h3>
      {name === 'diff' ? <Diff text={lines.join('\n')} label={label} /> : <Lines lines={lines} />}
    </section>
  )
}

export function Lines({ lines }: { lines: readonly string[] }) {
  return (
    <ul class="inbox-lines mono">
      {lines.map((line, index) => (
        <li key={index}>
          <Exact text={line} />
        </li>
      ))}
    </ul>
  )
}

import { useState } from 'preact/hooks'
import type { ExplainedView, PolicyListing } from '../../wire/policies.ts'
import { call, Problem } from '../api/client.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { Exact, nameOf } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { route } from '../shell/route.ts'
import { ChooseWhose, firstOf, queryOf, type Whose } from './whose.tsx'

const TONES: Readonly<Record<ExplainedView['action'], Tone>> = { allow: 'ok', ask: 'warn', deny: 'bad', disabled: 'bad' }
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

type Asked = {
  readonly about: 'url' | 'command'
  readonly url: string
  readonly method: string
  readonly command: string
  readonly cwd: string
}
type Answer = { readonly explained?: ExplainedView; readonly problem?: Problem }

/** Whether a URL or a command would pass, and why: by the code that decides. Nothing is sent or run. */
export function Explain() {
  const { value: listing, problem } = useResource<PolicyListing>('/v1/policies')
  const [chosen, setChosen] = useState<Whose>()
  const { query } = route.value
  const [asked, setAsked] = useState<Asked>({
    about: query.has('command') ? 'command' : 'url',
    url: query.get('url') ?? '',
    method: query.get('method') ?? 'GET',
    command: query.get('command') ?? '',
    cwd: '.',
  })
  const [answer, setAnswer] = useState<Answer>({})
  if (problem !== undefined) return <ProblemNote problem={problem} />
  if (listing === undefined) return <p class="quiet">…</p>
  const whose = chosen ?? firstOf(listing)
  const ask = async (): Promise<void> => {
    const { about, url, method, command, cwd } = asked
    const what = about === 'url' ? { url, method } : { command, cwd }
    try {
      setAnswer({ explained: await call<ExplainedView>('POST', '/v1/policies/explain', { ...queryOf(whose), ...what }) })
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      setAnswer({ problem: error })
    }
  }
  return (
    <div class="stack">
      <form
        class="card stack"
        aria-label="What is asked about"
        onSubmit={(event) => {
          event.preventDefault()
          void ask()
        }}
      >
        <ChooseWhose listing={listing} whose={whose} onChange={setChosen} />
        <Question asked={asked} onChange={setAsked} />
        <div class="row">
          <button type="submit" class="button button-main">
            Explain
          </button>
          <span class="small quiet">Nothing is looked up, sent or run.</span>
        </div>
      </form>
      <div aria-live="polite" class="stack">
        {answer.problem !== undefined && <ProblemNote problem={answer.problem} />}
        {answer.explained !== undefined && <Explained view={answer.explained} />}
      </div>
    </div>
  )
}

function Question({ asked, onChange }: { asked: Asked; onChange: (asked: Asked) => void }) {
  return (
    <div class="policies-whose">
      <Field
        label="About"
        control={(attributes) => (
          <select
            {...attributes}
            class="input"
            value={asked.about}
            onChange={({ currentTarget: { value } }) => onChange({ ...asked, about: value === 'command' ? 'command' : 'url' })}
          >
            <option value="url">a request</option>
            <option value="command">a command of the host</option>
          </select>
        )}
      />
      {asked.about === 'url' ? (
        <>
          <Field
            label="Method"
            control={(attributes) => (
              <select
                {...attributes}
                class="input"
                value={asked.method}
                onChange={({ currentTarget }) => onChange({ ...asked, method: currentTarget.value })}
              >
                {[...new Set([...METHODS, asked.method])].map((method) => (
                  <option key={method} value={method}>
                    {nameOf(method)}
                  </option>
                ))}
              </select>
            )}
          />
          <Text
            label="URL"
            value={asked.url}
            placeholder="https://api.example.com/v1/items"
            onChange={(url) => onChange({ ...asked, url })}
          />
        </>
      ) : (
        <>
          <Text
            label="Command"
            value={asked.command}
            placeholder="git push origin main"
            onChange={(command) => onChange({ ...asked, command })}
          />
          <Text label="Folder" value={asked.cwd} placeholder="." onChange={(cwd) => onChange({ ...asked, cwd })} />
        </>
      )}
    </div>
  )
}

function Text(props: {
  readonly label: string
  readonly value: string
  readonly placeholder: string
  readonly onChange: (value: string) => void
}) {
  return (
    <Field
      label={props.label}
      control={(attributes) => (
        <input
          {...attributes}
          class="input mono"
          required
          value={props.value}
          placeholder={props.placeholder}
          onInput={({ currentTarget }) => props.onChange(currentTarget.value)}
        />
      )}
    />
  )
}

function Explained({ view: { action, what, rows, candidates } }: { view: ExplainedView }) {
  return (
    <section class="card stack" aria-label="Explanation">
      <h2 class="row">
        <Badge tone={TONES[action]}>{action}</Badge>
        <code>
          <Exact text={what} />
        </code>
      </h2>
      <dl class="facts">
        {joined(rows).map(([label, texts], index) => [
          <dt key={`${index} label`}>{label}</dt>,
          <dd key={`${index} text`}>
            {texts.map((text) => (
              <div key={text}>
                <Exact text={text} />
              </div>
            ))}
          </dd>,
        ])}
      </dl>
      {candidates.length > 0 && (
        <>
          <h3>Rules for this host</h3>
          <ul class="policies-candidates">
            {candidates.map(({ matches, text }) => (
              <li key={text}>
                <Badge tone={matches ? 'ok' : 'quiet'}>{matches ? 'matches' : 'does not match'}</Badge> <Exact text={text} />
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  )
}

/** What has no label goes on with the one before. */
function joined(rows: ExplainedView['rows']): [string, string[]][] {
  const found: [string, string[]][] = []
  for (const [label, text] of rows) {
    const last = found.at(-1)
    if (label === '' && last !== undefined) last[1].push(text)
    else found.push([label, [text]])
  }
  return found
}

import { useState } from 'preact/hooks'
import type { EffectiveView, PolicyListing } from '../../wire/policies.ts'
import { Exact, Name } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ProblemList } from './problem-list.tsx'
import { ChooseWhose, firstOf, queryOf, type Whose } from './whose.tsx'

/** What the layers of a session come to, line by line, each with the place that says it. */
export function Effective() {
  const { value: listing, problem } = useResource<PolicyListing>('/v1/policies')
  const [chosen, setChosen] = useState<Whose>()
  if (problem !== undefined) return <ProblemNote problem={problem} />
  if (listing === undefined) return <p class="quiet">…</p>
  const whose = chosen ?? firstOf(listing)
  const query = queryOf(whose)
  return (
    <div class="stack">
      <section class="card" aria-label="Whose policy">
        <ChooseWhose listing={listing} whose={whose} onChange={setChosen} />
      </section>
      {query === undefined ? (
        <p class="quiet">Name a workspace, or start a session.</p>
      ) : (
        <Lines path={`/v1/policies/effective?${new URLSearchParams(query).toString()}`} />
      )}
    </div>
  )
}

function Lines({ path }: { path: string }) {
  const { value, problem } = useResource<EffectiveView>(path)
  const [wanted, setWanted] = useState('')
  if (problem !== undefined) return <ProblemNote problem={problem} />
  if (value === undefined) return <p class="quiet">…</p>
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean)
  const isWanted = (text: string): boolean => words.every((word) => text.toLowerCase().includes(word))
  const shown = value.lines.filter(({ text, file = '' }) => isWanted(`${text} ${file}`))
  return (
    <>
      <section class="card stack" aria-label="Effective policy">
        <Field
          label="Search"
          control={(attributes) => (
            <input
              {...attributes}
              class="input"
              type="search"
              value={wanted}
              onInput={({ currentTarget }) => setWanted(currentTarget.value)}
            />
          )}
        />
        <p class="small quiet" role="status">
          {words.length === 0 ? `${value.lines.length} lines` : `${shown.length} of ${value.lines.length} lines`}
        </p>
        <ol class="policies-lines">
          {shown.map(({ text, depth, file, line, isDefault }, index) => (
            <li key={`${index} ${text}`} class={depth === 0 ? 'policies-head' : 'policies-inner'}>
              <code>
                <Exact text={text} />
              </code>
              <span class="small quiet">
                {file !== undefined ? <Exact text={line === undefined || line === 0 ? file : `${file}:${line}`} /> : isDefault && 'default'}
              </span>
            </li>
          ))}
        </ol>
      </section>
      <section class="card stack" aria-label="Files of it">
        <h2>Made of</h2>
        <ol>
          {value.files.map(({ file, layer }) => (
            <li key={file}>
              <Name text={file} /> {layer !== undefined && <span class="quiet">({layer})</span>}
            </li>
          ))}
        </ol>
        <ProblemList problems={value.warnings} />
      </section>
    </>
  )
}

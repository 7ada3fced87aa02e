import { useState } from 'preact/hooks'
import type { ProviderView, ReferenceOutcome } from '../../wire/secrets.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { Exact } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { notifyFailure } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { Problem } from '../api/client.ts'
import { act } from '../presence/act.ts'
import { Table } from '../parts/table.tsx'

const TONES: Readonly<Record<ProviderView['state'], Tone>> = { available: 'ok', locked: 'warn', missing: 'quiet', unset: 'quiet' }
const STATES: Readonly<Record<ProviderView['state'], string>> = {
  available: 'available',
  locked: 'locked',
  missing: 'program missing',
  unset: 'not set',
}

/** The places that policies may have secrets from, and whether a reference leads to one. */
export function Providers() {
  const { value: providers, problem } = useResource<readonly ProviderView[]>('/v1/providers')
  return (
    <section class="card stack" aria-labelledby="vault-providers">
      <h2 id="vault-providers">Where secrets come from</h2>
      {problem !== undefined && <ProblemNote problem={problem} />}
      <TestForm />
      {providers !== undefined && (
        <Table label="Table of sources" heads={['Source', 'State', 'What is there', 'A reference']} class="vault-table">
          {providers.map(({ name, state, says, example }) => (
            <tr key={name}>
              <th scope="row" class="mono">
                {name}
              </th>
              <td>
                <Badge tone={TONES[state]}>{STATES[state]}</Badge>
              </td>
              <td>
                <Exact text={says} />
              </td>
              <td class="mono">{example}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  )
}

function TestForm() {
  const [reference, setReference] = useState('')
  const [outcome, setOutcome] = useState<{ readonly of: string; readonly outcome: ReferenceOutcome }>()
  const [problem, setProblem] = useState<Problem>()
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    const of = reference.trim()
    if (of === '' || isBusy) return
    setBusy(true)
    setProblem(undefined)
    setOutcome(undefined)
    try {
      const path = `/v1/providers/${encodeURIComponent(of.split(':')[0] ?? '')}/test`
      setOutcome({
        of,
        outcome: await act<ReferenceOutcome>('POST', path, { reference: of }, 'look whether a reference leads to a secret'),
      })
    } catch (error) {
      if (error instanceof Problem) setProblem(error)
      else notifyFailure(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      <Field
        label="Test a reference"
        hint="Says whether it leads to a value. The value is not shown."
        control={(attributes) => (
          <div class="vault-line">
            <input
              {...attributes}
              class="input mono"
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
              placeholder="op:Private/GitHub/token"
              value={reference}
              onInput={(event) => setReference(event.currentTarget.value)}
            />
            <button type="submit" class="button" disabled={isBusy} aria-busy={isBusy}>
              Test
            </button>
          </div>
        )}
      />
      {problem !== undefined && <ProblemNote problem={problem} />}
      <div role="status">{outcome !== undefined && <Outcome of={outcome.of} outcome={outcome.outcome} />}</div>
    </form>
  )
}

function Outcome({ of, outcome }: { of: string; outcome: ReferenceOutcome }) {
  if (outcome.outcome === 'found')
    return (
      <p class="note note-ok">
        Found: <Exact text={of} /> leads to a value.
      </p>
    )
  const { code, message, hint } = outcome
  return (
    <div class="note note-warn">
      <p>
        {outcome.outcome === 'not_found' ? 'Not found' : 'It could not be had'}: <code>{code}</code> <Exact text={message} />
      </p>
      {hint !== undefined && (
        <p class="quiet">
          <Exact text={hint} />
        </p>
      )}
    </div>
  )
}
